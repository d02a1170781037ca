#include "lockstep/rendezvous/transport/process_memory.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/rendezvous/transport/system_call_error.h"

namespace lockstep::transport {
namespace {

// Of Debian's and Ubuntu's kernels: 1 lets a process read only those that it started.
std::string WhoForbids() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  if (!(file >> scope) || scope == 0) {
    return "let the two run as one user, outside of a sandbox that forbids it";
  }
  return absl::StrCat("kernel.yama.ptrace_scope is ", scope,
                      scope == 1 ? "; the other may allow it with prctl(PR_SET_PTRACER)" : "");
}

absl::Status Gone() { return absl::NotFoundError("the process does not show its memory"); }

absl::Status ReadError(int error) {
  const char* const call = "process_vm_readv";
  switch (error) {
    case ESRCH:
      return Gone();
    case EPERM:
      return SystemCallError(call, error, WhoForbids());
    case ENOSYS:
      return SystemCallError(call, error, "this kernel, or a sandbox, does not have it");
    case EFAULT:
      return absl::InvalidArgumentError("the process has no memory at that place");
    default:
      return SystemCallError(call, error, "values come through sockets");
  }
}

iovec At(uint64_t address, size_t bytes) {
  return {reinterpret_cast<void*>(static_cast<uintptr_t>(address)), bytes};
}

}  // namespace

MemoryProof::MemoryProof() {
  static_assert(sizeof(words_) == kMemoryProofBytes);
  // Never what `Erase` leaves.
  for (auto& word : words_) word = runtime::RandomNumber() | 1;
}

std::string MemoryProof::bytes() const {
  std::string bytes;
  for (const auto& word : words_) {
    const uint64_t value = word;
    if (value == 0) return "";
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

void MemoryProof::Erase() {
  for (auto& word : words_) word = 0;
}

ProcessMemory::ProcessMemory(pid_t pid, uint64_t proof_address, std::string_view proof_bytes,
                             ReadFunction read)
    : pid_(pid), proof_address_(proof_address), read_(std::move(read)) {
  LOCKSTEP_CHECK(proof_bytes.size() == proof_.size());
  std::copy(proof_bytes.begin(), proof_bytes.end(), proof_.begin());
}

ssize_t ProcessMemory::SystemRead(pid_t pid, const iovec* to, unsigned long to_count,
                                  const iovec* from, unsigned long from_count) {
  return ::process_vm_readv(pid, to, to_count, from, from_count, 0);
}

absl::Status ProcessMemory::Check() const { return Read(0, {}); }

absl::Status ProcessMemory::Read(uint64_t address, std::span<std::byte> into) const {
  std::array<char, kMemoryProofBytes> found = {};
  size_t come = 0;
  while (true) {
    LOCKSTEP_DCHECK(come <= into.size());
    const size_t left = into.size() - come;
    // The proof is copied last.
    const std::array<iovec, 2> to = {iovec{into.data() + come, left}, {found.data(), found.size()}};
    const std::array<iovec, 2> from = {At(address + come, left), At(proof_address_, found.size())};
    const size_t skip = left == 0 ? 1 : 0;
    const ssize_t count =
        read_(pid_, to.data() + skip, to.size() - skip, from.data() + skip, from.size() - skip);
    if (count == static_cast<ssize_t>(left + found.size())) break;
    const bool faulted = count == 0 || (count < 0 && errno == EFAULT);
    if (count < 0 && !faulted) return ReadError(errno);
    if (faulted && left == 0) return Gone();
    // Where there is no such memory, it may be another process by now.
    if (faulted) {
      const absl::Status there = Check();
      return there.ok() ? ReadError(EFAULT) : there;
    }
    come += std::min(static_cast<size_t>(count), left);
  }
  return found == proof_ ? absl::OkStatus() : Gone();
}

}  // namespace lockstep::transport
