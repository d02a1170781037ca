// What the rendezvous machine wants done, and what it is given. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/step_table.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::rendezvous {

// A value to be sent.
struct Post {
  StepId step;
  MemberIndex to;
  std::string name;
  Value value;
};

// A receive.
struct Ask {
  OpId op;
  StepId step;
  MemberIndex from;
  std::string name;
  // What comes must have so many bytes.
  std::optional<uint64_t> into_bytes;
  Time deadline = Time::Infinite();
};

// The end of an operation. Without an error, of a receive: the value; with a lease, the program is
// done with it only when `Release` is called.
struct Completed {
  OpId op;
  ErrorPtr error;
  MemberIndex from;
  Value value;
  LeaseId lease;
  std::shared_ptr<const void> place;
};

struct Outgoing {
  MemberIndex to;
  PeerMessage message;
};

// Bring the bytes of a value that is with another member; then say `Fetched`.
struct Fetch {
  OpId op;
  MemberIndex from;
  LeaseId lease;
  Value value;
};

// To be carried out in the order of the fields.
struct Effects {
  absl::InlinedVector<Outgoing, 2> messages;
  absl::InlinedVector<Fetch, 1> fetches;
  // Stop bringing them; `Fetched` is still to be said, once nothing is written any more.
  std::vector<OpId> stop_fetches;
  absl::InlinedVector<Completed, 2> completed;
  // Not needed any more. Their memory is given back outside of any lock.
  absl::InlinedVector<Value, 2> dropped;
  std::vector<std::string> log;

  void Send(MemberIndex to, PeerMessage message) { messages.push_back({to, std::move(message)}); }
  void Fail(OpId op, ErrorPtr error) { completed.push_back({.op = op, .error = std::move(error)}); }
};

}  // namespace lockstep::rendezvous
