// How fuzzers take an input apart.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::fuzz {

// Reads 0, or nothing, where there is no more.
class InputReader {
 public:
  explicit InputReader(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }
  size_t Byte() {
    if (done()) return 0;
    const auto byte = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte;
  }
  size_t Number() {
    const size_t high = Byte();
    return high << 8 | Byte();
  }
  std::string_view Take(size_t count) {
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view bytes_;
};

}  // namespace lockstep::fuzz
