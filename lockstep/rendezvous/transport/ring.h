// Messages from one process to another through memory that both can write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::transport {

// How a ring lies in memory: this header, then `capacity` bytes. A message is its length (uint32,
// of this host's byte order), its bytes, and padding to a multiple of 8; it may wrap. `head` and
// `tail` count bytes since the ring was made: the reader writes the one, the writer the other. The
// flags have cache lines of their own: each end looks at the other's after every message, and would
// take away the line that the other one writes to next.
struct RingHeader {
  uint32_t magic;
  uint32_t version;
  uint64_t capacity;
  alignas(64) uint64_t head;
  alignas(64) uint64_t tail;
  // Set by the reader before it sleeps, cleared by the writer who wakes it.
  alignas(64) uint32_t reader_sleeps;
  // The same, of a writer for whom there was no room.
  alignas(64) uint32_t writer_waits;
};

inline constexpr uint64_t kRingCapacity = uint64_t{256} << 10;
inline constexpr uint64_t kRingCapacityMin = 64;
inline constexpr uint64_t kRingCapacityMax = uint64_t{1} << 31;
inline constexpr uint64_t kRingHeaderBytes = 320;
static_assert(sizeof(RingHeader) == kRingHeaderBytes);

// How much memory a ring takes. `capacity` is a power of two within the bounds above.
constexpr uint64_t RingBytes(uint64_t capacity) { return kRingHeaderBytes + capacity; }
// The longest message: `ring_message_bytes_max`. A quarter, so that whoever waits for room need not
// wait until all is read.
constexpr uint64_t RingMessageBytesMax(uint64_t capacity) { return capacity / 4; }

// Makes an empty ring of all of `memory`, which is `RingBytes` long, aligned to 64 bytes, and not
// in use. Done by one end, before the other one opens it.
void MakeRing(std::span<std::byte> memory);

// One of the two ends. The other process may write anything into the memory at any time, so nothing
// is believed: where this end stands is kept in private, what the other end wrote is read once and
// checked, and a ring that cannot be right is DATA_LOSS, from then on for good.

// The end that writes. Does not own the memory. Threads: one at a time, without any lock.
class RingWriter {
 public:
  // Of a ring in which nothing was written yet.
  static absl::StatusOr<RingWriter> Open(std::span<std::byte> memory);

  // Writes all parts as one message, or nothing: false when there is no room for it now.
  // INVALID_ARGUMENT when there never will be.
  absl::StatusOr<bool> TryWrite(std::span<const std::string_view> parts);
  absl::StatusOr<bool> TryWrite(std::string_view message) { return TryWrite({&message, 1}); }

  // After a write: whether the reader sleeps, or is about to, and is to be woken. Says so once for
  // each sleep.
  bool ReaderWantsWaking();
  // After `TryWrite` found no room: the reader shall wake us when it has read. False: there is room
  // for this many bytes by now.
  bool WaitForRoom(uint64_t bytes);

 private:
  RingWriter(RingHeader* header, std::byte* data, uint64_t capacity)
      : header_(header), data_(data), capacity_(capacity) {}

  absl::Status LookAtHead();
  void Put(uint64_t at, const void* from, uint64_t bytes);

  RingHeader* header_;
  std::byte* data_;
  uint64_t capacity_;
  uint64_t tail_ = 0;
  uint64_t head_seen_ = 0;
  absl::Status broken_;
};

// The end that reads. Does not own the memory. Threads: one at a time, without any lock.
class RingReader {
 public:
  // Of a ring from which nothing was read yet.
  static absl::StatusOr<RingReader> Open(std::span<std::byte> memory);

  // Puts the next message into `message`, or returns false when there is none.
  absl::StatusOr<bool> TryRead(std::string& message);
  // Whether `TryRead` would bring something, if only that the ring is broken. Cheap, for spinning.
  bool HasSomething() const;

  // Before sleeping: the writer shall wake us with its next message. False: there is one.
  //
  // No wake-up is lost: we write the flag and then look at the tail, the writer writes the tail and
  // then looks at the flag, all sequentially consistent, so that one of the two sees the other.
  bool PrepareToSleep();
  // The sleep is over, or is not to be: the writer need not wake us any more.
  void Awake();
  // After reading: whether the writer waits for room. Says so once for each wait.
  bool WriterWantsWaking();

 private:
  RingReader(RingHeader* header, std::byte* data, uint64_t capacity)
      : header_(header), data_(data), capacity_(capacity) {}

  absl::Status LookAtTail();
  absl::Status Broken(const std::string& what);

  RingHeader* header_;
  std::byte* data_;
  uint64_t capacity_;
  uint64_t head_ = 0;
  uint64_t tail_seen_ = 0;
  absl::Status broken_;
};

}  // namespace lockstep::transport
