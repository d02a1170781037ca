// Plain memory for frames, of which large blocks are kept for the next.
#include <array>
#include <bit>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"
#include "lockstep/data/engine/element.h"

namespace lockstep::engine {
namespace {

// From here on a block is kept: `heap_kept_block_bytes_min`, of all `heap_kept_bytes_max`.
constexpr uint64_t kKeptLeast = 64 << 10;
constexpr uint64_t kKeptMost = uint64_t{256} << 20;
static_assert(kKeptLeast % kFrameAlignment == 0 && kKeptLeast <= kKeptMost);

// Free blocks by their size, which is a power of two or one and a half times one. Threads:
// thread-safe, by its mutex.
class Pool {
 public:
  ~Pool() {
    for (auto& blocks : free_) {
      for (std::byte* block : blocks) std::free(block);
    }
  }

  static uint64_t Rounded(uint64_t bytes) {
    const uint64_t power = std::bit_ceil(bytes);
    const uint64_t less = power / 4 * 3;
    return bytes <= less ? less : power;
  }

  std::byte* Take(uint64_t rounded) {
    const MutexLock lock(mutex_);
    LOCKSTEP_DCHECK(ClassOf(rounded) < free_.size());
    auto& blocks = free_[ClassOf(rounded)];
    if (blocks.empty()) return nullptr;
    std::byte* block = blocks.back();
    blocks.pop_back();
    LOCKSTEP_DCHECK(kept_ >= rounded);
    kept_ -= rounded;
    return block;
  }

  void Give(std::byte* block, uint64_t rounded) {
    {
      const MutexLock lock(mutex_);
      if (kept_ + rounded <= kKeptMost) {
        free_[ClassOf(rounded)].push_back(block);
        kept_ += rounded;
        return;
      }
    }
    std::free(block);
  }

 private:
  static size_t ClassOf(uint64_t rounded) {
    return 2 * static_cast<size_t>(std::bit_width(rounded)) +
           (std::has_single_bit(rounded) ? 0 : 1);
  }

  Mutex mutex_;
  std::array<std::vector<std::byte*>, 132> free_ ABSL_GUARDED_BY(mutex_);
  uint64_t kept_ ABSL_GUARDED_BY(mutex_) = 0;
};

class HeapMemory final : public Memory {
 public:
  HeapMemory(std::byte* data, uint64_t bytes, uint64_t rounded, std::shared_ptr<Pool> pool)
      : Memory(data, bytes), rounded_(rounded), pool_(std::move(pool)) {}
  ~HeapMemory() override { pool_ == nullptr ? std::free(data()) : pool_->Give(data(), rounded_); }

 private:
  const uint64_t rounded_;
  const std::shared_ptr<Pool> pool_;  // null: too small to keep
};

}  // namespace

Allocator HeapAllocator() {
  return
      [pool = std::make_shared<Pool>()](uint64_t bytes) -> absl::StatusOr<std::shared_ptr<Memory>> {
        if (bytes > uint64_t{1} << 46)
          return absl::ResourceExhaustedError("an element is too large");
        const bool keep = bytes >= kKeptLeast;
        const uint64_t rounded = keep ? Pool::Rounded(bytes) : (bytes + 63) / 64 * 64;
        std::byte* block = keep ? pool->Take(rounded) : nullptr;
        if (block == nullptr) {
          block = static_cast<std::byte*>(
              std::aligned_alloc(kFrameAlignment, rounded == 0 ? kFrameAlignment : rounded));
        }
        if (block == nullptr) {
          return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes"));
        }
        return std::make_shared<HeapMemory>(block, bytes, rounded, keep ? pool : nullptr);
      };
}

}  // namespace lockstep::engine
