#include "lockstep/observe/why.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/limits.h"
#include "lockstep/observe/advice.h"
#include "lockstep/observe/member_groups.h"
#include "lockstep/observe/store_text.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/observe/why_parts.h"
#include "lockstep/observe/why_preemption.h"
#include "lockstep/observe/why_processes.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

// Barriers and keys that are told of; the rest is counted.
constexpr size_t kWaitsTold = 3;

bool IsShutdown(const BarrierStatus& barrier) { return absl::StartsWith(barrier.id, "Shutdown::"); }

std::string BarrierName(const BarrierStatus& barrier) {
  return absl::StrFormat("barrier '%s' (use %d)", CleanText(barrier.id, 80), barrier.counter);
}

// --- What went wrong ---

// The attempt's first error that followed from no other.
const ErrorStatus* RootCause(const JobStatus& job) {
  const ErrorStatus* first = nullptr;
  for (const ErrorStatus& error : job.errors) {
    if (error.attempt != job.attempt || error.consequence) continue;
    if (first == nullptr || error.at_ago_us > first->at_ago_us) first = &error;
  }
  return first;
}

// Where all members that are lost ran, when there are several and it is one host.
std::string CommonHost(const std::vector<const MemberStatus*>& members) {
  if (members.size() < 2) return "";
  for (const MemberStatus* member : members) {
    if (member->host.empty() || member->host != members.front()->host) return "";
  }
  return members.front()->host;
}

void TellRootCause(const JobStatus& job, const ErrorStatus& root, Diagnosis& out) {
  std::string text = absl::StrFormat("First error, %s ago", DurationText(root.at_ago_us));
  const auto member =
      std::find_if(job.members.begin(), job.members.end(),
                   [&](const MemberStatus& candidate) { return candidate.name == root.origin; });
  // Most texts begin with the member themselves.
  if (!root.origin.empty() && !absl::StartsWith(root.message, root.origin)) {
    absl::StrAppend(&text, ", about ", CleanText(root.origin));
    if (member != job.members.end() && !ProcessText(*member).empty()) {
      absl::StrAppend(&text, " (", ProcessText(*member), ")");
    }
  }
  absl::StrAppend(&text, ": ", CleanText(root.message, kErrorTextBytesMax), " [",
                  CleanText(root.reason), "]");
  out.findings.push_back(std::move(text));
  if (member != job.members.end() && (member->step || !member->phase.empty())) {
    out.findings.push_back(absl::StrCat(
        "It was last seen", member->step ? absl::StrCat(" at step ", *member->step) : "",
        member->phase.empty() ? "" : absl::StrCat(" in '", CleanText(member->phase), "'"), "."));
  }
  for (const ErrorStatus& error : job.errors) {
    const bool before = error.attempt == job.attempt - 1 && !error.consequence;
    if (!before || error.reason != root.reason || error.origin.empty()) continue;
    // Names differ by the number of the life: task/2#1, task/2#2.
    const auto without_life = [](const std::string& name) {
      return name.substr(0, name.find('#'));
    };
    if (without_life(error.origin) != without_life(root.origin)) continue;
    out.findings.push_back(
        absl::StrFormat("The previous attempt failed because of the same member, for the same "
                        "reason, %s ago.",
                        DurationText(error.at_ago_us)));
    break;
  }
}

void TellWhatFollowed(const JobStatus& job, const ErrorStatus* root, Diagnosis& out) {
  std::vector<const MemberStatus*> lost = MembersThatAre(job, MemberCondition::kLost);
  // Where all members run on one host, that is no news.
  const bool elsewhere = std::any_of(job.members.begin(), job.members.end(), [&](const auto& m) {
    return !lost.empty() && !m.host.empty() && m.host != lost.front()->host;
  });
  if (const std::string host = CommonHost(lost); !host.empty() && elsewhere) {
    out.findings.push_back(
        absl::StrFormat("All %d lost members ran on %s.", lost.size(), CleanText(host)));
    out.advice.push_back(absl::StrFormat("Check host %s first.", CleanText(host)));
  }
  lost.erase(
      std::remove_if(lost.begin(), lost.end(),
                     [&](const auto* m) { return root != nullptr && m->name == root->origin; }),
      lost.end());
  if (!lost.empty()) {
    out.followed.push_back(absl::StrFormat("%d more %s lost: %s.", lost.size(),
                                           lost.size() == 1 ? "member was" : "members were",
                                           MembersRangesText(job, IndicesOf(lost))));
  }
  size_t consequences = 0;
  for (const ErrorStatus& error : job.errors) {
    consequences += error.attempt == job.attempt && error.consequence;
  }
  if (consequences > 0) {
    out.followed.push_back(
        absl::StrFormat("%d more %s of it; ignore them at first.", consequences,
                        consequences == 1 ? "error is a consequence" : "errors are consequences"));
  }
  const auto failed = MembersThatAre(job, MemberCondition::kFailed);
  if (!failed.empty()) {
    out.followed.push_back(absl::StrFormat(
        "%s %s notified of the failure, or failed because of it.",
        MembersRangesText(job, IndicesOf(failed)), failed.size() == 1 ? "was" : "were"));
  }
  const auto connected = MembersThatAre(job, MemberCondition::kConnected);
  if (!connected.empty()) {
    out.followed.push_back(absl::StrFormat("%d of %d %s still connected: %s.", connected.size(),
                                           job.size, connected.size() == 1 ? "is" : "are",
                                           MembersRangesText(job, IndicesOf(connected))));
  }
}

Diagnosis Trouble(const JobStatus& job) {
  Diagnosis out{.verdict = Verdict::kTrouble};
  const ErrorStatus* root = RootCause(job);
  const bool failed = job.state == AttemptState::kFailed;
  out.summary = failed ? absl::StrFormat("attempt %d failed", job.attempt)
                       : absl::StrFormat("members are lost; attempt %d continues", job.attempt);
  if (root != nullptr) {
    TellRootCause(job, *root, out);
    if (const std::string advice = AdviceFor(root->reason, job.job); !advice.empty()) {
      out.advice.push_back(advice);
    }
  } else {
    out.findings.push_back("The first error is no longer stored (kept_errors_max).");
    for (const MemberCondition condition : {MemberCondition::kLost, MemberCondition::kFailed}) {
      TellEach(job, IndicesOf(MembersThatAre(job, condition)), out.findings);
    }
  }
  TellWhatFollowed(job, root, out);
  out.advice.push_back(
      failed ? absl::StrFormat("Then restart the members: the first that registers begins attempt "
                               "%d.",
                               job.attempt + 1)
             : "Then restart the lost members: they can rejoin the job.");
  return out;
}

// --- Who waits for whom ---

// By member: the barrier that it waits at.
std::map<int32_t, const BarrierStatus*> PlacesOf(const JobStatus& job) {
  std::map<int32_t, const BarrierStatus*> places;
  for (const BarrierStatus& barrier : job.barriers) {
    for (const int32_t member : barrier.waiting) places.emplace(member, &barrier);
  }
  return places;
}

// Two groups that wait at different barriers, each for members of the other: they have taken
// different ways through the program. True when there are such.
bool TellMismatch(const JobStatus& job, Diagnosis& out) {
  const auto places = PlacesOf(job);
  std::set<std::pair<const BarrierStatus*, const BarrierStatus*>> told;
  for (const BarrierStatus& here : job.barriers) {
    for (const int32_t missing : here.awaited) {
      const auto place = places.find(missing);
      if (place == places.end() || place->second == &here) continue;
      const BarrierStatus& there = *place->second;
      const bool both = std::any_of(there.awaited.begin(), there.awaited.end(), [&](int32_t other) {
        return std::find(here.waiting.begin(), here.waiting.end(), other) != here.waiting.end();
      });
      const std::pair<const BarrierStatus*, const BarrierStatus*> pair =
          std::minmax({&here, &there});
      if (!both || told.size() == kWaitsTold || !told.insert(pair).second) continue;
      out.findings.push_back(
          absl::StrFormat("Two groups wait for each other: %s at %s for %s, and %s at %s for %s.",
                          MembersRangesText(job, here.waiting), BarrierName(here),
                          DurationText(here.opened_ago_us), MembersRangesText(job, there.waiting),
                          BarrierName(there), DurationText(there.opened_ago_us)));
    }
  }
  if (told.empty()) return false;
  out.summary = "deadlock: members wait for each other at different barriers";
  out.advice.push_back(
      "The groups took different paths through the program. Compare what they did before: an extra "
      "step, a caught exception, a condition that is true for some members only.");
  return true;
}

void TellBarrier(const JobStatus& job, const BarrierStatus& barrier, Diagnosis& out) {
  const size_t all = barrier.waiting.size() + barrier.awaited.size();
  const std::string left = barrier.deadline_in_us ? DurationText(*barrier.deadline_in_us) + " left"
                                                  : std::string("no deadline");
  out.findings.push_back(
      IsShutdown(barrier)
          ? absl::StrFormat(
                "The job is ending: %d of %d have finished, the first %s ago; %s. Still "
                "running:",
                barrier.waiting.size(), all, DurationText(barrier.opened_ago_us), left)
          : absl::StrFormat(
                "%s: %d of %d have arrived, the first %s ago; %s. Missing:", BarrierName(barrier),
                barrier.waiting.size(), all, DurationText(barrier.opened_ago_us), left));
  TellEach(job, barrier.awaited, out.findings);
  int64_t furthest = -1;
  for (const int32_t i : barrier.waiting) {
    const MemberStatus* member = MemberAt(job, i);
    if (member != nullptr && member->step) furthest = std::max(furthest, *member->step);
  }
  std::vector<int32_t> behind;
  for (const int32_t i : barrier.awaited) {
    const MemberStatus* member = MemberAt(job, i);
    if (member != nullptr && member->step && *member->step < furthest) behind.push_back(i);
  }
  if (!behind.empty()) {
    out.findings.push_back(absl::StrFormat("  %s %s behind: the waiting members are at step %d.",
                                           MembersRangesText(job, behind),
                                           behind.size() == 1 ? "is" : "are", furthest));
  }
}

void TellWaits(const JobStatus& job, Diagnosis& out) {
  const bool mismatch = TellMismatch(job, out);
  for (size_t i = 0; !mismatch && i < std::min(job.barriers.size(), kWaitsTold); ++i) {
    TellBarrier(job, job.barriers[i], out);
  }
  const size_t open =
      std::max(job.barriers.size(), static_cast<size_t>(std::max<int64_t>(0, job.barriers_open)));
  if (!mismatch && open > kWaitsTold) {
    out.findings.push_back(absl::StrFormat("+%d more open barriers.", open - kWaitsTold));
  }
  if (!mismatch && !job.barriers.empty()) {
    out.advice.push_back(
        absl::StrFormat("Check what the missing members do: their output, and their position in "
                        "the code (lockstep stacks %s).",
                        CleanText(job.job)));
  }
  for (size_t i = 0; i < std::min(job.key_waits.size(), kWaitsTold); ++i) {
    const KeyWaitStatus& wait = job.key_waits[i];
    out.findings.push_back(absl::StrFormat(
        "Key '%s' is not set; %d %s for it%s, the first for %s.", CleanText(wait.key, 200),
        wait.waiters, wait.waiters == 1 ? "waits" : "wait",
        wait.members.empty() ? "" : " (" + MembersRangesText(job, wait.members) + ")",
        DurationText(wait.since_ago_us)));
  }
  const size_t awaited =
      std::max(job.key_waits.size(), static_cast<size_t>(std::max<int64_t>(0, job.keys_awaited)));
  if (awaited > kWaitsTold) {
    out.findings.push_back(absl::StrFormat("+%d more awaited keys.", awaited - kWaitsTold));
  }
  if (!job.key_waits.empty()) {
    out.advice.push_back(
        "Find the process that should set the key, and check whether it got that far.");
  }
  TellStore(job, out);
}

// --- The states of a job in which nothing has gone wrong ---

std::string ListenersText(const JobStatus& job) {
  std::string text = "LOCKSTEP_COORDINATOR (native clients)";
  if (!job.grpc.empty()) absl::StrAppend(&text, " or ", CleanText(job.grpc), " (stock clients)");
  if (!job.store.empty()) absl::StrAppend(&text, " or ", CleanText(job.store), " (PyTorch)");
  return text;
}

Diagnosis WaitingToStart(const JobStatus& job) {
  Diagnosis out{.verdict = Verdict::kWaiting};
  const auto missing = MembersThatAre(job, MemberCondition::kMissing);
  if (missing.size() == job.members.size()) {
    if (TellProcesses(job, out)) return out;
    out.summary = absl::StrFormat("0 of %d members have registered", job.size);
    out.advice.push_back(
        absl::StrFormat("Start the members. Their address for the job: %s.", ListenersText(job)));
    return out;
  }
  out.summary =
      absl::StrFormat("%d of %d members have registered; the attempt begins when all have",
                      job.members.size() - missing.size(), job.size);
  out.findings.push_back(
      absl::StrFormat("Missing since the first member registered%s:",
                      job.started_ago_us ? ", " + DurationText(*job.started_ago_us) + " ago" : ""));
  TellEach(job, IndicesOf(missing), out.findings);
  const auto started = std::count_if(missing.begin(), missing.end(),
                                     [](const MemberStatus* member) { return member->pid != 0; });
  if (started > 0) {
    out.findings.push_back(absl::StrFormat(
        "%d of the missing members were started by a launcher but have not registered.", started));
    out.advice.push_back(
        "Check the output of the started members: do they spend a long time importing, loading or "
        "compiling, or connect to another address?");
  }
  out.advice.push_back(absl::StrFormat(
      "Check that the missing members were started and can reach %s.", ListenersText(job)));
  return out;
}

// "at step 100", "at steps 98 to 100"; empty when nobody says.
std::string StepsText(const JobStatus& job) {
  int64_t least = 0;
  int64_t most = -1;
  for (const MemberStatus& member : job.members) {
    if (!member.step) continue;
    least = most < 0 ? *member.step : std::min(least, *member.step);
    most = std::max(most, *member.step);
  }
  if (most < 0) return "";
  return least == most ? absl::StrFormat(", at step %d", most)
                       : absl::StrFormat(", at steps %d to %d", least, most);
}

Diagnosis Running(const JobStatus& job) {
  Diagnosis out;
  const auto suspects = MembersThatAre(job, MemberCondition::kSuspect);
  const bool waits = !job.barriers.empty() || !job.key_waits.empty() ||
                     (job.torch_store && !job.torch_store->awaited.empty());
  if (!suspects.empty()) {
    out.findings.push_back(absl::StrFormat("%d %s suspect (silent, not yet lost):", suspects.size(),
                                           suspects.size() == 1 ? "member is" : "members are"));
    TellEach(job, IndicesOf(suspects), out.findings);
    out.advice.push_back(
        "A suspect recovers by itself or is lost at its time-out. Check its host meanwhile.");
  }
  if (waits) TellWaits(job, out);
  if (suspects.empty() && !waits) {
    out.summary =
        absl::StrFormat("all is well: %s%s; no member waits", CountsText(job), StepsText(job));
    return out;
  }
  out.verdict = Verdict::kWaiting;
  if (out.summary.empty()) {
    out.summary = waits ? "some members wait for others" : "a member is suspect";
  }
  return out;
}

Diagnosis DiagnoseState(const JobStatus& job) {
  Diagnosis out;
  const bool lost = !MembersThatAre(job, MemberCondition::kLost).empty() ||
                    !MembersThatAre(job, MemberCondition::kFailed).empty();
  if (job.state == AttemptState::kFailed || lost) {
    out = Trouble(job);
    // Those who go on may wait for those who are gone.
    if (job.state != AttemptState::kFailed && !job.barriers.empty()) TellWaits(job, out);
    return out;
  }
  if (!OnlyProcesses(job) && !OnlyTorch(job) && TellFailedProcesses(job, out)) return out;
  switch (job.state) {
    case AttemptState::kEnded:
      return {.summary = absl::StrFormat("attempt %d ended successfully: %s", job.attempt,
                                         CountsText(job))};
    case AttemptState::kStopped:
      return {.verdict = Verdict::kWaiting,
              .summary = "the server is shutting down",
              .advice = {"Restart it. With the same state directory, the job continues."}};
    case AttemptState::kWaiting:
      return OnlyTorch(job) ? DiagnoseTorch(job) : WaitingToStart(job);
    default:
      return Running(job);
  }
}

}  // namespace

namespace {

// Of a collective that hangs the server knows nothing: where the processes are tells of it.
void TellSnapshots(const JobStatus& job, const std::vector<StackSnapshot>& snapshots,
                   Diagnosis& out) {
  bool now = false;
  if (!snapshots.empty() && !snapshots.front().silent.empty()) {
    std::string text =
        absl::StrCat("no launcher answers for ", MembersRangesText(job, snapshots.front().silent),
                     ", whose processes were last reported running");
    if (out.verdict == Verdict::kFine) {
      out.verdict = Verdict::kWaiting;
      out.summary = text;
    }
    out.places.push_back("now: " + std::move(text));
    out.advice.push_back(
        "Check whether `lockstep run` still runs on their hosts. If it was killed, its processes "
        "have ended too; otherwise it is cut off from the server or overloaded.");
  }
  for (const StackSnapshot& snapshot : snapshots) {
    if (snapshot.processes.empty()) continue;
    if (!snapshot.because.empty()) {
      out.places.push_back(absl::StrCat("when ", CleanText(snapshot.because), " ",
                                        DurationText(snapshot.ago_us),
                                        " ago: ", SnapshotText(snapshot)));
    } else if (!std::exchange(now, true)) {
      out.places.push_back(absl::StrCat("now: ", SnapshotText(snapshot)));
    }
  }
  if (out.verdict != Verdict::kFine || out.suspects.empty()) return;
  out.verdict = Verdict::kWaiting;
  std::vector<int32_t> members;
  for (const Suspect& suspect : out.suspects) members.push_back(suspect.member);
  out.summary = absl::StrCat("the others probably wait for ", MembersRangesText(job, members));
}

}  // namespace

Diagnosis Diagnose(const JobStatus& job, const std::vector<StackSnapshot>& snapshots,
                   const std::vector<DataWait>& data) {
  Diagnosis out = DiagnoseState(job);
  const bool over = job.state == AttemptState::kEnded || job.state == AttemptState::kStopped;
  if (!over) out.suspects = FindSuspects(job, snapshots);
  const bool anybody = std::any_of(job.members.begin(), job.members.end(), [](const auto& member) {
    return member.pid != 0 || member.condition != MemberCondition::kMissing;
  });
  out.nobody_suspected = !over && anybody && out.verdict != Verdict::kFine && out.suspects.empty();
  TellPreemption(job, out);
  TellData(job, data, out);
  TellSnapshots(job, snapshots, out);
  return out;
}

std::string WhyText(const JobStatus& job, const std::vector<StackSnapshot>& snapshots,
                    const std::vector<DataWait>& data) {
  const Diagnosis diagnosis = Diagnose(job, snapshots, data);
  std::string text = absl::StrCat("job ", CleanText(job.job), ": ", diagnosis.summary, "\n");
  const auto tell = [&](const char* title, const std::vector<std::string>& sentences) {
    if (sentences.empty()) return;
    absl::StrAppend(&text, "\n", title, "\n");
    for (const std::string& sentence : sentences) absl::StrAppend(&text, "  ", sentence, "\n");
  };
  std::vector<std::string> suspects;
  for (const Suspect& suspect : diagnosis.suspects) {
    if (suspects.size() < kNamesInErrorMax) suspects.push_back(SuspectText(suspect));
  }
  if (diagnosis.suspects.size() > suspects.size()) {
    suspects.push_back(absl::StrFormat("+%d more", diagnosis.suspects.size() - suspects.size()));
  }
  if (diagnosis.nobody_suspected) suspects.push_back("no suspect: not enough evidence");
  tell("suspects", suspects);
  tell(diagnosis.verdict == Verdict::kTrouble ? "what happened" : "observations",
       diagnosis.findings);
  tell("what followed", diagnosis.followed);
  tell("where the processes are", diagnosis.places);
  tell("what to do", diagnosis.advice);
  return text;
}

std::string WhyJson(const JobStatus& job, const std::vector<StackSnapshot>& snapshots,
                    const std::vector<DataWait>& data) {
  const Diagnosis diagnosis = Diagnose(job, snapshots, data);
  const char* verdict = diagnosis.verdict == Verdict::kFine      ? "fine"
                        : diagnosis.verdict == Verdict::kWaiting ? "waiting"
                                                                 : "trouble";
  const auto sentences = [](const std::vector<std::string>& texts) {
    Json array = Json::array();
    for (const std::string& text : texts) {
      array.push_back(std::string(absl::StripLeadingAsciiWhitespace(text)));
    }
    return array;
  };
  Json suspects = Json::array();
  for (const Suspect& suspect : diagnosis.suspects) {
    suspects.push_back({{"member", suspect.member},
                        {"name", suspect.name},
                        {"host", suspect.host},
                        {"pid", suspect.pid},
                        {"since_ago_us", ToJson(suspect.since_ago_us)},
                        {"evidence", suspect.evidence},
                        {"stack_place", suspect.stack_place}});
  }
  const Json json = {{"job", job.job},
                     {"verdict", verdict},
                     {"summary", diagnosis.summary},
                     {"findings", sentences(diagnosis.findings)},
                     {"followed", sentences(diagnosis.followed)},
                     {"advice", sentences(diagnosis.advice)},
                     {"places", sentences(diagnosis.places)},
                     {"suspects", std::move(suspects)}};
  // Functions and files of programs may be any bytes.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::observe
