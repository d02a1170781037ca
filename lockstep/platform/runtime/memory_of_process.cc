// How much memory there is for this process.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "lockstep/platform/runtime/memory_account.h"

namespace lockstep::runtime {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// A number alone in a file; "max", or no such file: no limit.
uint64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text) || text.empty() ||
      text.find_first_not_of("0123456789") != std::string::npos) {
    return kNoLimit;
  }
  return std::strtoull(text.c_str(), nullptr, 10);
}

// The least limit of a group and of those that it is in.
uint64_t LeastUpwards(const std::string& mount, std::string group, const std::string& name) {
  uint64_t least = LimitIn(mount + "/" + name);
  while (!group.empty() && group != "/") {
    least = std::min(least, LimitIn(mount + group + "/" + name));
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  return least;
}

}  // namespace

uint64_t MemoryOfControlGroups(const std::string& root) {
  uint64_t least = kNoLimit;
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  // "0::/user.slice/job" in version 2; "5:memory:/job" in version 1.
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    const std::string mount = root + "/sys/fs/cgroup";
    if (controllers == ",,") {
      least = std::min(least, LeastUpwards(mount, group, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, LeastUpwards(mount + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

uint64_t MemoryOfProcess() {
  uint64_t least = MemoryOfControlGroups("");
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    least = std::min(least, static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes));
  }
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    least = std::min<uint64_t>(least, limit.rlim_cur);
  }
  return least;
}

}  // namespace lockstep::runtime
