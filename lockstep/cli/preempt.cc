// `lockstep preempt --job J ...`: somebody will be preempted, says the operator; or will not, or at
// another time. With `--wait`, how the preemption goes.
#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/cli/job_session.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/observe/preemption_text.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/json.h"
#include "lockstep/wire/native/preemption_messages.h"

namespace lockstep::cli {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

struct PreemptArguments {
  std::string job;
  std::vector<std::string> members;
  std::string host;
  std::string in;
  std::string reason;
  bool cancel = false;
  std::string extend;
  bool waits = false;
  std::string wait;  // how long; empty: until the end
};

// "task/2" of "task/2#1".
std::string WithoutLife(const std::string& name) { return name.substr(0, name.find('#')); }

std::optional<int32_t> IndexOf(const JobStatus& job, const std::string& said) {
  for (const MemberStatus& member : job.members) {
    if (said == member.name || said == WithoutLife(member.name)) return member.index;
  }
  int32_t index = 0;
  const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), index);
  const bool number = error == std::errc() && end == said.data() + said.size();
  if (!number || index < 0 || index >= job.size) return std::nullopt;
  return index;
}

absl::StatusOr<std::vector<int32_t>> IndicesOf(ServerCommand& self, const PreemptArguments& given) {
  std::vector<int32_t> indices;
  if (given.members.empty()) return indices;
  const auto status = self.Status(given.job);
  if (!status.ok()) return status.status();
  if (status->jobs.size() != 1) {
    return absl::InternalError("the server told of another job");
  }
  const JobStatus& job = status->jobs.front();
  std::vector<int32_t> all;
  for (const MemberStatus& member : job.members) all.push_back(member.index);
  for (const std::string& said : given.members) {
    const std::optional<int32_t> index = IndexOf(job, said);
    if (!index) {
      return absl::NotFoundError(
          absl::StrCat("job '", given.job, "' has no member '", said, "'; it has ",
                       observe::MembersRangesText(job, all),
                       ", which are also counted from 0 through all roles; `lockstep members ",
                       given.job, "` shows them"));
    }
    indices.push_back(*index);
  }
  return indices;
}

// What is to be sent, as far as the command line says it.
absl::StatusOr<NotifyPreemption> RequestOf(const PreemptArguments& given) {
  NotifyPreemption request = {.act = NoticeAct::kNotify, .source = "operator"};
  if (given.cancel) {
    request.act = NoticeAct::kWithdraw;  // of all notices
    return request;
  }
  const bool extends = !given.extend.empty();
  const std::string& when = extends ? given.extend : given.in;
  if (!when.empty()) {
    const auto left = ParseDuration(extends ? "--extend" : "--in", when, /*may_be_zero=*/true);
    if (!left.ok()) return left.status();
    request.left_us = absl::ToInt64Microseconds(*left);
  }
  request.text = given.reason;
  if (extends) {
    request.act = NoticeAct::kExtend;
    return request;
  }
  request.host = given.host;
  // A name of its own: said again it would be the same notice.
  request.event = absl::StrFormat("%016x", runtime::RandomNumber());
  return request;
}

// What to do about a refusal, which the server cannot know of a command line.
absl::Status WithRemedy(const absl::Status& status, const std::string& job) {
  if (ReasonOf(status) != "no_preemption") return status;
  return absl::Status(status.code(),
                      absl::StrCat(std::string(status.message()), "; `lockstep status ", job,
                                   "` shows the last one. Without --cancel and --extend, this "
                                   "command opens one"));
}

// Follows one preemption to its outcome, a line for each phase.
class Onlooker {
 public:
  Onlooker(ServerCommand& self, const PreemptArguments& given, int64_t id, NoticeAct act)
      : self_(self), job_(given.job), id_(id), act_(act), waiter_(self, given.job) {}

  int Run(absl::Duration timeout) {
    const Time deadline = began_ + timeout;
    WatchPreemption request;
    for (;;) {
      const auto reply = waiter_.Ask(request, deadline - runtime::MonotonicNow());
      if (waiter_.opened() && absl::IsDeadlineExceeded(reply.status())) return TellTimeout(timeout);
      if (!reply.ok()) return self_.Fail(reply.status());
      const PreemptionState& state = reply->state;
      request.after = state.version;
      if (state.id != id_) return TellLost(state);
      const JobStatus job = MembersNow(state);
      self_.json() ? PrintJson(job) : Print(job);
      self_.out().flush();
      if (state.phase != PreemptionPhase::kEnded) continue;
      return observe::EndedWell(state.outcome) ? kExitOk : kExitNotSaved;
    }
  }

 private:
  // The job with this state; its members as far as the server still tells of that preemption.
  JobStatus MembersNow(const PreemptionState& state) {
    JobStatus job = {.job = job_};
    const auto status = waiter_.Ask(StatusRequest{.job = job_}, self_.timeout());
    if (status.ok() && status->jobs.size() == 1) job = status->jobs.front();
    if (!job.preemption || job.preemption->state.id != id_) job.preemption.emplace();
    job.preemption->state = state;
    return job;
  }

  void PrintJson(const JobStatus& job) {
    Json line = Json::object();
    line["elapsed_us"] = absl::ToInt64Microseconds(runtime::MonotonicNow() - began_);
    const Json fields = ToJson(*job.preemption);
    for (const auto& [name, value] : fields.items()) line[name] = value;
    self_.out() << line.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }

  void Line(const std::string& text) {
    self_.out() << absl::StrFormat("%8.3fs  %s\n",
                                   absl::ToDoubleSeconds(runtime::MonotonicNow() - began_), text);
  }

  // Phases that went by between two answers are told as well.
  void Print(const JobStatus& job) {
    const PreemptionState& state = job.preemption->state;
    if (!std::exchange(opened_, true)) {
      const char* const what = act_ == NoticeAct::kExtend     ? "moved"
                               : act_ == NoticeAct::kWithdraw ? "withdrawn"
                                                              : "opened";
      Line(absl::StrFormat("%s: preemption %d of %s, %s", what, state.id,
                           observe::SubjectsText(job, state), observe::LeftText(state)));
    }
    if (state.phase == PreemptionPhase::kPending && told_ != state.phase) {
      Line(
          "pending: members will agree on a step to save at when the death is near "
          "(preempt_window)");
    }
    if (state.phase == PreemptionPhase::kHolding && told_ != state.phase) {
      Line(absl::StrFormat("holding: asking %d members for their next step",
                           job.preemption->members.size()));
    }
    told_ = state.phase;
    if (state.sync_step && !std::exchange(agreed_, true)) PrintAgreed(job);
    if (state.withdrawn && !std::exchange(withdrawn_, true)) {
      Line("withdrawn: no member will die; all members save nevertheless and continue");
    }
    if (state.phase != PreemptionPhase::kEnded) return;
    for (const std::string& line : observe::SyncLines(job)) Line("  " + line);
    Line(absl::StrCat("ended: ", std::string(NameOf(state.outcome)), ": ",
                      observe::CleanText(state.text, 3000)));
  }

  void PrintAgreed(const JobStatus& job) {
    std::string text =
        absl::StrFormat("agreed: all save at step %d, by %d members",
                        *job.preemption->state.sync_step, observe::MembersThatAgreed(job).size());
    const std::vector<int32_t> silent = observe::MembersThatSync(job, SyncState::kSilent);
    if (!silent.empty()) {
      absl::StrAppend(&text, ", without ", observe::MembersRangesText(job, silent),
                      ", silent so far");
    }
    Line(text);
  }

  int TellTimeout(absl::Duration timeout) {
    std::string text =
        absl::StrCat("preemption ", id_, " has not ended within ", absl::FormatDuration(timeout));
    const auto status = self_.Status(job_);
    if (status.ok() && status->jobs.size() == 1 && status->jobs.front().preemption) {
      std::vector<std::string> lines = observe::SyncLines(status->jobs.front());
      for (std::string& line : lines) {
        line.erase(std::unique(line.begin(), line.end(),
                               [](char a, char b) { return a == ' ' && b == ' '; }),
                   line.end());
      }
      if (!lines.empty()) absl::StrAppend(&text, ": ", absl::StrJoin(lines, "; "));
    }
    return self_.Fail(absl::DeadlineExceededError(text));
  }

  // The one that was followed is not the newest any more.
  int TellLost(const PreemptionState& state) {
    if (state.id > id_) {
      self_.Say(absl::StrCat("preemption ", id_, " has ended, and ", state.id,
                             " has begun; `lockstep events ", job_, "` shows how it ended"));
    } else {
      self_.Say(absl::StrCat("lost track of preemption ", id_,
                             ": another attempt of the job has begun, or the server has lost its "
                             "state; `lockstep events ",
                             job_, "` shows what is still recorded"));
    }
    return kExitFailed;
  }

  ServerCommand& self_;
  const std::string job_;
  const int64_t id_;
  const NoticeAct act_;
  const Time began_ = runtime::MonotonicNow();
  Waiter waiter_;
  PreemptionPhase told_ = PreemptionPhase::kUnspecified;
  bool opened_ = false;
  bool agreed_ = false;
  bool withdrawn_ = false;
};

std::string Summary(const PreemptArguments& given, int64_t id) {
  if (given.cancel) return absl::StrCat("preemption ", id, ": all notices are withdrawn");
  if (!given.extend.empty()) {
    return absl::StrCat("preemption ", id, ": members will die ", given.extend, " from now");
  }
  return absl::StrCat("preemption ", id, "; `lockstep status ", given.job, "` shows its progress");
}

// Nobody is there who could save, and nobody who could be taken away.
bool IsIdle(const JobStatus& job) {
  const bool nobody = std::all_of(job.members.begin(), job.members.end(), [](const auto& member) {
    using enum MemberCondition;
    const bool gone = member.condition == kMissing || member.condition == kLost ||
                      member.condition == kFailed || member.condition == kLeft;
    const bool runs =
        member.process == ProcessState::kRunning || member.process == ProcessState::kStopped;
    return gone && !runs;
  });
  return nobody && (!job.torch_store || job.torch_store->connections == 0);
}

absl::Status RefuseIfIdle(ServerCommand& self, const std::string& name) {
  const auto status = self.Status(name);
  if (!status.ok()) return status.status();
  if (status->jobs.size() != 1 || !IsIdle(status->jobs.front())) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("no member of job '", name,
                   "' is running, so nothing can be saved; repeat the notice when "
                   "one is"));
}

int Preempt(ServerCommand& self, const PreemptArguments& given) {
  const auto usage = [&](const absl::Status& status) {
    self.Say(std::string(status.message()));
    return kExitUsage;
  };
  auto request = RequestOf(given);
  if (!request.ok()) return usage(request.status());
  absl::Duration wait = absl::InfiniteDuration();
  if (!given.wait.empty()) {
    const auto parsed = ParseDuration("--wait", given.wait);
    if (!parsed.ok()) return usage(parsed.status());
    wait = *parsed;
  }
  const auto subjects = IndicesOf(self, given);
  if (!subjects.ok()) return self.Fail(subjects.status());
  request->subjects = *subjects;

  const auto client = OpenJob(self, given.job);
  if (!client.ok()) return self.Fail(client.status());
  if (request->act == NoticeAct::kNotify) {
    const absl::Status idle = RefuseIfIdle(self, given.job);
    if (!idle.ok()) return self.Fail(idle);
  }
  const auto reply = (*client)->Call(*request, self.timeout());
  if (!reply.ok()) return self.Fail(WithRemedy(reply.status(), given.job));
  if (given.waits) return Onlooker(self, given, reply->preemption, request->act).Run(wait);
  self.out() << (self.json() ? ToJson(*reply).dump() : Summary(given, reply->preemption)) << "\n";
  return kExitOk;
}

}  // namespace

void AddPreempt(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "preempt", "Announce a preemption, so that all members of a job save at one step");
  auto given = std::make_shared<PreemptArguments>();
  command->add_option("job,--job", given->job, "Job")->type_name("JOB")->required();
  CLI::Option* const member =
      command
          ->add_option(
              "--member", given->members,
              "Member that will die: ROLE/INDEX, or its number in the job. Default without "
              "--host: all members")
          ->type_name("MEMBER")
          ->delimiter(',');
  CLI::Option* const host =
      command->add_option("--host", given->host, "All members on this host will die")
          ->type_name("HOST");
  CLI::Option* const in =
      command->add_option("--in", given->in, "Time until the death. Default: unknown")
          ->type_name("DURATION");
  command->add_option("--reason", given->reason, "Reason to show")->type_name("TEXT");
  CLI::Option* const cancel = command->add_flag(
      "--cancel", given->cancel, "Withdraw all notices of the open preemption, from any source");
  CLI::Option* const extend =
      command
          ->add_option("--extend", given->extend,
                       "Change the time of death of the open preemption to this long from now")
          ->type_name("DURATION");
  for (CLI::Option* const other : {member, host, in, extend}) cancel->excludes(other);
  for (CLI::Option* const other : {member, host, in}) extend->excludes(other);
  CLI::Option* const wait =
      command
          ->add_option("--wait", given->wait,
                       "Print the progress until the preemption ends, for at most this long")
          ->type_name("[DURATION]")
          ->expected(0, 1);
  AddServerCommand(*command, invocation, "preempt", [given, wait](ServerCommand& self) {
    given->waits = wait->count() > 0;
    return Preempt(self, *given);
  });
}

}  // namespace lockstep::cli
