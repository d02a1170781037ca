// What is sent and received: some bytes, what they are, and who keeps them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::rendezvous {

// Dimensions of a tensor: `rank_max`. The text of a key's name: `name_bytes_max`.
inline constexpr size_t kRankMax = 32;
inline constexpr size_t kNameBytesMax = 512;

// One element of a tensor, in DLPack's terms: code (0 int, 1 uint, 2 float, 3 opaque, 4 bfloat,
// 5 complex, 6 bool, 7 and up the small floats), bits of one lane, lanes.
struct ElementType {
  uint8_t code = 1;
  uint8_t bits = 8;
  uint16_t lanes = 1;

  friend bool operator==(ElementType, ElementType) = default;
};

// For people: "float32", "bfloat16", "uint8", "float8_e5m2"; with lanes "float32x4".
std::string NameOf(ElementType type);

// What a tensor of this shape takes. An element is whole bytes: of fewer than 8 bits too it takes
// one. INVALID_ARGUMENT: no bits or lanes, too many dimensions, a negative one, or more than 2^63-1
// bytes.
absl::StatusOr<uint64_t> BytesOf(ElementType type, std::span<const int64_t> shape);

// What the bytes of a value mean: a C-contiguous tensor. A plain string of bytes is a tensor of
// uint8 with one dimension.
struct Description {
  ElementType type;
  std::vector<int64_t> shape;  // empty: one element

  friend bool operator==(const Description&, const Description&) = default;
};

// Keeps bytes alive and unchanged while it lives. What kind of memory that is, is known to those
// who made it: a block of the arena, a caller's array, another process's memory mapped here.
class Memory {
 public:
  // The bytes stay, unchanged, until this is destroyed: the derived class owns them.
  Memory(const std::byte* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  const std::byte* const data_;
  const uint64_t bytes_;
};

using MemoryPtr = std::shared_ptr<const Memory>;

// Immutable once it was sent; copies share the bytes.
struct Value {
  Description about;
  uint64_t bytes = 0;
  // Null while the bytes are with another process, and for what has none.
  MemoryPtr memory;
  // The sender says that there is no value, and why: the receive succeeds and is told so.
  bool dead = false;
  std::string why_dead;
};

}  // namespace lockstep::rendezvous
