#include "lockstep/coord/kept_agreements.h"

#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

// Tables with more names are not counted at every step.
constexpr size_t kCheckedMax = 32;

}  // namespace

const KeptAgreements::Verdict* KeptAgreements::Find(const std::string& name) const {
  const auto found = verdicts_.find(name);
  return found == verdicts_.end() ? nullptr : &found->second.verdict;
}

void KeptAgreements::Keep(const std::string& name, Verdict verdict) {
  const auto [at, is_new] = verdicts_.try_emplace(name);
  Kept& kept = at->second;
  LOCKSTEP_DCHECK(is_new || kept.verdict.counter < verdict.counter);  // (2)
  // A held name has no place; otherwise the old one goes, since it is the newest now.
  if (!is_new && !kept.held) oldest_first_.erase(kept.place);
  kept.verdict = std::move(verdict);
  kept.held = false;
  kept.place = oldest_first_.insert(oldest_first_.end(), at);
  LOCKSTEP_DCHECK(InvariantsHold());
}

void KeptAgreements::Hold(const std::string& name) {
  const auto at = verdicts_.find(name);
  // The first instance of a name follows no verdict.
  if (at == verdicts_.end()) return;
  LOCKSTEP_CHECK(!at->second.held);
  // While the next instance is open the verdict must not be forgotten.
  oldest_first_.erase(at->second.place);
  at->second.held = true;
  LOCKSTEP_DCHECK(InvariantsHold());
}

void KeptAgreements::Release(const std::string& name) {
  const auto at = verdicts_.find(name);
  if (at == verdicts_.end()) return;
  LOCKSTEP_CHECK(at->second.held);
  at->second.held = false;
  // As the newest: the name was in use a moment ago.
  at->second.place = oldest_first_.insert(oldest_first_.end(), at);
  LOCKSTEP_DCHECK(InvariantsHold());
}

void KeptAgreements::ForgetOldest() {
  while (oldest_first_.size() > options_.kept_barriers_max) {
    LOCKSTEP_DCHECK(!oldest_first_.front()->second.held);
    // Before its place, which names it.
    verdicts_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
  // Told from what is left, so that it outlives a snapshot.
  if (oldest_first_.size() >= options_.kept_barriers_max) forgot_some_ = true;
  LOCKSTEP_DCHECK(InvariantsHold());
}

void KeptAgreements::Snapshot(std::vector<TimedRecord>& out) const {
  const auto add = [&out](const std::string& name, const Verdict& verdict) {
    out.push_back({Time(), record::IndexAgreed{.name = name,
                                               .counter = verdict.counter,
                                               .members = verdict.members,
                                               .verdict = verdict.error,
                                               .index = verdict.index}});
  };
  for (const auto& at : oldest_first_) add(at->first, at->second.verdict);
  // Last, since a restored table holds none, and they shall be the last that it forgets.
  for (const auto& [name, kept] : verdicts_) {
    if (kept.held) add(name, kept.verdict);
  }
}

bool KeptAgreements::InvariantsHold() const {
  if (verdicts_.size() > kCheckedMax) return true;
  size_t held = 0;
  for (const auto& [name, kept] : verdicts_) held += kept.held;
  LOCKSTEP_CHECK(held + oldest_first_.size() == verdicts_.size());  // (1)
  return true;
}

}  // namespace lockstep::coord
