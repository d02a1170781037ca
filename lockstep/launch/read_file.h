// Reads a file beside processes that are being started.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep::launch {

// All of the file, or its first `bytes_max` bytes; empty when it cannot be read. The descriptor has
// O_CLOEXEC, which that of a stream has not: a process that starts meanwhile on another thread does
// not inherit it. Blocks as the file does. Threads: any.
std::string ReadFile(const std::string& path, size_t bytes_max = std::string::npos);

}  // namespace lockstep::launch
