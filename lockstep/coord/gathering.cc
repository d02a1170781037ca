#include "lockstep/coord/gathering.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::coord {

Participants MakeParticipants(std::vector<MemberIndex> members) {
  // Callers usually list members in order already; then this is linear.
  if (!std::is_sorted(members.begin(), members.end())) std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return std::make_shared<const std::vector<MemberIndex>>(std::move(members));
}

Participants AllMembers(int32_t size) {
  std::vector<MemberIndex> members;
  members.reserve(size);
  for (int32_t i = 0; i < size; ++i) members.emplace_back(i);
  return std::make_shared<const std::vector<MemberIndex>>(std::move(members));
}

Gathering::Gathering(Participants participants, Time opened, Time deadline)
    : participants_(std::move(participants)),
      opened_(opened),
      deadline_(deadline),
      calls_(participants_->size()) {
  LOCKSTEP_DCHECK(!participants_->empty());  // it would be complete without a call
  LOCKSTEP_DCHECK(std::adjacent_find(participants_->begin(), participants_->end(),
                                     std::greater_equal<>()) == participants_->end());
  LOCKSTEP_DCHECK(opened_ <= deadline_);
}

std::optional<size_t> Gathering::Slot(MemberIndex member) const {
  auto it = std::lower_bound(participants_->begin(), participants_->end(), member);
  if (it == participants_->end() || *it != member) return std::nullopt;
  return it - participants_->begin();
}

std::optional<CallId> Gathering::Arrive(MemberIndex member, CallId call) {
  const std::optional<size_t> slot = Slot(member);
  LOCKSTEP_CHECK(slot.has_value());
  // The first stays the first after it has left: it set the deadline that the others wait by.
  if (!first_) first_ = member;
  // One that arrives again is counted once.
  if (!calls_[*slot]) ++arrived_;
  LOCKSTEP_DCHECK(arrived_ <= size());
  // The older call is the owner's to answer.
  return std::exchange(calls_[*slot], call);
}

std::optional<CallId> Gathering::Withdraw(MemberIndex member) {
  const std::optional<size_t> slot = Slot(member);
  if (!slot || !calls_[*slot]) return std::nullopt;
  LOCKSTEP_DCHECK(arrived_ > 0);
  --arrived_;
  return std::exchange(calls_[*slot], std::nullopt);
}

bool Gathering::Waits(MemberIndex member) const {
  const std::optional<size_t> slot = Slot(member);
  return slot && calls_[*slot];
}

std::vector<Gathering::Arrival> Gathering::Waiting() const {
  std::vector<Arrival> waiting;
  waiting.reserve(arrived_);
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i]) waiting.push_back({(*participants_)[i], *calls_[i]});
  }
  LOCKSTEP_DCHECK(waiting.size() == arrived_);
  return waiting;
}

std::vector<MemberIndex> Gathering::Awaited() const {
  std::vector<MemberIndex> awaited;
  awaited.reserve(calls_.size() - arrived_);
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (!calls_[i]) awaited.push_back((*participants_)[i]);
  }
  LOCKSTEP_DCHECK(awaited.size() + arrived_ == size());
  return awaited;
}

}  // namespace lockstep::coord
