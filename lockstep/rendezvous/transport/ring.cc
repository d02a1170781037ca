#include "lockstep/rendezvous/transport/ring.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <new>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::transport {
namespace {

constexpr uint32_t kMagic = 0x676E6952;  // "Ring"
constexpr uint32_t kVersion = 1;
constexpr uint64_t kLengthBytes = sizeof(uint32_t);
constexpr uint64_t kAlignment = 8;

static_assert(std::atomic_ref<uint64_t>::is_always_lock_free);

// What a message of that many bytes takes of the ring.
constexpr uint64_t Footprint(uint64_t bytes) {
  return (kLengthBytes + bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// A length never wraps, nor does any message fill the ring alone.
static_assert(kLengthBytes <= kAlignment && kRingCapacityMin % kAlignment == 0);
static_assert(Footprint(RingMessageBytesMax(kRingCapacityMin)) < kRingCapacityMin);
static_assert(RingMessageBytesMax(kRingCapacityMax) <= std::numeric_limits<uint32_t>::max());

bool IsCapacity(uint64_t capacity) {
  return std::has_single_bit(capacity) && capacity >= kRingCapacityMin &&
         capacity <= kRingCapacityMax;
}

uint64_t Load(uint64_t& word) { return std::atomic_ref(word).load(std::memory_order_acquire); }

// Everything that was written or read before is done when the other end sees this. Sequentially
// consistent, since what follows may be a look at the flag of the other end.
void Publish(uint64_t& word, uint64_t value) {
  std::atomic_ref(word).store(value, std::memory_order_seq_cst);
}

uint64_t LoadInOrder(uint64_t& word) {
  return std::atomic_ref(word).load(std::memory_order_seq_cst);
}

void Raise(uint32_t& flag) { std::atomic_ref(flag).store(1, std::memory_order_seq_cst); }
void Lower(uint32_t& flag) { std::atomic_ref(flag).store(0, std::memory_order_relaxed); }

// Only an end that sees it raised writes to it, so that it stays in both caches otherwise.
bool TakeRaised(uint32_t& flag) {
  const std::atomic_ref word(flag);
  return word.load(std::memory_order_seq_cst) != 0 && word.exchange(0) != 0;
}

absl::Status BrokenRing(const std::string& what) {
  return absl::DataLossError(absl::StrCat("the ring of messages with the peer is broken: ", what,
                                          "; the peer is faulty, give up the connection"));
}

// The capacity, which follows from the memory alone; the header must say the same.
absl::StatusOr<uint64_t> CapacityOf(std::span<std::byte> memory) {
  const uint64_t capacity = memory.size() - std::min<uint64_t>(memory.size(), kRingHeaderBytes);
  const bool aligned = reinterpret_cast<uintptr_t>(memory.data()) % alignof(RingHeader) == 0;
  if (!IsCapacity(capacity) || !aligned) {
    return absl::InvalidArgumentError(
        absl::StrCat(memory.size(), " bytes are no memory for a ring of messages"));
  }
  RingHeader header;
  std::memcpy(&header, memory.data(), offsetof(RingHeader, head));
  if (header.magic != kMagic || header.version != kVersion || header.capacity != capacity) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer's memory holds no ring of messages of version ", kVersion, " with ",
                     capacity, " bytes (magic ", absl::Hex(header.magic), ", version ",
                     header.version, ", capacity ", header.capacity, ")"));
  }
  return capacity;
}

RingHeader* HeaderOf(std::span<std::byte> memory) {
  return reinterpret_cast<RingHeader*>(memory.data());
}

}  // namespace

void MakeRing(std::span<std::byte> memory) {
  LOCKSTEP_CHECK(memory.size() > kRingHeaderBytes);
  const uint64_t capacity = memory.size() - kRingHeaderBytes;
  LOCKSTEP_CHECK(IsCapacity(capacity));
  LOCKSTEP_CHECK(reinterpret_cast<uintptr_t>(memory.data()) % alignof(RingHeader) == 0);
  new (memory.data()) RingHeader{.magic = kMagic,
                                 .version = kVersion,
                                 .capacity = capacity,
                                 .head = 0,
                                 .tail = 0,
                                 .reader_sleeps = 0,
                                 .writer_waits = 0};
}

absl::StatusOr<RingWriter> RingWriter::Open(std::span<std::byte> memory) {
  const auto capacity = CapacityOf(memory);
  if (!capacity.ok()) return capacity.status();
  return RingWriter(HeaderOf(memory), memory.data() + kRingHeaderBytes, *capacity);
}

absl::Status RingWriter::LookAtHead() {
  const uint64_t head = Load(header_->head);
  if (head < head_seen_ || head > tail_ || head % kAlignment != 0) {
    broken_ = BrokenRing(absl::StrCat("the reader stands at ", head, ", after ", head_seen_,
                                      ", and ", tail_, " bytes were written"));
    return broken_;
  }
  head_seen_ = head;
  return absl::OkStatus();
}

absl::StatusOr<bool> RingWriter::TryWrite(std::span<const std::string_view> parts) {
  if (!broken_.ok()) return broken_;
  uint64_t bytes = 0;
  for (const std::string_view part : parts) bytes += part.size();
  if (bytes > RingMessageBytesMax(capacity_)) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", bytes, " bytes is longer than ",
                                                   RingMessageBytesMax(capacity_),
                                                   " (ring_message_bytes_max)"));
  }
  LOCKSTEP_DCHECK(tail_ % kAlignment == 0 && tail_ - head_seen_ <= capacity_);
  const uint64_t footprint = Footprint(bytes);
  if (footprint > capacity_ - (tail_ - head_seen_)) {
    if (absl::Status status = LookAtHead(); !status.ok()) return status;
    if (footprint > capacity_ - (tail_ - head_seen_)) return false;
  }
  const auto length = static_cast<uint32_t>(bytes);
  Put(tail_, &length, kLengthBytes);
  uint64_t at = tail_ + kLengthBytes;
  for (const std::string_view part : parts) {
    Put(at, part.data(), part.size());
    at += part.size();
  }
  tail_ += footprint;
  Publish(header_->tail, tail_);
  return true;
}

bool RingWriter::ReaderWantsWaking() { return TakeRaised(header_->reader_sleeps); }

bool RingWriter::WaitForRoom(uint64_t bytes) {
  Raise(header_->writer_waits);
  const uint64_t head = LoadInOrder(header_->head);
  return Footprint(bytes) > capacity_ - (tail_ - head);
}

void RingWriter::Put(uint64_t at, const void* from, uint64_t bytes) {
  if (bytes == 0) return;
  LOCKSTEP_DCHECK(bytes <= capacity_);
  const uint64_t begin = at % capacity_;
  const uint64_t before_end = std::min(bytes, capacity_ - begin);
  std::memcpy(data_ + begin, from, before_end);
  std::memcpy(data_, static_cast<const std::byte*>(from) + before_end, bytes - before_end);
}

absl::StatusOr<RingReader> RingReader::Open(std::span<std::byte> memory) {
  const auto capacity = CapacityOf(memory);
  if (!capacity.ok()) return capacity.status();
  return RingReader(HeaderOf(memory), memory.data() + kRingHeaderBytes, *capacity);
}

bool RingReader::PrepareToSleep() {
  if (head_ != tail_seen_ || !broken_.ok()) return false;
  Raise(header_->reader_sleeps);
  return LoadInOrder(header_->tail) == head_;
}

void RingReader::Awake() { Lower(header_->reader_sleeps); }

bool RingReader::WriterWantsWaking() { return TakeRaised(header_->writer_waits); }

bool RingReader::HasSomething() const {
  return !broken_.ok() || head_ != tail_seen_ || Load(header_->tail) != head_;
}

absl::Status RingReader::Broken(const std::string& what) {
  broken_ = BrokenRing(what);
  return broken_;
}

absl::Status RingReader::LookAtTail() {
  const uint64_t tail = Load(header_->tail);
  if (tail < head_ || tail - head_ > capacity_ || tail % kAlignment != 0) {
    return Broken(absl::StrCat("the writer stands at ", tail, ", and ", head_,
                               " bytes were read of a ring of ", capacity_));
  }
  tail_seen_ = tail;
  return absl::OkStatus();
}

absl::StatusOr<bool> RingReader::TryRead(std::string& message) {
  if (!broken_.ok()) return broken_;
  if (head_ == tail_seen_) {
    if (absl::Status status = LookAtTail(); !status.ok()) return status;
    if (head_ == tail_seen_) return false;
  }
  LOCKSTEP_DCHECK(head_ % kAlignment == 0 && tail_seen_ - head_ <= capacity_);
  // Once, as the peer may change it while we look. Never wraps: both are multiples of 8.
  const uint64_t begin = head_ % capacity_;
  auto& word = *reinterpret_cast<uint32_t*>(data_ + begin);
  const uint64_t length = std::atomic_ref(word).load(std::memory_order_relaxed);
  const uint64_t footprint = Footprint(length);
  if (length > RingMessageBytesMax(capacity_) || footprint > tail_seen_ - head_) {
    return Broken(absl::StrCat("a message of ", length, " bytes where ", tail_seen_ - head_,
                               " were written"));
  }
  message.resize(length);
  const uint64_t first = (head_ + kLengthBytes) % capacity_;
  const uint64_t before_end = std::min(length, capacity_ - first);
  std::memcpy(message.data(), data_ + first, before_end);
  std::memcpy(message.data() + before_end, data_, length - before_end);
  head_ += footprint;
  Publish(header_->head, head_);
  return true;
}

}  // namespace lockstep::transport
