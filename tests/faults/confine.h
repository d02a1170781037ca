// Takes away from this process what the system gives: system calls, descriptors, memory. Tests
// only.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lockstep::faults {

#if defined(__x86_64__)
inline constexpr uint32_t kAuditArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
inline constexpr uint32_t kAuditArchitecture = AUDIT_ARCH_AARCH64;
#endif

// From here on the call answers EPERM in all threads, as under a container's seccomp profile.
inline absl::Status Forbid(const std::string& call) {
  static const std::map<std::string, uint32_t> kCalls = {
      {"memfd_create", SYS_memfd_create}, {"process_vm_readv", SYS_process_vm_readv}};
  const auto found = kCalls.find(call);
  if (found == kCalls.end()) return absl::InvalidArgumentError(absl::StrCat("forbid ", call));
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kAuditArchitecture, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, found->second, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) {
    return absl::ErrnoToStatus(errno, "seccomp");
  }
  return absl::OkStatus();
}

inline absl::Status SetLimit(int resource, uint64_t value) {
  rlimit limit = {};
  ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  limit.rlim_cur = value;
  if (::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, "setrlimit");
}

// Descriptors that are open stay; 3 means that no further can be had.
inline absl::Status LimitDescriptors(uint64_t max) { return SetLimit(RLIMIT_NOFILE, max); }

// Of address space, beyond what is mapped now.
inline absl::Status LimitMemory(uint64_t more_bytes) {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return SetLimit(RLIMIT_AS, pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + more_bytes);
}

}  // namespace lockstep::faults
