// Waiting without sleeping, where that is worth it: a wake-up costs 15 to 25 us in a virtual
// machine, which is as long as it takes to copy half a MiB.
#pragma once

#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace lockstep::transport {

// How long to look again and again before going to sleep: 50 us, or nothing where the process may
// run on one processor at a time only, by its affinity or by the quota of its cgroup: there,
// whoever spins keeps the other from running. Reads files; ask once. Thread-safe.
absl::Duration SpinBudget();

// Between two looks: leaves the core to its other thread, and saves power.
inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

namespace internal {

// How many processors' worth of time the cgroup of the process has, by cpu.max (version 2) or
// cpu.cfs_quota_us (version 1) of it and all above it; infinite when nothing limits it.
// `cgroups` is the text of /proc/self/cgroup, `root` where cgroups are mounted (/sys/fs/cgroup).
double ProcessorsByQuota(std::string_view cgroups, const std::string& root);

absl::Duration SpinBudgetFor(int processors_allowed, double processors_by_quota);

}  // namespace internal
}  // namespace lockstep::transport
