// What this process holds of the system. Tests only.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <fstream>
#include <string>

namespace lockstep::faults {

inline size_t OpenDescriptors() {
  size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

// Mappings of memory that members share, their own and others'.
inline size_t MappingsOfSharedMemory() {
  size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:lockstep") != std::string::npos;
  }
  return count;
}

}  // namespace lockstep::faults
