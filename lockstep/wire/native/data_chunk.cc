#include "lockstep/wire/native/data_chunk.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"

namespace lockstep::wire::native {
namespace {

// Everything is little-endian, as are all hosts that this program is built for.
static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kChunkMagic = 0x4b43534c;   // "LSCK"
constexpr uint32_t kAnswerMagic = 0x4152534c;  // "LSRA"
constexpr uint16_t kVersion = 1;
constexpr size_t kTableEntryBytes = 16;
constexpr uint16_t kEnded = 1;

static_assert((kChunkAlignment & (kChunkAlignment - 1)) == 0);  // `RoundUp` cuts bits off
size_t RoundUp(size_t bytes) { return (bytes + kChunkAlignment - 1) & ~(kChunkAlignment - 1); }

// As in docs/formats/data.md.
struct WireChunkHead {
  uint32_t magic = kChunkMagic;
  uint16_t version = kVersion;
  uint16_t flags = 0;
  int64_t segment = 0;
  int64_t first = 0;
  uint32_t stride = 1;
  uint32_t count = 0;
  int64_t next = 0;
  int64_t known = 0;
  uint64_t table = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(WireChunkHead) == kChunkAlignment);

struct WireAnswerHead {
  uint32_t magic = kAnswerMagic;
  uint16_t version = kVersion;
  uint16_t form = 0;
  uint32_t memory_segment = 0;
  uint32_t ended = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t generation = 0;
  uint64_t lease = 0;
  int64_t known = 0;
  uint64_t zero = 0;
};
static_assert(sizeof(WireAnswerHead) == kChunkAlignment);

struct WireTableEntry {
  uint64_t offset;
  uint64_t bytes;
};
static_assert(sizeof(WireTableEntry) == kTableEntryBytes);

absl::Status Wrong(const std::string& what) {
  return absl::InvalidArgumentError("elements of a worker: " + what);
}

template <class T>
T Read(const char* from) {
  T to;
  std::memcpy(&to, from, sizeof(T));
  return to;
}

}  // namespace

size_t ChunkWriter::BytesFor(size_t element_bytes) {
  return kChunkAlignment + RoundUp(element_bytes) + kTableEntryBytes;
}

ChunkWriter::ChunkWriter(std::span<char> memory) : memory_(memory) {
  LOCKSTEP_CHECK(memory.size() >= kChunkAlignment);
}

bool ChunkWriter::Fits(size_t element_bytes) const {
  if (element_bytes > memory_.size()) return false;
  const size_t entries = places_.size() + reserved_ + 1;
  return used_ + RoundUp(element_bytes) + entries * kTableEntryBytes <= memory_.size();
}

std::span<char> ChunkWriter::Add(size_t element_bytes) {
  const std::span<char> room = Reserve(element_bytes);
  AddReserved({room.data(), room.size()});
  return room;
}

void ChunkWriter::AddReserved(std::string_view element) {
  LOCKSTEP_CHECK(reserved_ > 0 && Holds(element));
  --reserved_;
  places_.push_back(
      {.offset = static_cast<uint64_t>(element.data() - memory_.data()), .bytes = element.size()});
}

bool ChunkWriter::Holds(std::string_view bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
  const auto at = reinterpret_cast<uintptr_t>(bytes.data());
  return at >= begin + kChunkAlignment && at <= begin + used_ && bytes.size() <= begin + used_ - at;
}

std::span<char> ChunkWriter::Reserve(size_t element_bytes) {
  LOCKSTEP_CHECK(Fits(element_bytes));
  const std::span<char> room = memory_.subspan(used_, element_bytes);
  ++reserved_;
  const size_t end = used_ + element_bytes;
  used_ += RoundUp(element_bytes);
  std::memset(memory_.data() + end, 0, used_ - end);
  return room;
}

size_t ChunkWriter::Finish(ChunkHead head) {
  const size_t bytes = used_ + places_.size() * kTableEntryBytes;
  const WireChunkHead wire = {.flags = head.ended ? kEnded : uint16_t{0},
                              .segment = head.segment,
                              .first = head.first,
                              .stride = head.stride,
                              .count = count(),
                              .next = head.next,
                              .known = head.known,
                              .table = used_,
                              .bytes = bytes};
  std::memcpy(memory_.data(), &wire, sizeof(wire));
  if (!places_.empty()) {
    std::memcpy(memory_.data() + used_, places_.data(), places_.size() * kTableEntryBytes);
  }
  return bytes;
}

absl::StatusOr<ChunkView> ChunkView::Parse(std::string_view bytes) {
  if (bytes.size() < sizeof(WireChunkHead)) return Wrong("too short for a head");
  const auto wire = Read<WireChunkHead>(bytes.data());
  if (wire.magic != kChunkMagic || wire.version != kVersion) {
    return Wrong(absl::StrFormat("a head with magic %08x of version %d", wire.magic, wire.version));
  }
  if (wire.bytes != bytes.size()) {
    return Wrong(absl::StrFormat("%d bytes, said to be %d", bytes.size(), wire.bytes));
  }
  const uint64_t table_bytes = uint64_t{wire.count} * kTableEntryBytes;
  if (wire.table < sizeof(WireChunkHead) || wire.table > bytes.size() ||
      bytes.size() - wire.table != table_bytes) {
    return Wrong("the table of elements is not where it should be");
  }
  constexpr int64_t kIndexMax = std::numeric_limits<int64_t>::max() / 4;
  if (wire.stride == 0 || wire.first < 0 || wire.next < wire.first || wire.next > kIndexMax ||
      wire.segment < 0 || wire.known < 0) {
    return Wrong("impossible numbers in the head");
  }
  // The last one lies before `next`.
  if (wire.count > 0 && (wire.next - wire.first) / wire.stride < int64_t{wire.count} - 1) {
    return Wrong("more elements than numbers");
  }
  ChunkView view;
  view.bytes_ = bytes;
  view.table_ = wire.table;
  view.head_ = {.segment = wire.segment,
                .first = wire.first,
                .stride = wire.stride,
                .count = wire.count,
                .next = wire.next,
                .ended = (wire.flags & kEnded) != 0,
                .known = wire.known};
  for (uint32_t i = 0; i < wire.count; ++i) {
    const auto entry = Read<WireTableEntry>(bytes.data() + wire.table + i * kTableEntryBytes);
    if (entry.offset < sizeof(WireChunkHead) || entry.offset % kChunkAlignment != 0 ||
        entry.offset > wire.table || entry.bytes > wire.table - entry.offset) {
      return Wrong("an element lies outside");
    }
  }
  return view;
}

std::string_view ChunkView::element(uint32_t i) const {
  const auto entry = Read<WireTableEntry>(bytes_.data() + table_ + i * kTableEntryBytes);
  return bytes_.substr(entry.offset, entry.bytes);
}

void PutInlineHead(std::span<char> out) {
  const WireAnswerHead head = {.form = static_cast<uint16_t>(AnswerForm::kInline)};
  std::memcpy(out.data(), &head, sizeof(head));
}

std::string SharedAnswer(const ChunkPlace& place) {
  const WireAnswerHead head = {.form = static_cast<uint16_t>(AnswerForm::kShared),
                               .memory_segment = place.memory_segment,
                               .ended = place.ended ? 1U : 0U,
                               .offset = place.offset,
                               .bytes = place.bytes,
                               .generation = place.generation,
                               .lease = place.lease,
                               .known = place.known};
  return {reinterpret_cast<const char*>(&head), sizeof(head)};
}

std::string PreparedAnswer() {
  const WireAnswerHead head = {.form = static_cast<uint16_t>(AnswerForm::kPrepared)};
  return {reinterpret_cast<const char*>(&head), sizeof(head)};
}

absl::StatusOr<ReadAnswer> ParseReadAnswer(std::string_view bytes) {
  if (bytes.size() < sizeof(WireAnswerHead)) return Wrong("an answer without a head");
  const auto head = Read<WireAnswerHead>(bytes.data());
  if (head.magic != kAnswerMagic || head.version != kVersion) {
    return Wrong(
        absl::StrFormat("an answer with magic %08x of version %d", head.magic, head.version));
  }
  ReadAnswer answer;
  answer.form = static_cast<AnswerForm>(head.form);
  switch (answer.form) {
    case AnswerForm::kPrepared:
      return answer;
    case AnswerForm::kInline:
      answer.chunk = bytes.substr(sizeof(head));
      return answer;
    case AnswerForm::kShared:
      if (head.lease == 0) return Wrong("a place without a lease");
      answer.place = {.memory_segment = head.memory_segment,
                      .offset = head.offset,
                      .bytes = head.bytes,
                      .generation = head.generation,
                      .lease = head.lease,
                      .known = head.known,
                      .ended = head.ended != 0};
      return answer;
  }
  return Wrong(absl::StrFormat("an answer of form %d", head.form));
}

}  // namespace lockstep::wire::native
