// Answers to stock JAX clients: what a machine answered -> bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "lockstep/coord/effects.h"

namespace lockstep::wire::xla {

// A message in two parts, so that a value of megabytes that goes to a thousand callers is never
// copied: the message is `head` followed by `*tail` (null: nothing follows).
struct EncodedAnswer {
  std::string head;
  std::shared_ptr<const std::string> tail;
};

// The reply message of the call that `answer` belongs to. Thread-safe.
EncodedAnswer EncodeAnswer(const coord::Answer& answer);

// The same for many calls: keeps the last list that it encoded, since one change of members or one
// alive set answers every call that waits for it with the same list. Not thread-safe.
class AnswerEncoder {
 public:
  EncodedAnswer Encode(const coord::Answer& answer);

 private:
  std::shared_ptr<const void> list_;  // kept, so that its address cannot come back as another
  int64_t version_ = 0;
  std::shared_ptr<const std::string> bytes_;
};

}  // namespace lockstep::wire::xla
