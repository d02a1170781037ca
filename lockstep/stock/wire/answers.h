// Answers to stock clients whose bytes are the same in both families.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/coord/effects.h"

namespace google::protobuf {
class MessageLite;
}

namespace lockstep::wire::stock {

// A message in two parts, so that a value of megabytes that goes to a thousand callers is never
// copied: the message is `head` followed by `*tail` (null: nothing follows).
struct EncodedAnswer {
  std::string head;
  std::shared_ptr<const std::string> tail;
};

// All of it in `head`.
EncodedAnswer Serialized(const google::protobuf::MessageLite& message);

inline EncodedAnswer Encode(std::monostate) { return {}; }
EncodedAnswer Encode(const coord::Registered& answer);
EncodedAnswer Encode(const coord::HeartbeatTaken& answer);
// GetKeyValueResponse, TryGetKeyValueResponse and IncrementKeyValueResponse are alike.
EncodedAnswer Encode(const coord::KeyRead& answer);
// GetKeyValueDirResponse; `directory` is left out when empty.
EncodedAnswer Encode(const coord::KeysListed& answer, std::string_view directory);
EncodedAnswer Encode(const coord::BarrierPassed& answer);

}  // namespace lockstep::wire::stock
