#include "lockstep/rendezvous/transport/copy.h"

#include <cstring>

#include "lockstep/base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::transport {
namespace internal {

#if defined(__x86_64__)
namespace {

// Streaming stores want whole, aligned cache lines.
constexpr size_t kLine = 64;

size_t BytesBeforeLine(const std::byte* at) {
  return (kLine - reinterpret_cast<uintptr_t>(at) % kLine) % kLine;
}

__attribute__((target("avx2"))) void StreamAvx2(std::byte* to, const std::byte* from,
                                                size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at + 32), high);
  }
}

__attribute__((target("avx512f"))) void StreamAvx512(std::byte* to, const std::byte* from,
                                                     size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) {
    const __m512i line = _mm512_loadu_si512(from + at);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), line);
  }
}

}  // namespace

bool ProcessorHas(CopyMethod method) {
  switch (method) {
    case CopyMethod::kMemcpy:
      return true;
    case CopyMethod::kAvx2:
      return __builtin_cpu_supports("avx2") != 0;
    case CopyMethod::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0;
  }
  return false;
}

void CopyBytesBy(CopyMethod method, std::byte* to, const std::byte* from, size_t bytes) {
  LOCKSTEP_DCHECK(ProcessorHas(method));
  const size_t before = BytesBeforeLine(to);
  if (method == CopyMethod::kMemcpy || bytes < before + kLine) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  const size_t lines = (bytes - before) / kLine * kLine;
  LOCKSTEP_DCHECK(before + lines <= bytes);
  std::memcpy(to, from, before);
  if (method == CopyMethod::kAvx512) {
    StreamAvx512(to + before, from + before, lines);
  } else {
    StreamAvx2(to + before, from + before, lines);
  }
  const size_t done = before + lines;
  std::memcpy(to + done, from + done, bytes - done);
  // A release store does not wait for streaming stores; this does.
  _mm_sfence();
}

#else

bool ProcessorHas(CopyMethod method) { return method == CopyMethod::kMemcpy; }

void CopyBytesBy(CopyMethod method, std::byte* to, const std::byte* from, size_t bytes) {
  LOCKSTEP_CHECK(ProcessorHas(method));
  if (bytes > 0) std::memcpy(to, from, bytes);
}

#endif

namespace {

CopyMethod BestMethod() {
  if (ProcessorHas(CopyMethod::kAvx512)) return CopyMethod::kAvx512;
  if (ProcessorHas(CopyMethod::kAvx2)) return CopyMethod::kAvx2;
  return CopyMethod::kMemcpy;
}

}  // namespace
}  // namespace internal

void CopyBytes(std::byte* to, const std::byte* from, size_t bytes) {
  static const internal::CopyMethod kStreamed = internal::BestMethod();
  const auto method = bytes < kStreamedCopyBytesMin ? internal::CopyMethod::kMemcpy : kStreamed;
  internal::CopyBytesBy(method, to, from, bytes);
}

}  // namespace lockstep::transport
