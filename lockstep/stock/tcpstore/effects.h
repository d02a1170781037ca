// What a store wants done: answers, and connections that are to be closed. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "lockstep/base/time.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/records.h"
#include "lockstep/stock/tcpstore/view.h"

namespace lockstep::tcpstore {

// Of a wait, a barrier and a check.
enum class Readiness : uint8_t { kReady = 0, kNotReady = 1 };
struct WaitCancelled {};
struct Number {
  int64_t value = 0;
};
struct Echo {
  uint32_t number = 0;
};
struct Value {
  ValuePtr value;
};
// Of CompareSet where nothing was stored and nothing is there: what the client sent.
struct SentValue {
  std::string value;
};
struct Values {
  std::vector<ValuePtr> values;
};
// How long the queue was; its first value, if it had one.
struct Popped {
  int64_t length = 0;
  ValuePtr value;
};
// Of all keys, in order. Packed as they go out, since there may be so many that to go through them
// again would take too long for one turn.
struct KeyNames {
  size_t count = 0;
  std::vector<ValuePtr> packed;  // one slice after the other, see PackName
};
// Behind what is packed: the name behind its length, in 8 bytes as torch's protocol has them.
void PackName(absl::string_view name, std::string& packed);

// What an agent is answered again, or passes on, as it was encoded. Null: nothing, since torch's
// protocol has no answer to the command.
struct Encoded {
  ValuePtr bytes;
};

using Answer = std::variant<Readiness, WaitCancelled, Number, Echo, Value, SentValue, Values,
                            Popped, KeyNames, Encoded>;

// Values from here on are shared with the store as they go out; shorter ones are copied.
inline constexpr size_t kSharedBytesMin = size_t{1} << 10;

// Of the values and names in it.
size_t ValueBytesOf(const Answer& answer);

struct Reply {
  ConnectionId to;
  Answer answer;
};

// The protocol has no way to say no.
struct Refusal {
  ConnectionId connection;
  std::string why;
};

// A client took a wait back, as it does when its own time-out is over.
struct GivenUp {
  AwaitedView wait;  // of which the first waiter is the one that gave up
  Time since;
};

// Those for one connection go out in this order; what is refused is closed after them. Nothing of
// it is to be seen before the records are kept, nor what is done after it: it may tell of them.
struct Effects {
  std::vector<Record> records;  // of a store that keeps them
  std::vector<Reply> replies;
  std::vector<Refusal> refusals;
  std::vector<GivenUp> given_up;

  // Empty again, with the memory that it has: one object serves step after step.
  void Clear() {
    records.clear();
    replies.clear();
    refusals.clear();
    given_up.clear();
  }
};

}  // namespace lockstep::tcpstore
