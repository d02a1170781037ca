// libFuzzer's entry.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/hosts_fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::fuzz::ReadHostPacket(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
