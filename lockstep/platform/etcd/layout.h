// The keys that a state has in etcd, and the bytes of their values. Pure. The format is
// docs/formats/journal.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "lockstep/platform/etcd/transaction.h"

namespace lockstep::etcd {

// Of the format; a state of a newer one is refused.
inline constexpr int kFormat = 1;

// Of what is appended together, in as many rows as it takes.
inline constexpr size_t kTogetherBytesMax = size_t{1} << 30;

// A snapshot: who has written it, and the last row that it stands for. A leader writes one for a
// row.
struct SnapshotName {
  Revision epoch = 0;
  uint64_t through = 0;
  friend bool operator==(const SnapshotName&, const SnapshotName&) = default;
};

// The names of keys, all of which begin with the prefix.
class Layout {
 public:
  explicit Layout(std::string prefix) : prefix_(std::move(prefix)) {}

  const std::string& prefix() const { return prefix_; }
  // Which state it is, from its making on.
  std::string lineage() const { return prefix_ + "/lineage"; }
  // Who writes: the revision that it was modified at is the epoch.
  std::string leader() const { return prefix_ + "/leader"; }
  // Rows, by number from 1; the one behind the last possible one, where ranges end.
  std::string row(uint64_t sequence) const;
  std::string rows_end() const { return EndOfPrefix(prefix_ + "/log/"); }
  // Which snapshot counts.
  std::string snapshot() const { return prefix_ + "/snapshot"; }
  // The pieces of a snapshot; of all that were written since this epoch began; all pieces of all.
  std::string piece(const SnapshotName& snapshot, uint64_t number) const;
  std::string pieces(const SnapshotName& snapshot) const;
  std::string pieces_since(Revision epoch) const;
  std::string all_pieces() const { return prefix_ + "/pieces/"; }
  // The number of a row by its key; nothing: it is none's.
  std::optional<uint64_t> SequenceOf(std::string_view key) const;

 private:
  std::string prefix_;
};

// The value of `lineage`.
struct Lineage {
  int format = kFormat;
  std::string id;  // drawn when the state was made
};
std::string Encode(const Lineage& lineage);
absl::StatusOr<Lineage> DecodeLineage(std::string_view value);

// The value of `snapshot`.
std::string Encode(const SnapshotName& snapshot);
absl::StatusOr<SnapshotName> DecodeSnapshotName(std::string_view value);

// What stands before the bytes of a row or a piece.
struct Head {
  uint32_t checksum = 0;  // chained to the one before
  bool more = false;      // of a row: the next belongs to it; of a piece: it is not the last
};
inline constexpr size_t kHeadBytes = 6;

// Of a value that `EncodeRow` or `EncodePiece` made.
uint32_t ChecksumOf(std::string_view value);

// The value of a row, its checksum chained to that of the row before it.
std::string EncodeRow(uint32_t previous, uint64_t sequence, bool more, std::string_view bytes);
// The bytes are those of `value`. DATA_LOSS: it is not what was written as this row behind that
// one.
struct DecodedRow {
  Head head;
  std::string_view bytes;
};
absl::StatusOr<DecodedRow> DecodeRow(uint32_t previous, uint64_t sequence, std::string_view value);

// The same for pieces of a snapshot.
std::string EncodePiece(uint32_t previous, uint64_t through, uint64_t number, bool more,
                        std::string_view bytes);
absl::StatusOr<DecodedRow> DecodePiece(uint32_t previous, uint64_t through, uint64_t number,
                                       std::string_view value);

}  // namespace lockstep::etcd
