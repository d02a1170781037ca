// Defines what codec.h declares. Pure.
//
// Slow to compile: include it only where codecs are instantiated.
//   LOCKSTEP_INSTANTIATE_CODEC(OpenSession);
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/utf8.h"
#include "protozero/buffer_string.hpp"
#include "protozero/pbf_reader.hpp"
#include "protozero/pbf_writer.hpp"

namespace lockstep::wire::native {

namespace internal {

// --- How long what is encoded will be ---

inline size_t VarintSize(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

inline size_t TagSize(uint32_t number) { return VarintSize(uint64_t{number} << 3); }

template <class T>
size_t NumberSize(T value) {
  if constexpr (std::is_enum_v<T>) {
    return NumberSize(static_cast<int32_t>(value));
  } else if constexpr (std::is_signed_v<T>) {
    return VarintSize(static_cast<uint64_t>(int64_t{value}));  // negative ones take ten bytes
  } else {
    return VarintSize(uint64_t{value});
  }
}

template <class Message>
size_t FieldsSize(const Message& message);

// Without the tag; with the length before it where there is one.
template <class T>
size_t ValueSize(const T& value) {
  size_t size = 0;
  if constexpr (IsMessage<T>) {
    size = FieldsSize(value);
  } else if constexpr (std::same_as<T, Bytes>) {
    size = value.data.size();
  } else if constexpr (std::same_as<T, SharedBytes>) {
    size = value.view().size();
  } else if constexpr (std::same_as<T, BytesView>) {
    size = value.view.size();
  } else if constexpr (std::same_as<T, std::string>) {
    size = value.size();
  } else {
    return NumberSize(value);
  }
  return VarintSize(size) + size;
}

template <class T>
size_t FieldSize(uint32_t number, const T& value) {
  if constexpr (IsOptional<T>::value) {
    return value.has_value() ? TagSize(number) + ValueSize(*value) : 0;
  } else if constexpr (IsVector<T>::value) {
    using Element = typename T::value_type;
    size_t size = 0;
    if constexpr (IsMessage<Element> || kIsText<Element>) {
      for (const Element& element : value) size += TagSize(number) + ValueSize(element);
      return size;
    } else {
      for (const Element element : value) size += NumberSize(element);
      return size == 0 ? 0 : TagSize(number) + VarintSize(size) + size;
    }
  } else if constexpr (IsMessage<T>) {
    return TagSize(number) + ValueSize(value);
  } else {
    return value == T{} ? 0 : TagSize(number) + ValueSize(value);
  }
}

template <class Message>
size_t FieldsSize(const Message& message) {
  size_t size = 0;
  ForEachField<Message>(
      [&](const auto& field) { size += FieldSize(field.number, message.*field.member); });
  return size;
}

// --- Encoding ---

struct Writer : protozero::pbf_writer {
  explicit Writer(std::string& buffer) : protozero::pbf_writer(buffer), bytes(buffer) {}
  std::string& bytes;
};

template <class T>
void WriteScalar(Writer& out, uint32_t number, const T& value) {
  if constexpr (std::same_as<T, bool>) {
    out.add_bool(number, value);
  } else if constexpr (std::is_enum_v<T>) {
    out.add_enum(number, static_cast<int32_t>(value));
  } else if constexpr (std::same_as<T, int32_t>) {
    out.add_int32(number, value);
  } else if constexpr (std::same_as<T, int64_t>) {
    out.add_int64(number, value);
  } else if constexpr (std::same_as<T, uint32_t>) {
    out.add_uint32(number, value);
  } else if constexpr (std::same_as<T, uint64_t>) {
    out.add_uint64(number, value);
  } else if constexpr (std::same_as<T, Bytes>) {
    out.add_bytes(number, value.data);
  } else if constexpr (std::same_as<T, SharedBytes>) {
    const std::string_view view = value.view();
    out.add_bytes(number, view.data(), view.size());
  } else if constexpr (std::same_as<T, BytesView>) {
    out.add_bytes(number, value.view.data(), value.view.size());
  } else {
    static_assert(std::same_as<T, std::string>, "not a type that a field may have");
    out.add_string(number, value);
  }
}

template <class Message>
void WriteFields(Writer& out, const Message& message);

// With its length known before, a message within a message is written in its place, and a long
// value in the depth of it copied once.
template <class T>
void WritePresent(Writer& out, uint32_t number, const T& value) {
  if constexpr (IsMessage<T>) {
    protozero::add_varint_to_buffer(
        &out.bytes,
        uint64_t{number} << 3 | static_cast<uint32_t>(protozero::pbf_wire_type::length_delimited));
    protozero::add_varint_to_buffer(&out.bytes, FieldsSize(value));
    Writer inner(out.bytes);
    WriteFields(inner, value);
  } else {
    WriteScalar(out, number, value);
  }
}

template <class T>
void WritePacked(Writer& out, uint32_t number, const std::vector<T>& values) {
  if constexpr (std::same_as<T, int32_t>) {
    out.add_packed_int32(number, values.begin(), values.end());
  } else if constexpr (std::same_as<T, int64_t>) {
    out.add_packed_int64(number, values.begin(), values.end());
  } else if constexpr (std::same_as<T, uint32_t>) {
    out.add_packed_uint32(number, values.begin(), values.end());
  } else {
    static_assert(std::same_as<T, uint64_t>, "not a type that a packed field may have");
    out.add_packed_uint64(number, values.begin(), values.end());
  }
}

// A message that is not optional is always written: its presence says nothing, and an empty one
// costs two bytes.
template <class T>
void WriteField(Writer& out, uint32_t number, const T& value) {
  if constexpr (IsOptional<T>::value) {
    if (value.has_value()) WritePresent(out, number, *value);
  } else if constexpr (IsVector<T>::value) {
    using Element = typename T::value_type;
    if constexpr (IsMessage<Element> || kIsText<Element>) {
      for (const Element& element : value) WritePresent(out, number, element);
    } else if (!value.empty()) {
      WritePacked(out, number, value);
    }
  } else if constexpr (IsMessage<T>) {
    WritePresent(out, number, value);
  } else {
    if (value != T{}) WriteScalar(out, number, value);
  }
}

template <class Message>
void WriteFields(Writer& out, const Message& message) {
  static_assert(NumbersAscend<Message>(), "list the fields in the order of their numbers");
  ForEachField<Message>(
      [&](const auto& field) { WriteField(out, field.number, message.*field.member); });
}

// --- Decoding ---

template <class Message>
bool ReadFields(protozero::pbf_reader& in, Message& message, DecodeState& state);

// Worth it, and there cannot be two of them. Where a value lies in a list it may still move.
inline constexpr size_t kTakenBytesMin = 4096;

inline void ReadBytes(std::string_view bytes, std::string& value, DecodeState& state) {
  if (state.taker == &value) state.taker = nullptr;  // the last one of a field counts
  if (bytes.size() >= kTakenBytesMin && bytes.size() > state.takes_from.size() / 2 &&
      !state.takes_from.empty() && state.elements == 0) {
    state.taker = &value;
    state.taken = bytes;
    return;
  }
  value.assign(bytes);
}

// Whether the varint that comes next has no more than 32 bits. Of tags and lengths protozero would
// quietly drop the bits above, and so find a message where protobuf finds none.
inline bool NextFitsIn32Bits(const protozero::pbf_reader& in) {
  const protozero::data_view rest = in.data();
  for (size_t i = 0; i < rest.size(); ++i) {
    const auto byte = static_cast<uint8_t>(rest.data()[i]);
    if (i == 4) return byte <= 0x0F;
    if (byte < 0x80) return true;
  }
  return true;  // ends too early, which protozero notices
}

template <class T>
T FromVarint(uint64_t raw) {
  // As protobuf: what does not fit is cut, any bit makes true, an unknown enum value is kept.
  if constexpr (std::same_as<T, bool>) {
    return raw != 0;
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(static_cast<int32_t>(raw));
  } else {
    return static_cast<T>(raw);
  }
}

// "has 4194304 bytes, and may have 256 (host_bytes_max)".
inline std::string TooMuch(size_t has, std::string_view unit, const Bound& bound) {
  return absl::StrFormat("has %d %s, and may have %d (%s)", has, unit, bound.max, bound.name);
}

// "is -1, and may be from 0 to 2147483647 (pid_max)".
template <class T>
std::string OutOfRange(T value, const Range& range) {
  return absl::StrFormat("is %d, and may be from %d to %d (%s)", value, range.min, range.max,
                         range.name);
}

template <class Message, class F, class T>
bool ReadNumber(uint64_t raw, const F& field, T& value, DecodeState& state) {
  value = FromVarint<T>(raw);
  if constexpr (kIsNumber<T>) {
    if (!field.range.Holds(value)) {
      return state.Fail(Message::kName, field.name, OutOfRange(value, field.range));
    }
  }
  return true;
}

template <class Message, class F, class T>
bool ReadOne(protozero::pbf_reader& in, const F& field, T& value, DecodeState& state) {
  if constexpr (IsMessage<T> || kIsText<T>) {
    if (in.wire_type() != protozero::pbf_wire_type::length_delimited) {
      return state.Fail(Message::kName, field.name, "has the wrong wire type");
    }
    if constexpr (IsMessage<T>) {
      if (state.depth == kDecodeDepthMax) {
        return state.Fail(Message::kName, field.name, "lies too deep (decode_depth_max)");
      }
      protozero::pbf_reader inner = in.get_message();
      ++state.depth;
      const bool ok = ReadFields(inner, value, state);
      --state.depth;
      return ok;
    } else {
      const protozero::data_view view = in.get_view();
      if (view.size() > field.text.max) {
        return state.Fail(Message::kName, field.name, TooMuch(view.size(), "bytes", field.text));
      }
      if constexpr (std::same_as<T, Bytes>) {
        ReadBytes({view.data(), view.size()}, value.data, state);
      } else if constexpr (std::same_as<T, SharedBytes>) {
        value.data = std::make_shared<const std::string>(view.data(), view.size());
      } else if constexpr (std::same_as<T, BytesView>) {
        value.view = {view.data(), view.size()};
      } else {
        value.assign(view.data(), view.size());
        return IsUtf8(value) || state.Fail(Message::kName, field.name, "is not UTF-8");
      }
      return true;
    }
  } else {
    if (in.wire_type() != protozero::pbf_wire_type::varint) {
      return state.Fail(Message::kName, field.name, "has the wrong wire type");
    }
    return ReadNumber<Message>(in.get_uint64(), field, value, state);
  }
}

// Before one more element of a list is read.
template <class Message, class F>
bool HasRoom(const F& field, size_t elements, DecodeState& state) {
  return elements < field.count.max ||
         state.Fail(Message::kName, field.name, TooMuch(elements + 1, "elements", field.count));
}

template <class Message, class F, class T>
bool ReadRepeated(protozero::pbf_reader& in, const F& field, std::vector<T>& values,
                  DecodeState& state) {
  if constexpr (IsMessage<T> || kIsText<T>) {
    if (++state.elements > kDecodeElementsMax) {
      return state.Fail(Message::kName, field.name, "has too many elements (decode_elements_max)");
    }
    return HasRoom<Message>(field, values.size(), state) &&
           ReadOne<Message>(in, field, values.emplace_back(), state);
  } else if (in.wire_type() == protozero::pbf_wire_type::length_delimited) {
    for (const uint64_t raw : in.get_packed_uint64()) {
      if (!HasRoom<Message>(field, values.size(), state)) return false;
      if (!ReadNumber<Message>(raw, field, values.emplace_back(), state)) return false;
    }
    return true;
  } else {
    T value = {};
    if (!HasRoom<Message>(field, values.size(), state)) return false;
    if (!ReadOne<Message>(in, field, value, state)) return false;
    values.push_back(value);
    return true;
  }
}

template <class Message, class F>
bool ReadField(protozero::pbf_reader& in, const F& field, Message& message, DecodeState& state) {
  using T = typename F::Type;
  T& value = message.*field.member;
  if constexpr (IsVector<T>::value) {
    return ReadRepeated<Message>(in, field, value, state);
  } else if constexpr (IsOptional<T>::value) {
    if (!value.has_value()) value.emplace();
    return ReadOne<Message>(in, field, *value, state);
  } else {
    return ReadOne<Message>(in, field, value, state);
  }
}

template <class Message>
bool ReadFields(protozero::pbf_reader& in, Message& message, DecodeState& state) {
  while (true) {
    if (!NextFitsIn32Bits(in)) {
      return state.Fail(Message::kName, "(tag)", "has more than 32 bits");
    }
    if (!in.next()) return true;
    if (in.wire_type() == protozero::pbf_wire_type::length_delimited && !NextFitsIn32Bits(in)) {
      return state.Fail(Message::kName, "(length)", "has more than 32 bits");
    }
    bool known = false;
    bool ok = true;
    ForEachField<Message>([&](const auto& field) {
      if (known || field.number != in.tag()) return;
      known = true;
      ok = ReadField(in, field, message, state);
    });
    if (!ok) return false;
    if (!known) in.skip();
  }
}

template <class Message>
absl::Status DecodeTo(std::string_view bytes, Message& message, DecodeState& state) {
  // protozero says by exception that bytes end too early, a varint or a tag is impossible.
  try {
    protozero::pbf_reader in(protozero::data_view(bytes.data(), bytes.size()));
    if (ReadFields(in, message, state)) return absl::OkStatus();
  } catch (const protozero::exception& thrown) {
    return absl::InvalidArgumentError(
        absl::StrFormat("cannot decode %s: %s", Message::kName, thrown.what()));
  }
  return absl::InvalidArgumentError("cannot decode " + state.error);
}

}  // namespace internal

template <IsMessage Message>
void EncodeTo(const Message& message, std::string& bytes) {
  bytes.reserve(bytes.size() + internal::FieldsSize(message));
  internal::Writer out(bytes);
  internal::WriteFields(out, message);
}

template <IsMessage Message>
size_t EncodedFieldSize(uint32_t number, const Message& message) {
  return internal::FieldSize(number, message);
}

template <IsMessage Message>
void EncodeFieldTo(uint32_t number, const Message& message, std::string& bytes) {
  internal::Writer out(bytes);
  internal::WritePresent(out, number, message);
}

}  // namespace lockstep::wire::native

// Instantiates the codec of one message. Use it in namespace lockstep::wire::native.
#define LOCKSTEP_INSTANTIATE_CODEC(Message)                            \
  template void EncodeTo(const Message&, std::string&);                \
  template size_t EncodedFieldSize(uint32_t, const Message&);          \
  template void EncodeFieldTo(uint32_t, const Message&, std::string&); \
  template absl::Status internal::DecodeTo(std::string_view, Message&, internal::DecodeState&)
