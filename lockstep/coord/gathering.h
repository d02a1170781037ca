// Members that wait for each other: the common core of barriers, registration and shutdown. Pure.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"

namespace lockstep::coord {

// Sorted, without repeats; shared by the instances of a barrier.
using Participants = std::shared_ptr<const std::vector<MemberIndex>>;

// Sorted, each once.
Participants MakeParticipants(std::vector<MemberIndex> members);
Participants AllMembers(int32_t size);

// Keeps, for each participant, the one call with which it waits. Complete when all wait. It answers
// nobody and knows no clock; whoever owns it does. Arriving and leaving cost O(log n).
class Gathering {
 public:
  struct Arrival {
    MemberIndex member;
    CallId call;
  };

  // Nobody has arrived. `deadline` is for the owner: nothing happens by itself.
  Gathering(Participants participants, Time opened, Time deadline);

  // By a search in the sorted list.
  bool Includes(MemberIndex member) const { return Slot(member).has_value(); }

  // The member waits with `call` from now on; returns the call that it waited with before, which
  // waits no longer. The member must be included.
  std::optional<CallId> Arrive(MemberIndex member, CallId call);

  // The member waits no longer; returns its call when it did.
  std::optional<CallId> Withdraw(MemberIndex member);

  bool Waits(MemberIndex member) const;                                // false also of strangers
  bool empty() const { return arrived_ == 0; }                         // nobody waits
  bool complete() const { return arrived_ == participants_->size(); }  // all wait
  size_t arrived() const { return arrived_; }                          // how many wait now
  size_t size() const { return participants_->size(); }                // how many there must be
  Time opened() const { return opened_; }                              // when the first came
  Time deadline() const { return deadline_; }                          // infinite: none
  const Participants& participants() const { return participants_; }  // sorted, each once; not null
  // Who came first, whether or not it still waits.
  std::optional<MemberIndex> first() const { return first_; }

  // In the order of their indices.
  std::vector<Arrival> Waiting() const;
  // In the order of their indices.
  std::vector<MemberIndex> Awaited() const;

 private:
  std::optional<size_t> Slot(MemberIndex member) const;

  const Participants participants_;
  const Time opened_;
  const Time deadline_;
  std::vector<std::optional<CallId>> calls_;  // parallel to participants_
  size_t arrived_ = 0;
  std::optional<MemberIndex> first_;
};

}  // namespace lockstep::coord
