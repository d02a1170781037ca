#include "lockstep/observe/odd_one_out.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"

namespace lockstep::observe {
namespace {

using Doing = ProcessLocation::Doing;
using Some = std::vector<const ProcessLocation*>;

// The largest group of those that are at one place.
Some LargestGroup(const Some& all) {
  std::map<std::string, Some> groups;
  for (const ProcessLocation* process : all) groups[process->place].push_back(process);
  Some largest;
  for (auto& [place, group] : groups) {
    if (group.size() > largest.size()) largest = std::move(group);
  }
  return largest;
}

Some Without(const Some& all, const Some& some) {
  Some rest;
  for (const ProcessLocation* process : all) {
    if (std::find(some.begin(), some.end(), process) == some.end()) rest.push_back(process);
  }
  return rest;
}

// Somebody of them has run a moment ago: the job goes on.
bool Move(const Some& some) {
  return std::any_of(some.begin(), some.end(), [](const ProcessLocation* process) {
    return process->doing == Doing::kWaits && process->still_us &&
           *process->still_us < kSuspectPatienceUs;
  });
}

std::optional<int64_t> LongestStill(const Some& some) {
  std::optional<int64_t> longest;
  for (const ProcessLocation* process : some) longest = std::max(longest, process->still_us);
  return longest;
}

}  // namespace

OddOnes FindOddOnes(const StackSnapshot& snapshot) {
  Some all;
  Some waiting;
  for (const ProcessLocation& process : snapshot.processes) {
    if (process.doing == Doing::kEnded) continue;
    all.push_back(&process);
    if (process.for_others) waiting.push_back(&process);
  }
  const auto more_than_half = [&](const Some& some) { return 2 * some.size() > all.size(); };
  if (2 * waiting.size() < all.size() || waiting.size() == all.size()) {
    Some candidates = waiting;
    if (waiting.size() < all.size()) {
      candidates.clear();
      for (const ProcessLocation* process : all) {
        if (process->doing == Doing::kWaits) candidates.push_back(process);
      }
    }
    waiting = LargestGroup(candidates);
    if (!more_than_half(waiting)) return {};
  }
  Some odd = Without(all, waiting);
  if (odd.empty() || Move(waiting)) return {};
  Some running;
  for (const ProcessLocation* process : odd) {
    if (process->doing == Doing::kRuns) running.push_back(process);
  }
  if (!running.empty()) odd = running;
  const Some group = LargestGroup(waiting);
  return {.odd = odd,
          .others = absl::StrFormat("%d of %d %s", group.size(), all.size(),
                                    group.size() == 1 ? group.front()->one : group.front()->many),
          .since_us = LongestStill(waiting)};
}

}  // namespace lockstep::observe
