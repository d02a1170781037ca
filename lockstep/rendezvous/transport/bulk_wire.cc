#include "lockstep/rendezvous/transport/bulk_wire.h"

#include <limits>

#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"

namespace lockstep::transport {
namespace {

constexpr uint32_t kMagic = 0x4b4c4253;  // "SBLK"
constexpr size_t kLengthBytes = 4;
static_assert(kBulkHeaderBytes == 2 * sizeof(uint32_t) + 3 * sizeof(uint64_t));
static_assert(kBulkPlaceBytes == sizeof(uint64_t));
// Refusals come as the body of an answer, and requests as messages of the same bound.
static_assert(kBulkMessageBytesMax <= std::numeric_limits<uint32_t>::max());

template <class T>
void Put(char* at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<char>(value >> (8 * i));
}

template <class T>
T Get(const char* at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<uint8_t>(at[i])) << (8 * i));
  }
  return value;
}

}  // namespace

BulkHeaderBytes EncodeBulkHeader(const BulkHeader& header) {
  BulkHeaderBytes bytes;
  Put<uint32_t>(bytes.data(), kMagic);
  Put<uint32_t>(bytes.data() + 4, static_cast<uint32_t>(header.code));
  Put<uint64_t>(bytes.data() + 8, header.lease);
  Put<uint64_t>(bytes.data() + 16, header.offset);
  Put<uint64_t>(bytes.data() + 24, header.bytes);
  return bytes;
}

absl::StatusOr<BulkHeader> DecodeBulkHeader(const BulkHeaderBytes& bytes) {
  const auto code = Get<uint32_t>(bytes.data() + 4);
  if (Get<uint32_t>(bytes.data()) != kMagic || code > static_cast<uint32_t>(BulkCode::kNoPlace)) {
    return absl::InvalidArgumentError("what came on a bulk link is no answer");
  }
  return BulkHeader{.code = static_cast<BulkCode>(code),
                    .lease = Get<uint64_t>(bytes.data() + 8),
                    .offset = Get<uint64_t>(bytes.data() + 16),
                    .bytes = Get<uint64_t>(bytes.data() + 24)};
}

std::string EncodeBulkPlace(uint64_t address) {
  std::string bytes(kBulkPlaceBytes, '\0');
  Put<uint64_t>(bytes.data(), address);
  return bytes;
}

uint64_t DecodeBulkPlace(const std::array<char, kBulkPlaceBytes>& bytes) {
  return Get<uint64_t>(bytes.data());
}

std::string WithLength(std::string_view message) {
  LOCKSTEP_DCHECK(message.size() <= std::numeric_limits<uint32_t>::max());
  std::string bytes(kLengthBytes, '\0');
  Put<uint32_t>(bytes.data(), static_cast<uint32_t>(message.size()));
  return bytes.append(message);
}

absl::StatusOr<std::optional<std::string>> TakeMessage(std::string& buffer) {
  if (buffer.size() < kLengthBytes) return std::nullopt;
  const size_t length = Get<uint32_t>(buffer.data());
  if (length > kBulkMessageBytesMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a message of %d bytes on a bulk link, %d are allowed", length, kBulkMessageBytesMax));
  }
  if (buffer.size() - kLengthBytes < length) return std::nullopt;
  std::string message = buffer.substr(kLengthBytes, length);
  buffer.erase(0, kLengthBytes + length);
  return message;
}

}  // namespace lockstep::transport
