// What two members say to each other about values. Pure; the bytes are in
// proto/lockstep/v1/rendezvous.proto.
//
// Between two members messages arrive once and in order, or the other is lost: the transport sees
// to that. "Sender" and "receiver" are those of the values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::rendezvous {

// The user's training step.
using StepId = Id<struct StepIdTag, int64_t>;

// A value that its sender keeps until the receiver is done with it. Of that sender; never used
// again by it. 0: none, the bytes came along.
using LeaseId = Id<struct LeaseIdTag, uint64_t>;

// That one more receive waits for a key. Of the receiver, whose later wants have greater ids; never
// used again by it. 0: none.
//
// A want ends when an offer answers it, when it is refused, or when it is taken back. The last may
// cross one of the others on the way, and then changes nothing: that is what the ids are for.
using WantId = Id<struct WantIdTag, uint64_t>;

// Receiver to sender: more receives wait for the key, one for each id from `first` through `last`.
struct Want {
  StepId step;
  std::string name;
  WantId first;
  WantId last;
};

// Receiver to sender: one receive fewer waits. What is on its way already comes.
struct Unwant {
  StepId step;
  std::string name;
  WantId want;
};

// Sender to receiver: the next value of the key. Short ones come along; of others the receiver
// learns where they lie, or fetches them.
struct Offer {
  StepId step;
  std::string name;
  Value value;
  LeaseId lease;
  WantId answers;     // none: it was not wanted yet, and goes against the receiver's credit
  bool tell = false;  // the sender wants to hear that a receive took it

  // Put in by the receiver's transport when the bytes did not come along: the memory that both
  // see, or that they must be fetched.
  std::shared_ptr<const void> place;
  bool away = false;
};

// Receiver to sender: a receive took the value.
struct Taken {
  LeaseId lease;
};

// Receiver to sender: the value is not looked at any more.
struct Released {
  LeaseId lease;
};

// Receiver to sender: so much of what was offered unasked has been received.
struct Credit {
  uint64_t values = 0;
  uint64_t bytes = 0;
};

// Sender to receiver, instead of values for wants: there will be none. For all of the key from
// `first` through `last` that were not answered before.
struct Refuse {
  StepId step;
  std::string name;
  WantId first;
  WantId last;
  ErrorPtr why;
};

// Either: the step has failed for everybody.
struct AbortStep {
  StepId step;
  ErrorPtr why;
};

// Receiver to sender: nothing that was offered for the step, or will be, is received any more.
struct StepClosed {
  StepId step;
};

using PeerMessage =
    std::variant<Want, Unwant, Offer, Taken, Released, Credit, Refuse, AbortStep, StepClosed>;

}  // namespace lockstep::rendezvous
