#include "lockstep/rendezvous/transport/spin.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace lockstep::transport {
namespace {

constexpr absl::Duration kWorthSpinning = absl::Microseconds(50);
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "100000 50000" or "max 50000".
double ProcessorsOf(const std::string& quota_and_period) {
  std::istringstream text(quota_and_period);
  double quota = 0;
  double period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return kUnlimited;
  return quota / period;
}

double QuotaOfFolder(const std::string& folder) {
  return std::min(ProcessorsOf(ReadFile(folder + "/cpu.max")),
                  ProcessorsOf(ReadFile(folder + "/cpu.cfs_quota_us") + " " +
                               ReadFile(folder + "/cpu.cfs_period_us")));
}

// Of the folder, and of all above it: each may set a limit.
double QuotaUpwards(const std::string& mount, std::string path) {
  double processors = QuotaOfFolder(mount);
  while (path.size() > 1) {
    processors = std::min(processors, QuotaOfFolder(mount + path));
    path.resize(path.find_last_of('/'));
  }
  return processors;
}

int ProcessorsAllowed() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails where there are more processors than the set has room for.
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return CPU_SETSIZE;
  return CPU_COUNT(&allowed);
}

}  // namespace

namespace internal {

double ProcessorsByQuota(std::string_view cgroups, const std::string& root) {
  double processors = kUnlimited;
  std::istringstream lines{std::string(cgroups)};
  // Each is "0::/path" of version 2, or "5:cpu,cpuacct:/path" of version 1.
  for (std::string line; std::getline(lines, line);) {
    const size_t controllers = line.find(':');
    if (controllers == std::string::npos) continue;
    const size_t path = line.find(':', controllers + 1);
    if (path == std::string::npos || path + 1 >= line.size() || line[path + 1] != '/') continue;
    const std::string names =
        absl::StrCat(",", line.substr(controllers + 1, path - controllers - 1), ",");
    if (names == ",,") {
      processors = std::min(processors, QuotaUpwards(root, line.substr(path + 1)));
    } else if (names.find(",cpu,") != std::string::npos) {
      processors = std::min(processors, QuotaUpwards(root + "/cpu", line.substr(path + 1)));
    }
  }
  return processors;
}

absl::Duration SpinBudgetFor(int processors_allowed, double processors_by_quota) {
  const bool alone = processors_allowed <= 1 || processors_by_quota <= 1;
  return alone ? absl::ZeroDuration() : kWorthSpinning;
}

}  // namespace internal

absl::Duration SpinBudget() {
  return internal::SpinBudgetFor(
      ProcessorsAllowed(),
      internal::ProcessorsByQuota(ReadFile("/proc/self/cgroup"), "/sys/fs/cgroup"));
}

}  // namespace lockstep::transport
