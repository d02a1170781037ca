#include "lockstep/coord/job_changes.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

// To sort tens of thousands takes milliseconds; to look each up does not.
constexpr size_t kSortedMax = 256;

// Larger jobs are not compared at every step.
constexpr int32_t kCheckedMax = 32;

}  // namespace

JobChanges::JobChanges(const CoordinatorOptions& options)
    : options_(options), versions_(options.size) {}

void JobChanges::Touch(MemberIndex member) {
  LOCKSTEP_DCHECK(member.value() >= 0 && member.value() < options_.size);
  int64_t& known = versions_[member.value()];
  // A member has one place, at its last change (1).
  if (known != 0) changed_members_.erase(known);
  known = ++version_;
  changed_members_.emplace(known, member);
  LOCKSTEP_DCHECK(InvariantsHold());
}

void JobChanges::TouchAll() {
  for (int32_t i = 0; i < options_.size; ++i) Touch(MemberIndex(i));
}

void JobChanges::KeepError(ErrorView error) {
  errors_.emplace(++version_, std::move(error));
  // The new error is in: it may itself be the consequence that goes.
  if (errors_.size() <= options_.kept_errors_max) return;
  // The root cause of an attempt is worth more than what followed from it.
  const auto victim = std::find_if(errors_.begin(), errors_.end(),
                                   [](const auto& kept) { return kept.second.consequence; });
  errors_.erase(victim == errors_.end() ? errors_.begin() : victim);
  LOCKSTEP_DCHECK(errors_.size() <= options_.kept_errors_max);
}

void JobChanges::Restart(int64_t base) {
  LOCKSTEP_DCHECK(base > 0);  // 0 says that a member has no place
  version_ = base;
  first_version_ = base;
  // Watchers of before get the whole state, so no change has to be remembered.
  changed_members_.clear();
  std::fill(versions_.begin(), versions_.end(), 0);
  std::map<int64_t, ErrorView> kept;
  // Behind `base`, so that a watcher that comes from there is told of them.
  for (auto& [old, error] : errors_) kept.emplace(++version_, std::move(error));
  errors_ = std::move(kept);
  LOCKSTEP_DCHECK(InvariantsHold());
}

std::vector<MemberIndex> JobChanges::MembersSince(int64_t version) const {
  LOCKSTEP_DCHECK(Knows(version));  // of before, more may have changed
  std::vector<MemberIndex> changed;
  for (auto it = changed_members_.upper_bound(version); it != changed_members_.end(); ++it) {
    changed.push_back(it->second);
  }
  if (changed.size() <= kSortedMax) {
    std::sort(changed.begin(), changed.end());
    return changed;
  }
  std::vector<bool> is_new(static_cast<size_t>(options_.size));
  for (const MemberIndex member : changed) is_new[static_cast<size_t>(member.value())] = true;
  changed.clear();
  for (int32_t i = 0; i < options_.size; ++i) {
    if (is_new[static_cast<size_t>(i)]) changed.emplace_back(i);
  }
  return changed;
}

size_t JobChanges::memory() const {
  // Nodes of changed_members_, and texts of hosts and ends that their members have.
  constexpr size_t kNodeBytes = 64;
  constexpr size_t kTextBytes = 128;
  constexpr size_t kErrorBytes = 4096;
  return versions_.size() * sizeof(versions_[0]) +
         changed_members_.size() * (kNodeBytes + kTextBytes) + errors_.size() * kErrorBytes;
}

bool JobChanges::InvariantsHold() const {
  if (options_.size > kCheckedMax) return true;
  size_t with_place = 0;
  for (int32_t i = 0; i < options_.size; ++i) {
    if (versions_[i] == 0) continue;
    ++with_place;
    LOCKSTEP_CHECK(changed_members_.at(versions_[i]) == MemberIndex(i));
  }
  LOCKSTEP_CHECK(with_place == changed_members_.size());                                     // (1)
  LOCKSTEP_CHECK(changed_members_.empty() || changed_members_.rbegin()->first <= version_);  // (2)
  LOCKSTEP_CHECK(errors_.empty() || errors_.rbegin()->first <= version_);
  return true;
}

}  // namespace lockstep::coord
