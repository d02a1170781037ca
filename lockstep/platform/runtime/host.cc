#include "lockstep/platform/runtime/host.h"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace lockstep::runtime {
namespace {

void Fill(char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t got = ::getrandom(bytes, count, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category(), "getrandom");
    }
    bytes += got;
    count -= static_cast<size_t>(got);
  }
}

}  // namespace

std::string HostName() {
  std::array<char, 256> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

uint64_t RandomNumber() {
  std::array<char, sizeof(uint64_t)> bytes;
  Fill(bytes.data(), bytes.size());
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  Fill(bytes.data(), bytes.size());
  return bytes;
}

}  // namespace lockstep::runtime
