#include "lockstep/cli/gather_stacks.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/cli/job_lookup.h"
#include "lockstep/client/session.h"
#include "lockstep/observe/odd_one_out.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/stack_question.h"

namespace lockstep::cli {
namespace {

using wire::native::EncodeQuestion;
using wire::native::JobStatus;
using wire::native::kStackKeysLive;
using wire::native::kStackQuestionKey;
using wire::native::MemberCondition;
using wire::native::MemberStatus;
using wire::native::ProcessState;
using wire::native::StackAnswersDirectory;

// Between two looks, so that what both say is no matter of a moment.
constexpr absl::Duration kBetweenLooks = absl::Seconds(1);
// While answers are waited for.
constexpr absl::Duration kLookForTheEnded = absl::Milliseconds(300);
static_assert(kLookForTheEnded < kBetweenLooks);

std::string NewId() {
  uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) {
    value = static_cast<uint64_t>(::getpid());
  }
  return absl::StrFormat("%016x", value);
}

bool IsThere(MemberCondition condition) {
  return condition == MemberCondition::kConnected || condition == MemberCondition::kLeft;
}

// Names of members that run, as far as is known, and are asked for.
std::map<int32_t, std::string> Expected(const JobStatus& job, const std::vector<int32_t>& members) {
  std::map<int32_t, std::string> expected;
  for (const MemberStatus& member : job.members) {
    const bool asked =
        members.empty() || std::find(members.begin(), members.end(), member.index) != members.end();
    if (asked && MayAnswer(member)) expected[member.index] = member.name;
  }
  return expected;
}

// Who has ended meanwhile is told of by nobody: its launcher may have ended too.
void ForgetTheEnded(const std::string& coordinator, const std::string& job,
                    std::map<int32_t, std::string>& expected) {
  const auto status = StatusOf(coordinator, job, kLookForTheEnded, "lockstep stacks");
  if (!status) return;
  for (const MemberStatus& member : status->members) {
    if (!MayAnswer(member)) expected.erase(member.index);
  }
}

// Of each member the newest: a launcher may have answered twice, having lost its connection.
std::vector<launch::ProcessStacks> ByMember(std::vector<launch::ProcessStacks> processes) {
  std::map<int32_t, launch::ProcessStacks> by_member;
  for (launch::ProcessStacks& process : processes) {
    by_member.insert_or_assign(process.member, std::move(process));
  }
  std::vector<launch::ProcessStacks> sorted;
  for (auto& [member, process] : by_member) sorted.push_back(std::move(process));
  return sorted;
}

std::vector<launch::ProcessStacks> Decode(const std::vector<KeyEntry>& answers) {
  std::vector<launch::ProcessStacks> all;
  for (const KeyEntry& answer : answers) {
    auto told = launch::DecodeStacks(answer.value);
    if (!told.ok()) continue;  // of another version
    for (launch::ProcessStacks& process : *told) all.push_back(std::move(process));
  }
  return all;
}

// Which tokens would do, where this one does not.
absl::Status SayWhoMayLook(const absl::Status& status) {
  if (wire::native::ReasonOf(status) != "not_permitted") return status;
  return wire::native::WithReason(
      absl::PermissionDeniedError(
          absl::StrCat("where processes are in their code and what they printed last takes a token "
                       "of role launch or operator: ",
                       std::string(status.message()))),
      "not_permitted");
}

// What was taken by itself. NOT_FOUND: nothing that is still there.
absl::StatusOr<observe::StackSnapshot> LastSnapshot(const std::string& coordinator,
                                                    const JobStatus& job, absl::Duration timeout) {
  const auto session = Session::Open(
      {.address = coordinator, .job = job.job, .who = "lockstep why", .timeout = timeout});
  if (!session.ok()) return SayWhoMayLook(session.status());
  const auto answers =
      (*session)->keys().List(StackAnswersDirectory(job.stacks->id), {.timeout = timeout});
  if (!answers.ok()) return SayWhoMayLook(answers.status());
  if (answers->empty()) return absl::NotFoundError("the launchers' answers are not kept any more");
  return observe::StackSnapshot{.processes = LocationsOf(ByMember(Decode(*answers))),
                                .because = job.stacks->because,
                                .ago_us = job.stacks->ago_us,
                                .awaited = job.stacks->awaited};
}

bool AnyRuns(const JobStatus& job) { return !Expected(job, {}).empty(); }

bool AnyFailed(const JobStatus& job) {
  return std::any_of(job.members.begin(), job.members.end(), [](const MemberStatus& member) {
    return member.process == ProcessState::kFailed || member.condition == MemberCondition::kLost;
  });
}

// Of those whose launcher has told that they run: of others there may be none to tell.
std::vector<int32_t> SilentOf(const JobStatus& job, const std::vector<std::string>& names) {
  const std::set<std::string> named(names.begin(), names.end());
  std::vector<int32_t> silent;
  for (const MemberStatus& member : job.members) {
    const bool runs = member.process == ProcessState::kRunning;
    if (runs && named.contains(member.name)) silent.push_back(member.index);
  }
  return silent;
}

// Somebody counts by it that it stands still, and nobody knows for how long.
bool NeedsAnother(const observe::StackSnapshot& snapshot) {
  return !observe::FindOddOnes(snapshot).odd.empty() &&
         std::any_of(snapshot.processes.begin(), snapshot.processes.end(), [](const auto& process) {
           return process.for_others &&
                  (process.doing == observe::ProcessLocation::Doing::kRuns || !process.still_us);
         });
}

}  // namespace

bool MayAnswer(const MemberStatus& member) {
  const bool over =
      member.condition == MemberCondition::kLost || member.condition == MemberCondition::kLeft ||
      member.process == ProcessState::kEnded || member.process == ProcessState::kFailed;
  return !over && member.pid > 0;
}

std::vector<int32_t> MissingMembers(const JobStatus& job) {
  std::set<int32_t> missing;
  for (const auto& barrier : job.barriers) {
    missing.insert(barrier.awaited.begin(), barrier.awaited.end());
  }
  if (job.torch_store) {
    for (const auto& wait : job.torch_store->awaited) {
      if (wait.rank) missing.insert(*wait.rank);
    }
  }
  const bool anybody = std::any_of(job.members.begin(), job.members.end(),
                                   [](const auto& member) { return IsThere(member.condition); });
  for (const MemberStatus& member : job.members) {
    if (anybody && !IsThere(member.condition)) missing.insert(member.index);
  }
  return {missing.begin(), missing.end()};
}

absl::StatusOr<GatheredStacks> GatherStacks(const std::string& coordinator, const JobStatus& job,
                                            std::vector<int32_t> members, StackMeans means,
                                            absl::Duration timeout) {
  const Time deadline = runtime::MonotonicNow() + timeout;
  std::map<int32_t, std::string> expected = Expected(job, members);
  const auto session = Session::Open(
      {.address = coordinator, .job = job.job, .who = "lockstep stacks", .timeout = timeout});
  if (!session.ok()) return SayWhoMayLook(session.status());
  const Keys keys = (*session)->keys();
  const std::string id = NewId();
  const auto asked = keys.Set(kStackQuestionKey,
                              EncodeQuestion({.id = id,
                                              .members = std::move(members),
                                              .native = means.native,
                                              .signal = means.signal}),
                              {.ttl = kStackKeysLive, .timeout = timeout});
  if (!asked.ok()) return SayWhoMayLook(asked.status());
  const auto watch = keys.Watch(StackAnswersDirectory(id));
  GatheredStacks gathered;
  const bool known = !expected.empty();
  while (!known || !expected.empty()) {
    const absl::Duration left = deadline - runtime::MonotonicNow();
    const auto changes = watch->Next({.timeout = std::min(left, kLookForTheEnded)});
    if (absl::IsDeadlineExceeded(changes.status())) {
      if (left <= kLookForTheEnded) break;
      ForgetTheEnded(coordinator, job.job, expected);
      continue;
    }
    if (!changes.ok()) return changes.status();
    for (const KeyChange& change : changes->changes) {
      if (!change.value) continue;
      auto told = launch::DecodeStacks(*change.value);
      if (!told.ok()) return told.status();
      for (launch::ProcessStacks& process : *told) {
        expected.erase(process.member);
        gathered.processes.push_back(std::move(process));
      }
    }
  }
  gathered.processes = ByMember(std::move(gathered.processes));
  for (const auto& [member, name] : expected) gathered.silent.push_back(name);
  return gathered;
}

std::vector<observe::ProcessLocation> LocationsOf(
    const std::vector<launch::ProcessStacks>& processes) {
  using Doing = observe::ProcessLocation::Doing;
  std::vector<observe::ProcessLocation> all;
  for (const launch::ProcessStacks& process : processes) {
    const launch::StackPlace place = launch::PlaceOf(process);
    const std::string where = place.where.empty() ? "" : absl::StrCat(", ", place.where);
    const Doing doing = process.state == "running"   ? Doing::kRuns
                        : process.state == "stopped" ? Doing::kStopped
                        : process.state == "ended"   ? Doing::kEnded
                                                     : Doing::kWaits;
    all.push_back(
        {.member = process.member,
         .name = process.name,
         .host = process.host,
         .pid = process.pid,
         .doing = doing,
         .for_others = launch::WaitsForOthers(process),
         .place = absl::StrCat(place.function, where),
         .one = absl::StrCat(place.what1, where),
         .many = absl::StrCat(place.what, where),
         .still_us = process.still_us < 0 ? std::nullopt : std::optional(process.still_us)});
  }
  return all;
}

TakenSnapshots TakeSnapshots(const std::string& coordinator, const JobStatus& job,
                             absl::Duration timeout) {
  TakenSnapshots taken;
  std::vector<observe::StackSnapshot>& snapshots = taken.all;
  const auto note = [&](const absl::Status& status) {
    if (wire::native::ReasonOf(status) == "not_permitted") taken.refused = status;
  };
  const auto look = [&] {
    const auto gathered = GatherStacks(coordinator, job, {}, {}, timeout);
    note(gathered.status());
    if (!gathered.ok()) return false;
    observe::StackSnapshot now = {.processes = LocationsOf(gathered->processes),
                                  .silent = SilentOf(job, gathered->silent)};
    if (now.processes.empty() && now.silent.empty()) return false;
    snapshots.insert(snapshots.begin(), std::move(now));
    return true;
  };
  // Who has failed is known, and the others are about to end: there is nothing to wait for.
  if (AnyRuns(job) && !AnyFailed(job)) {
    const Time began = runtime::MonotonicNow();
    if (look() && NeedsAnother(snapshots.front())) {
      std::this_thread::sleep_for(absl::ToChronoMilliseconds(kBetweenLooks));
      if (look()) snapshots[1].ago_us = absl::ToInt64Microseconds(runtime::MonotonicNow() - began);
    }
  }
  if (job.stacks) {
    auto then = LastSnapshot(coordinator, job, timeout);
    note(then.status());
    if (then.ok()) snapshots.push_back(*std::move(then));
  }
  return taken;
}

}  // namespace lockstep::cli
