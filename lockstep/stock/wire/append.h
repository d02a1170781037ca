// Single fields of protobuf messages by hand, where a message object would only copy big values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "google/protobuf/io/coded_stream.h"

namespace lockstep::wire::stock {

namespace internal {

inline constexpr uint32_t kVarint = 0, kFixed64 = 1, kBlock = 2;  // wire types

inline void AppendVarint(uint64_t value, std::string& to) {
  uint8_t bytes[10];
  uint8_t* end = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(value, bytes);
  to.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

}  // namespace internal

// What precedes the `length` bytes of a string, of bytes or of a message.
inline void AppendBlockHead(uint32_t field, size_t length, std::string& to) {
  internal::AppendVarint(field << 3 | internal::kBlock, to);
  internal::AppendVarint(length, to);
}

// Also when it is empty: whoever calls knows whether it is to be there.
inline void AppendBlock(uint32_t field, std::string_view bytes, std::string& to) {
  AppendBlockHead(field, bytes.size(), to);
  to.append(bytes);
}

// These leave out what is zero, as every serializer of proto3 does.
inline void AppendInt64(uint32_t field, int64_t value, std::string& to) {
  if (value == 0) return;
  internal::AppendVarint(field << 3 | internal::kVarint, to);
  internal::AppendVarint(static_cast<uint64_t>(value), to);
}

inline void AppendFixed64(uint32_t field, uint64_t value, std::string& to) {
  if (value == 0) return;
  internal::AppendVarint(field << 3 | internal::kFixed64, to);
  uint8_t bytes[8];
  google::protobuf::io::CodedOutputStream::WriteLittleEndian64ToArray(value, bytes);
  to.append(reinterpret_cast<const char*>(bytes), sizeof(bytes));
}

}  // namespace lockstep::wire::stock
