#include "lockstep/platform/journal/framing.h"

#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/base/crc32c.h"
#include "lockstep/base/limits.h"

namespace lockstep::journal {
namespace {

// Little-endian.
template <class T>
void Put(T value, char* out) {
  for (size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<char>(value >> (8 * i));
}

template <class T>
T Take(const char* in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= T{static_cast<uint8_t>(in[i])} << (8 * i);
  return value;
}

constexpr size_t kSnapshotEndBytes = 20;
static_assert(kSnapshotEndBytes == sizeof(SnapshotEnd::pieces) + sizeof(SnapshotEnd::entries) +
                                       sizeof(SnapshotEnd::row_checksum));
// The room before an entry holds its length.
static_assert(kEntryPrefixBytes == sizeof(uint32_t));
static_assert(kEntryBytesMax - kEntryPrefixBytes <= UINT32_MAX);
// What a message of the largest size changes fits into one entry.
static_assert(kMessageBytesMax + kMessageOverheadMax + kEntryPrefixBytes < kEntryBytesMax);
static_assert(kEntryBytesSoftMax < kEntryBytesMax);

}  // namespace

absl::Status SealEntry(std::string& entry) {
  LOCKSTEP_CHECK(entry.size() >= kEntryPrefixBytes);
  if (entry.size() > kEntryBytesMax) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "an entry of %d bytes is over entry_bytes_max (%d)", entry.size(), kEntryBytesMax));
  }
  Put(static_cast<uint32_t>(entry.size() - kEntryPrefixBytes), entry.data());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string_view>> FirstEntry(std::string_view bytes) {
  if (bytes.size() < kEntryPrefixBytes) return std::nullopt;
  const uint32_t length = Take<uint32_t>(bytes.data());
  if (length > kEntryBytesMax - kEntryPrefixBytes) {
    return absl::DataLossError(absl::StrFormat("an entry of %d bytes is over entry_bytes_max (%d)",
                                               length, kEntryBytesMax));
  }
  if (length > bytes.size() - kEntryPrefixBytes) return std::nullopt;
  return bytes.substr(kEntryPrefixBytes, length);
}

absl::Status ReadEntries(std::string_view row,
                         absl::FunctionRef<absl::Status(std::string_view entry)> take) {
  size_t at = 0;
  while (at < row.size()) {
    const auto entry = FirstEntry(row.substr(at));
    if (!entry.ok() || !entry->has_value()) {
      return absl::DataLossError(
          absl::StrFormat("byte %d of %d: no whole entry begins there", at, row.size()));
    }
    if (absl::Status status = take(**entry); !status.ok()) return status;
    at += kEntryPrefixBytes + (*entry)->size();
  }
  return absl::OkStatus();
}

uint32_t ChainChecksum(uint32_t previous, uint64_t sequence, std::string_view row) {
  char head[12];
  static_assert(sizeof(head) == sizeof(previous) + sizeof(sequence));
  Put(previous, head);
  Put(sequence, head + 4);
  return Crc32c(Crc32c(0, std::string_view(head, sizeof(head))), row);
}

uint32_t ChainChecksum(uint32_t previous, uint64_t through, uint64_t piece,
                       std::string_view bytes) {
  char head[20];
  static_assert(sizeof(head) == sizeof(previous) + sizeof(through) + sizeof(piece));
  Put(previous, head);
  Put(through, head + 4);
  Put(piece, head + 12);
  return Crc32c(Crc32c(0, std::string_view(head, sizeof(head))), bytes);
}

std::string EncodeSnapshotEnd(const SnapshotEnd& end) {
  std::string bytes(kSnapshotEndBytes, '\0');
  Put(end.pieces, bytes.data());
  Put(end.entries, bytes.data() + 8);
  Put(end.row_checksum, bytes.data() + 16);
  return bytes;
}

absl::StatusOr<SnapshotEnd> DecodeSnapshotEnd(std::string_view bytes) {
  if (bytes.size() != kSnapshotEndBytes) {
    return absl::DataLossError(absl::StrFormat("the end of a snapshot has %d bytes instead of %d",
                                               bytes.size(), kSnapshotEndBytes));
  }
  return SnapshotEnd{.pieces = Take<uint64_t>(bytes.data()),
                     .entries = Take<uint64_t>(bytes.data() + 8),
                     .row_checksum = Take<uint32_t>(bytes.data() + 16)};
}

}  // namespace lockstep::journal
