#include "fuzz/native_fuzzer.h"

#include <string>
#include <variant>

#include "lockstep/base/check.h"
#include "lockstep/platform/link/frame.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/native/json.h"
#include "lockstep/wire/native/link_messages.h"
#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/status_messages.h"
#include "lockstep/wire/native/to_event.h"

namespace lockstep::fuzz {
namespace {

constexpr link::MessageReader::Limits kLimits = {
    .payload_bytes_max = 4096, .message_bytes_max = 8192, .partial_messages_max = 4};

// In pieces of `piece` bytes; returns what was read, for comparison.
std::string ReadFrames(std::string_view bytes, size_t piece) {
  link::MessageReader reader(kLimits);
  std::string read;
  while (!bytes.empty()) {
    reader.Append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (true) {
      auto message = reader.Next();
      if (!message.ok()) return read + "!";
      if (!message->has_value()) break;
      const link::Message& got = **message;
      LOCKSTEP_CHECK(got.payload.size() <= kLimits.message_bytes_max);
      read += link::EncodeMessage(got);
    }
  }
  return read;
}

// What was decoded, written and read again is the same, and can be printed.
template <class M>
void ReadMessage(std::string_view bytes) {
  const auto message = wire::native::Decode<M>(bytes);
  if (!message.ok()) return;
  const std::string encoded = wire::native::Encode(*message);
  const auto again = wire::native::Decode<M>(encoded);
  LOCKSTEP_CHECK(again.ok() && *again == *message);
  LOCKSTEP_CHECK(wire::native::Encode(*again) == encoded);
  LOCKSTEP_CHECK(!wire::native::ToJson(*message).dump().empty());
}

// A request of a native client: the kind, then its payload. What the coordinator gets has its
// caller.
void ReadRequest(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto kind = static_cast<wire::native::RequestKind>(static_cast<uint8_t>(bytes.front()));
  static const std::string kPeer = "127.0.0.1:1";
  const auto event = wire::native::ToEvent(
      kind, bytes.substr(1),
      {.caller = {.call = CallId(3), .session = {.high = 1, .low = 2}, .number = 7},
       .now = Time::FromNanoseconds(5),
       .peer = kPeer});
  if (!event.ok()) {
    LOCKSTEP_CHECK(wire::native::ReasonOf(event.status()) == "invalid_argument" ||
                   wire::native::ReasonOf(event.status()) == "key_invalid" ||
                   wire::native::ReasonOf(event.status()) == "unknown_request");
    return;
  }
  LOCKSTEP_CHECK(wire::native::RouteOf(kind) == wire::native::Route::kSession);
  std::visit(
      [](const auto& e) {
        if constexpr (requires { e.caller; }) {
          LOCKSTEP_CHECK(e.caller.call == CallId(3) && e.caller.number == 7);
        } else {
          LOCKSTEP_CHECK(false);
        }
      },
      *event);
}

}  // namespace

void ReadNative(std::string_view bytes) {
  if (bytes.empty()) return;
  const char choice = bytes.front();
  bytes.remove_prefix(1);
  switch (choice) {
    case 'f': {
      const std::string whole = ReadFrames(bytes, bytes.size() + 1);
      const std::string pieces = ReadFrames(bytes, 7);
      LOCKSTEP_CHECK(whole == pieces);
      break;
    }
    case 'r':
      return ReadRequest(bytes);
    case 'o':
      return ReadMessage<wire::native::OpenSession>(bytes);
    case 'k':
      return ReadMessage<wire::native::WatchKeysReply>(bytes);
    case 'j':
      return ReadMessage<wire::native::WatchJobReply>(bytes);
    case 'c':
      return ReadMessage<wire::native::CreateJob>(bytes);
    case 'h':
      return ReadMessage<wire::native::Hello>(bytes);
    case 'w':
      return ReadMessage<wire::native::Welcome>(bytes);
    case 'e':
      return ReadMessage<wire::native::ErrorReply>(bytes);
    case 'q':
      return ReadMessage<wire::native::StatusRequest>(bytes);
    case 's':
      return ReadMessage<wire::native::StatusReply>(bytes);
    case 'p':
      return ReadMessage<wire::native::ProcessReport>(bytes);
    default:
      break;
  }
}

}  // namespace lockstep::fuzz
