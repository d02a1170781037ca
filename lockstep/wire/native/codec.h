// Messages to bytes and back, from their lists of fields. Pure.
//
// The bytes are protobuf's (proto3). `Encode` is canonical: fields in order, defaults left out,
// numbers packed. `Decode` takes whatever protobuf would take, fields unknown to us included, but
// refuses a known field of the wrong wire type, which protobuf would quietly skip, and groups.
//
// Bounds of what is decoded: those that the fields state, kDecodeDepthMax, kDecodeElementsMax; the
// caller bounds the bytes.
//
// The codec of each message is compiled once, in a source generated beside its header
// (STEM_codec.cc). A test that defines a message by hand includes codec_templates.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

// How deep messages may lie within messages: `decode_depth_max`.
inline constexpr int kDecodeDepthMax = 32;

// Repeated messages and strings in one decoded message, all levels together, since two bytes on the
// wire may cost hundreds in memory: `decode_elements_max`.
inline constexpr size_t kDecodeElementsMax = size_t{1} << 20;

namespace internal {

// Where in the message a decoder stands, and the first thing that it found wrong.
struct DecodeState {
  int depth = 0;
  size_t elements = 0;
  std::string error;
  // Of a decoder that may take the bytes themselves: the value that is most of them, and where it
  // lies. It gets them at the end, instead of a copy.
  std::string_view takes_from = {};
  std::string* taker = nullptr;
  std::string_view taken = {};

  // False, for the reader to return.
  bool Fail(std::string_view message, std::string_view field, std::string_view what);
};

// The message may be left half read when it fails.
template <class Message>
absl::Status DecodeTo(std::string_view bytes, Message& message, DecodeState& state);

}  // namespace internal

// Appends to `bytes`.
template <IsMessage Message>
void EncodeTo(const Message& message, std::string& bytes);

// What a field with this message as its value adds to the message that it is in.
template <IsMessage Message>
size_t EncodedFieldSize(uint32_t number, const Message& message);
// Appends it as such a field.
template <IsMessage Message>
void EncodeFieldTo(uint32_t number, const Message& message, std::string& bytes);

// Canonical: equal messages are equal bytes.
template <IsMessage Message>
std::string Encode(const Message& message) {
  std::string bytes;
  EncodeTo(message, bytes);
  return bytes;
}

// INVALID_ARGUMENT names the message, the field and what is wrong with it. This one is for tests
// and for what looks at messages in general: it takes those as well that state no bounds.
template <IsMessage Message>
absl::StatusOr<Message> DecodeUnbounded(std::string_view bytes) {
  Message message;
  internal::DecodeState state;
  if (absl::Status status = internal::DecodeTo(bytes, message, state); !status.ok()) return status;
  return message;
}

// As DecodeUnbounded, of a message that states its bounds.
template <IsMessage Message>
absl::StatusOr<Message> Decode(std::string_view bytes) {
  static_assert(IsBounded<Message>(), "state a bound for each text, list and number (bounds.h)");
  return DecodeUnbounded<Message>(bytes);
}

// The same; a long value is not copied out of the bytes, but gets them.
template <IsMessage Message>
absl::StatusOr<Message> Decode(std::string&& bytes) {
  static_assert(IsBounded<Message>(), "state a bound for each text, list and number (bounds.h)");
  static_assert(!HoldsViews<Message>(), "keep the bytes: the message points into them");
  Message message;
  internal::DecodeState state = {.takes_from = bytes};
  if (absl::Status status = internal::DecodeTo(bytes, message, state); !status.ok()) return status;
  if (state.taker != nullptr) {
    const auto begin = static_cast<size_t>(state.taken.data() - bytes.data());
    bytes.resize(begin + state.taken.size());
    bytes.erase(0, begin);
    *state.taker = std::move(bytes);
  }
  return message;
}

}  // namespace lockstep::wire::native
