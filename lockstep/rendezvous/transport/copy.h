// Copying values: into the arena, and out of other people's memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::transport {

// From here on a copy goes past the caches. It would push out of them what the program works on,
// and costs a read of each line that is written whole; glibc does so only far above these sizes.
inline constexpr size_t kStreamedCopyBytesMin = size_t{1} << 20;

// As memcpy. When it returns, the bytes are ordered before every later store of this thread, also
// where they went past the caches. Thread-safe.
void CopyBytes(std::byte* to, const std::byte* from, size_t bytes);

namespace internal {

enum class CopyMethod { kMemcpy, kAvx2, kAvx512 };
bool ProcessorHas(CopyMethod method);
// With a method that the processor has.
void CopyBytesBy(CopyMethod method, std::byte* to, const std::byte* from, size_t bytes);

}  // namespace internal
}  // namespace lockstep::transport
