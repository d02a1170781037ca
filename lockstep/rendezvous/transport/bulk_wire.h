// What goes over a bulk link: docs/formats/rendezvous.md. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep::transport {

// Of one message of the dialing end, and of an error's text: `bulk_message_bytes_max`.
inline constexpr size_t kBulkMessageBytesMax = 4096;
// At most so many bytes are asked for at a time: `fetch_chunk_bytes_max`.
inline constexpr uint64_t kFetchChunkBytesMax = uint64_t{4} << 20;
inline constexpr size_t kBulkHeaderBytes = 32;
// What follows `kPlace`.
inline constexpr size_t kBulkPlaceBytes = 8;

enum class BulkCode : uint32_t {
  kBytes = 0,    // those that were asked for follow
  kUnknown = 1,  // no such lease; a text follows, as with the next
  kRange = 2,    // the value has no such bytes
  kPlace = 3,    // where the bytes that were asked for lie follows
  kNoPlace = 4,  // a text follows; the bytes may be asked for
};

// What precedes each answer.
struct BulkHeader {
  BulkCode code = BulkCode::kBytes;
  uint64_t lease = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;  // that follow
};

using BulkHeaderBytes = std::array<char, kBulkHeaderBytes>;

BulkHeaderBytes EncodeBulkHeader(const BulkHeader& header);
// INVALID_ARGUMENT: it is none.
absl::StatusOr<BulkHeader> DecodeBulkHeader(const BulkHeaderBytes& bytes);

// An address in the memory of who answers.
std::string EncodeBulkPlace(uint64_t address);
uint64_t DecodeBulkPlace(const std::array<char, kBulkPlaceBytes>& bytes);

// With its length in front.
std::string WithLength(std::string_view message);
// Takes the first message off `buffer`; nothing when there is no whole one. INVALID_ARGUMENT: it is
// too long.
absl::StatusOr<std::optional<std::string>> TakeMessage(std::string& buffer);

}  // namespace lockstep::transport
