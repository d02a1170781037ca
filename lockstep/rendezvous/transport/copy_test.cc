#include "lockstep/rendezvous/transport/copy.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

using internal::CopyMethod;

constexpr std::byte kUntouched{0xEE};
constexpr size_t kMargin = 64;

std::vector<std::byte> Numbered(size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (size_t at = 0; at < bytes; ++at) made[at] = static_cast<std::byte>(at * 31 % 251);
  return made;
}

// Whether exactly the bytes that were to be written were, at any alignment of both sides.
template <class Copy>
void ExpectExact(size_t to_offset, size_t from_offset, size_t bytes, Copy copy) {
  const std::vector<std::byte> from = Numbered(from_offset + bytes);
  std::vector<std::byte> to(kMargin + to_offset + bytes + kMargin, kUntouched);
  std::byte* const begin = to.data() + kMargin + to_offset;
  copy(begin, from.data() + from_offset, bytes);
  const bool same = std::equal(begin, begin + bytes, from.data() + from_offset);
  const bool before = std::all_of(to.data(), begin, [](std::byte b) { return b == kUntouched; });
  const bool after = std::all_of(begin + bytes, to.data() + to.size(),
                                 [](std::byte b) { return b == kUntouched; });
  ASSERT_TRUE(same && before && after) << to_offset << " " << from_offset << " " << bytes;
}

TEST(CopyBytes, CopiesExactlyWithEveryMethodAtEveryAlignment) {
  for (const CopyMethod method : {CopyMethod::kMemcpy, CopyMethod::kAvx2, CopyMethod::kAvx512}) {
    if (!internal::ProcessorHas(method)) continue;
    const auto copy = [method](std::byte* to, const std::byte* from, size_t bytes) {
      internal::CopyBytesBy(method, to, from, bytes);
    };
    for (size_t offset = 0; offset < 64; ++offset) {
      for (const size_t bytes : {0, 1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 4097}) {
        ExpectExact(offset, 0, bytes, copy);
        ExpectExact(0, offset, bytes, copy);
        ExpectExact(offset, 63 - offset, bytes, copy);
      }
    }
  }
}

TEST(CopyBytes, CopiesExactlyAroundTheSizeWhereItStreams) {
  for (const size_t bytes : {kStreamedCopyBytesMin - 1, kStreamedCopyBytesMin,
                             kStreamedCopyBytesMin + 1, 3 * kStreamedCopyBytesMin + 77}) {
    ExpectExact(1, 3, bytes, CopyBytes);
    ExpectExact(0, 0, bytes, CopyBytes);
  }
}

TEST(CopyBytes, CopiesNothingFromNowhere) { CopyBytes(nullptr, nullptr, 0); }

}  // namespace
}  // namespace lockstep::transport
