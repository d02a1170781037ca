// Hides and proves a long answer on its way from agent to agent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::agent {

// AES-256-GCM, chunk by chunk, under a key that the server has drawn for this one answer. The nonce
// is the place of the chunk, so a chunk proves what it is and where it stands; the ticket and the
// size of the answer are proven with it. Every agent that has the answer seals it to the same
// bytes.
//
// Threads: immutable.
class ValueCipher {
 public:
  static constexpr size_t kKeyBytes = 32;
  static constexpr size_t kChunkBytes = size_t{64} << 10;
  static constexpr size_t kTagBytes = 16;

  // `key`: kKeyBytes. Of an answer of `size` bytes, not 0.
  ValueCipher(std::string key, std::string_view ticket, size_t size);

  size_t chunks() const { return (size_ + kChunkBytes - 1) / kChunkBytes; }
  // Bytes of the answer in that chunk; sealed it has kTagBytes more.
  size_t ChunkBytes(size_t chunk) const;

  std::string Seal(size_t chunk, std::string_view bytes) const;
  // Nothing: it is not that chunk of that answer.
  std::optional<std::string> Open(size_t chunk, std::string_view sealed) const;

 private:
  const std::string key_;
  const size_t size_;
  const std::string proven_;  // with each chunk
};

}  // namespace lockstep::agent
