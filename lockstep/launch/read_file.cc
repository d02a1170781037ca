#include "lockstep/launch/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::launch {

std::string ReadFile(const std::string& path, size_t bytes_max) {
  const runtime::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!file.valid()) return text;
  std::array<char, 16384> part;
  while (text.size() < bytes_max) {
    const ssize_t count =
        ::read(file.get(), part.data(), std::min(part.size(), bytes_max - text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(part.data(), static_cast<size_t>(count));
  }
  return text;
}

}  // namespace lockstep::launch
