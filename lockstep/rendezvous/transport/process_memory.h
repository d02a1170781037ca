// Reading the memory of another process of this host, with its leave: process_vm_readv.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep::transport {

inline constexpr size_t kMemoryProofBytes = 16;

// Random bytes at a place of this process's memory. Who finds them there is told that it reads the
// right process, that the kernel lets it, and that what was shown to it still stands: so they are
// erased before anything of that changes. Threads: confined, but for those who read.
class MemoryProof {
 public:
  // Draws it, so that another process has it by chance only.
  MemoryProof();
  ~MemoryProof() { Erase(); }
  MemoryProof(const MemoryProof&) = delete;
  MemoryProof& operator=(const MemoryProof&) = delete;

  // In this process, where who reads its memory finds the proof.
  uint64_t address() const { return reinterpret_cast<uint64_t>(words_.data()); }
  // For who is to find them; empty when they are erased.
  std::string bytes() const;
  // From here on a read that looks at the proof fails: NOT_FOUND. For good.
  void Erase();

 private:
  std::array<std::atomic<uint64_t>, 2> words_;
};

// The memory of one process that shows a proof. The proof is read again behind whatever is read: a
// process id may have become another's, and memory may have been given back.
//
// Threads: thread-safe. Bounds: a call of the kernel takes as long as it copies; the caller cuts
// what is long.
class ProcessMemory {
 public:
  // Tests put others in.
  using ReadFunction = std::function<ssize_t(pid_t pid, const iovec* to, unsigned long to_count,
                                             const iovec* from, unsigned long from_count)>;

  // ::process_vm_readv.
  static ssize_t SystemRead(pid_t pid, const iovec* to, unsigned long to_count, const iovec* from,
                            unsigned long from_count);

  // `proof_bytes`: kMemoryProofBytes, as the process said them.
  ProcessMemory(pid_t pid, uint64_t proof_address, std::string_view proof_bytes,
                ReadFunction read = SystemRead);

  // PERMISSION_DENIED, UNIMPLEMENTED: the kernel forbids it, and what to do. NOT_FOUND: that
  // process is gone, or shows its memory no more.
  absl::Status Check() const;
  // All of `into`, or an error; then what is in it is of no use. As `Check`, and INVALID_ARGUMENT:
  // the process has no such memory.
  absl::Status Read(uint64_t address, std::span<std::byte> into) const;

 private:
  const pid_t pid_;
  const uint64_t proof_address_;
  std::array<char, kMemoryProofBytes> proof_;
  const ReadFunction read_;
};

}  // namespace lockstep::transport
