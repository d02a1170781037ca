#include "lockstep/platform/etcd/layout.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/platform/journal/framing.h"

namespace lockstep::etcd {
namespace {

constexpr std::string_view kLineageTitle = "lockstep state ";
constexpr char kValueVersion = 1;
constexpr size_t kLineageBytesMax = 64;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// As many digits for every number, so that keys are in the order of their numbers.
std::string Digits(uint64_t number) { return absl::StrFormat("%016x", number); }

std::optional<uint64_t> FromDigits(std::string_view digits) {
  uint64_t number = 0;
  if (digits.size() != 16 || !absl::SimpleHexAtoi(View(digits), &number)) return std::nullopt;
  if (Digits(number) != digits) return std::nullopt;
  return number;
}

void PutChecksum(uint32_t checksum, std::string& value) {
  for (size_t i = 0; i < sizeof(checksum); ++i) {
    value[i] = static_cast<char>(checksum >> (8 * i));
  }
}

// What the checksum is over.
std::string_view Checked(std::string_view value) { return value.substr(sizeof(Head::checksum)); }

std::string WithoutChecksum(bool more, std::string_view bytes) {
  std::string value(sizeof(Head::checksum), '\0');
  value.reserve(kHeadBytes + bytes.size());
  value += kValueVersion;
  value += static_cast<char>(more);
  value += bytes;
  return value;
}

template <class Chained>
absl::StatusOr<DecodedRow> Decode(std::string_view value, Chained&& chained) {
  if (value.size() < kHeadBytes || ChecksumOf(value) != chained(Checked(value))) {
    return absl::DataLossError("its checksum is wrong");
  }
  const char version = value[sizeof(Head::checksum)];
  const char more = value[sizeof(Head::checksum) + 1];
  if (version != kValueVersion || (more != 0 && more != 1)) {
    return absl::DataLossError(absl::StrFormat("it begins with version %d", version));
  }
  return DecodedRow{.head = {.checksum = ChecksumOf(value), .more = more == 1},
                    .bytes = value.substr(kHeadBytes)};
}

}  // namespace

std::string Layout::row(uint64_t sequence) const {
  return absl::StrCat(prefix_, "/log/", Digits(sequence));
}

std::string Layout::pieces_since(Revision epoch) const {
  return absl::StrCat(all_pieces(), Digits(static_cast<uint64_t>(epoch)), "/");
}

std::string Layout::pieces(const SnapshotName& snapshot) const {
  return absl::StrCat(pieces_since(snapshot.epoch), Digits(snapshot.through), "/");
}

std::string Layout::piece(const SnapshotName& snapshot, uint64_t number) const {
  return absl::StrCat(pieces(snapshot), Digits(number));
}

std::optional<uint64_t> Layout::SequenceOf(std::string_view key) const {
  const std::string before = absl::StrCat(prefix_, "/log/");
  if (!absl::StartsWith(View(key), before)) return std::nullopt;
  return FromDigits(key.substr(before.size()));
}

std::string Encode(const Lineage& lineage) {
  return absl::StrFormat("%s%d\n%s\n", std::string(kLineageTitle), lineage.format, lineage.id);
}

absl::StatusOr<Lineage> DecodeLineage(std::string_view value) {
  const auto wrong = [] {
    return absl::DataLossError("the key 'lineage' does not hold what Lockstep writes there");
  };
  if (value.size() > kLineageBytesMax || !absl::StartsWith(View(value), View(kLineageTitle))) {
    return wrong();
  }
  value.remove_prefix(kLineageTitle.size());
  const size_t line = value.find('\n');
  Lineage lineage;
  if (line == std::string_view::npos || value.back() != '\n' || line + 1 == value.size() ||
      !absl::SimpleAtoi(View(value.substr(0, line)), &lineage.format)) {
    return wrong();
  }
  lineage.id = value.substr(line + 1, value.size() - line - 2);
  return lineage;
}

std::string Encode(const SnapshotName& snapshot) {
  return absl::StrCat(Digits(static_cast<uint64_t>(snapshot.epoch)), " ", Digits(snapshot.through));
}

absl::StatusOr<SnapshotName> DecodeSnapshotName(std::string_view value) {
  const size_t space = value.find(' ');
  if (space != std::string_view::npos) {
    const auto epoch = FromDigits(value.substr(0, space));
    const auto through = FromDigits(value.substr(space + 1));
    if (epoch && through && *epoch <= INT64_MAX) {
      return SnapshotName{.epoch = static_cast<Revision>(*epoch), .through = *through};
    }
  }
  return absl::DataLossError("the key 'snapshot' names none");
}

uint32_t ChecksumOf(std::string_view value) {
  uint32_t checksum = 0;
  for (size_t i = 0; i < sizeof(checksum); ++i) {
    checksum |= uint32_t{static_cast<uint8_t>(value[i])} << (8 * i);
  }
  return checksum;
}

std::string EncodeRow(uint32_t previous, uint64_t sequence, bool more, std::string_view bytes) {
  std::string value = WithoutChecksum(more, bytes);
  PutChecksum(journal::ChainChecksum(previous, sequence, Checked(value)), value);
  return value;
}

absl::StatusOr<DecodedRow> DecodeRow(uint32_t previous, uint64_t sequence, std::string_view value) {
  return Decode(value, [&](std::string_view checked) {
    return journal::ChainChecksum(previous, sequence, checked);
  });
}

std::string EncodePiece(uint32_t previous, uint64_t through, uint64_t number, bool more,
                        std::string_view bytes) {
  std::string value = WithoutChecksum(more, bytes);
  PutChecksum(journal::ChainChecksum(previous, through, number, Checked(value)), value);
  return value;
}

absl::StatusOr<DecodedRow> DecodePiece(uint32_t previous, uint64_t through, uint64_t number,
                                       std::string_view value) {
  return Decode(value, [&](std::string_view checked) {
    return journal::ChainChecksum(previous, through, number, checked);
  });
}

}  // namespace lockstep::etcd
