#include "lockstep/cli/gather_stacks.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "lockstep/client/session.h"
#include "lockstep/runtime/loop.h"

namespace lockstep::cli {
namespace {

using wire::native::JobStatus;
using wire::native::MemberCondition;
using wire::native::MemberStatus;

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
    const bool over =
        member.condition == MemberCondition::kLost || member.condition == MemberCondition::kLeft;
    if (asked && !over && member.pid > 0) expected[member.index] = member.name;
  }
  return expected;
}

}  // namespace

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
                                            std::vector<int32_t> members, bool native,
                                            absl::Duration timeout) {
  const Time deadline = runtime::MonotonicNow() + timeout;
  std::map<int32_t, std::string> expected = Expected(job, members);
  const auto session = Session::Open(
      {.address = coordinator, .job = job.job, .who = "lockstep stacks", .timeout = timeout});
  if (!session.ok()) return session.status();
  const Keys keys = (*session)->keys();
  const std::string id = NewId();
  const auto asked =
      keys.Set(kStackQuestionKey,
               EncodeQuestion({.id = id, .members = std::move(members), .native = native}),
               {.ttl = kStackKeysLive, .timeout = timeout});
  if (!asked.ok()) return asked.status();
  const auto watch = keys.Watch(StackAnswersDirectory(id));
  GatheredStacks gathered;
  const bool known = !expected.empty();
  while (!known || !expected.empty()) {
    const auto changes = watch->Next({.timeout = deadline - runtime::MonotonicNow()});
    if (absl::IsDeadlineExceeded(changes.status())) break;
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
  std::sort(gathered.processes.begin(), gathered.processes.end(),
            [](const auto& a, const auto& b) { return a.member < b.member; });
  for (const auto& [member, name] : expected) gathered.silent.push_back(name);
  return gathered;
}

}  // namespace lockstep::cli
