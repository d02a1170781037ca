// What became of a store, so that it can be made again: plain values, no behaviour. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "lockstep/base/ids.h"

namespace lockstep::tcpstore {

// Shared with those to whom it is on its way. Null: there is none.
using ValuePtr = std::shared_ptr<const std::string>;

// A client's connection to an agent, which counts its connections from 1 and never counts one
// twice.
struct PassedConnection {
  SessionId agent;
  uint64_t number = 0;

  friend constexpr auto operator<=>(PassedConnection, PassedConnection) = default;
  template <class H>
  friend H AbslHashValue(H h, PassedConnection of) {
    return H::combine(std::move(h), of.agent, of.number);
  }
};

namespace record {

// An empty store begins, in place of the one before.
struct Opened {
  int64_t attempt = 0;
  uint16_t port = 0;
  bool keeps = false;  // what becomes of its keys is recorded, too
};
// Somebody was told of it, or has come.
struct Used {};

// The value there is from now on, whichever command made it.
struct KeySet {
  std::string key;
  ValuePtr value;
};
// Behind the value there is; where there is none, it is the value.
struct ValueAppended {
  std::string key;
  ValuePtr more;
};
struct KeyDeleted {
  std::string key;
};
struct QueuePushed {
  std::string key;
  ValuePtr value;
};
// The first value of the queue was taken.
struct QueuePopped {
  std::string key;
};
// All keys and queues were forgotten.
struct Cleared {};
// All values under keys of the default process group were forgotten.
struct GroupCleared {};

// A command that an agent passed on took effect. Only the newest of a connection counts.
struct CommandDone {
  PassedConnection by;
  uint64_t number = 0;
  ValuePtr answer;  // as it is sent; empty: it has none, or none yet
};
// The connection has gone.
struct PassedGone {
  PassedConnection gone;
};

}  // namespace record

using Record =
    std::variant<record::Opened, record::Used, record::KeySet, record::ValueAppended,
                 record::KeyDeleted, record::QueuePushed, record::QueuePopped, record::Cleared,
                 record::GroupCleared, record::CommandDone, record::PassedGone>;

}  // namespace lockstep::tcpstore
