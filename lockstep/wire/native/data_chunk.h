// A run of elements of one segment, as it lies in memory, on the wire and in shared memory, and the
// answer to `ReadSegment` that carries it. Layout and rules: docs/formats/data.md. Pure: bytes in,
// bytes out.
//
// An answer is not a message of fields: elements are to lie at places that arrays can be made of
// without a copy. It is a head of 64 bytes and behind it the chunk; or the head alone, which says
// where in shared memory the chunk lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::wire::native {

// Of the heads, and what the places of elements are multiples of, counted from the chunk's first
// byte.
inline constexpr size_t kChunkAlignment = 64;

// What a chunk says of itself.
struct ChunkHead {
  int64_t segment = 0;
  // Element i of the chunk is element first + i * stride of the segment.
  int64_t first = 0;
  uint32_t stride = 1;
  uint32_t count = 0;
  // The segment's elements before this one that belong to the stride are in this chunk or before
  // it: from here one asks on. Not below `first`.
  int64_t next = 0;
  // The segment's end was reached: `next` is there or behind it.
  bool ended = false;
  // The segment has at least so many elements; exactly, when `ended`.
  int64_t known = 0;

  friend bool operator==(const ChunkHead&, const ChunkHead&) = default;
};

// Writes elements one behind the other into memory of a fixed size.
class ChunkWriter {
 public:
  // How much memory a chunk of one element of this size needs.
  static size_t BytesFor(size_t element_bytes);

  // `memory` stays the caller's; it begins aligned as the elements shall be.
  explicit ChunkWriter(std::span<char> memory);

  // Whether an element of so many bytes can be added, beside what is reserved.
  bool Fits(size_t element_bytes) const;
  // Where the next element goes, of so many bytes; it must fit.
  std::span<char> Add(size_t element_bytes);
  // The same place, for what becomes an element by `AddReserved` or never: then it stays a gap.
  std::span<char> Reserve(size_t element_bytes);
  // `element` lies where `Reserve` said, and may be shorter than what was reserved.
  void AddReserved(std::string_view element);
  // Whether these bytes lie where something was added or reserved.
  bool Holds(std::string_view bytes) const;

  // Added, without what is only reserved.
  uint32_t count() const { return static_cast<uint32_t>(places_.size()); }
  // Writes head and table; `head.count` is put in here. Returns how long the chunk is.
  size_t Finish(ChunkHead head);

 private:
  struct Place {
    uint64_t offset;
    uint64_t bytes;
  };
  std::span<char> memory_;
  size_t used_ = kChunkAlignment;
  size_t reserved_ = 0;  // and not added yet
  std::vector<Place> places_;
};

// A chunk that was checked: what it says of places lies within it. Refers to its bytes.
class ChunkView {
 public:
  // INVALID_ARGUMENT: this is no chunk.
  static absl::StatusOr<ChunkView> Parse(std::string_view bytes);

  // As the writer said it, without impossible numbers.
  const ChunkHead& head() const { return head_; }
  std::string_view element(uint32_t i) const;  // i < head().count; its bytes are not checked
  // Of element i of the chunk, within its segment.
  int64_t index_of(uint32_t i) const { return head_.first + int64_t{i} * head_.stride; }

 private:
  ChunkHead head_;
  std::string_view bytes_;
  size_t table_ = 0;
};

// Where a chunk lies in the worker's shared memory, and what gives it back.
struct ChunkPlace {
  uint32_t memory_segment = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t generation = 0;
  // Never 0. To be told in `released` of a later request on the same link.
  uint64_t lease = 0;
  // As the worker knows it now: the chunk's own head says what was known when it was made.
  int64_t known = 0;
  bool ended = false;

  friend bool operator==(const ChunkPlace&, const ChunkPlace&) = default;
};

// How an answer begins; then the chunk, when `kInline`.
enum class AnswerForm : uint16_t {
  kPrepared = 0,  // nothing was asked for but to make it
  kInline = 1,
  kShared = 2,
};

// Writes the head of an answer over the first bytes of `out`, which is kChunkAlignment long at
// least.
void PutInlineHead(std::span<char> out);
// The whole answer: nothing comes behind the head.
std::string SharedAnswer(const ChunkPlace& place);
std::string PreparedAnswer();

struct ReadAnswer {
  AnswerForm form = AnswerForm::kPrepared;
  std::string_view chunk;  // inline; not checked yet
  ChunkPlace place;        // shared
};

// INVALID_ARGUMENT: this is no answer to ReadSegment.
absl::StatusOr<ReadAnswer> ParseReadAnswer(std::string_view bytes);

}  // namespace lockstep::wire::native
