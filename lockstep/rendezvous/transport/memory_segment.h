// A piece of memory that two processes have mapped: an anonymous file (memfd) whose length is
// sealed, so that neither end can make the other one fault by shortening it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::transport {

// Owns one mapping, and of segments made here the descriptor, which is what a peer is given.
// Needs Linux 5.1 (F_SEAL_FUTURE_WRITE). Memory is taken from the system when it is first touched
// or populated, and given back when the last process has unmapped it.
// Threads: thread-compatible; what is in the memory is up to those who share it.
class MemorySegment {
 public:
  enum class Access { kReadOnly, kReadWrite };

  // Written here only: whoever is given the descriptor can map it for reading, and nothing else.
  static absl::StatusOr<std::unique_ptr<MemorySegment>> Create(uint64_t bytes);
  // Written by both ends.
  static absl::StatusOr<std::unique_ptr<MemorySegment>> CreateShared(uint64_t bytes);
  // For this process alone, for when no other can be made: without a descriptor.
  static absl::StatusOr<std::unique_ptr<MemorySegment>> CreatePrivate(uint64_t bytes);
  // A peer's. Takes the descriptor over, and closes it in any case: the mapping stays without.
  // INVALID_ARGUMENT when it is not `bytes` long at least, or could be made shorter.
  static absl::StatusOr<std::unique_ptr<MemorySegment>> Map(runtime::UniqueFd fd, uint64_t bytes,
                                                            Access access);

  ~MemorySegment();
  MemorySegment(const MemorySegment&) = delete;
  MemorySegment& operator=(const MemorySegment&) = delete;

  const std::byte* data() const { return data_; }
  // Only of a segment that was not mapped kReadOnly.
  std::byte* mutable_data();
  uint64_t bytes() const { return bytes_; }
  // -1 for a peer's, and for a private one.
  int fd() const { return fd_.get(); }

  // Takes the pages of this range from the system now: in one go that costs less than faulting
  // them in one by one, and a lack of memory is an error here instead of a SIGBUS later. Whole
  // pages around the range.
  absl::Status Populate(uint64_t offset, uint64_t bytes);

 private:
  MemorySegment(runtime::UniqueFd fd, std::byte* data, uint64_t bytes, Access access)
      : fd_(std::move(fd)), data_(data), bytes_(bytes), access_(access) {}

  static absl::StatusOr<std::unique_ptr<MemorySegment>> MapWhole(runtime::UniqueFd fd,
                                                                 uint64_t bytes, Access access);

  runtime::UniqueFd fd_;
  std::byte* const data_;
  const uint64_t bytes_;
  const Access access_;
};

}  // namespace lockstep::transport
