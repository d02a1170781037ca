// One account of the memory of a whole server: who holds how much, and whether there is room.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/mutex.h"

namespace lockstep::runtime {

class MemoryShare;

// How the owner of what links hold is called, before its host: "links of 10.0.0.7".
inline constexpr std::string_view kLinksOf = "links of ";

// Counts what its shares hold, in bytes as they cost (nodes and headers included, as far as they
// are known), and says no before the kernel or the allocator does.
//
// There are two marks below the limit. Above nine tenths of it new work is refused: writes, waits
// for many keys, new jobs and sessions. What is left is for the small requests of members that are
// in already (barriers, waits for one key, agreements), up to 97 %. What holds nothing more
// (reads, deletions, heartbeats, leaving, status) is never refused.
//
// Threads: `HasRoom`, `Room`, `HasReserve`, `Holds`, `held` and `limit` are lock-free; everything
// is thread-safe. Ownership: outlives its shares. Cost: a change of a share is two relaxed
// additions.
class MemoryAccount {
 public:
  struct Holder {
    std::string owner;  // "job 'digits'", "links of 10.0.0.7"
    std::string part;   // what of it: "keys"
    uint64_t bytes = 0;
  };

  // `limit`: in bytes; 0: there is none. `names_owners`: to whoever is refused.
  explicit MemoryAccount(uint64_t limit, bool names_owners = true);
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  uint64_t limit() const { return limit_; }  // 0: there is none
  // In bytes, by all shares together; never below 0.
  uint64_t held() const {
    const int64_t held = held_.load(std::memory_order_relaxed);
    return held > 0 ? static_cast<uint64_t>(held) : 0;
  }
  // Whether new work that costs so much may begin.
  bool HasRoom(uint64_t bytes = 0) const { return Fits(bytes, room_); }
  // How much new work may cost.
  uint64_t Room() const {
    const uint64_t is = held();
    return is < room_ ? room_ - is : 0;
  }
  // Whether small requests of work that runs may be taken.
  bool HasReserve() const { return Fits(0, reserve_); }
  // Whether so much that soon goes away, an answer, stays below the limit.
  bool Holds(uint64_t bytes) const { return Fits(bytes, all_); }

  // Why it is refused: how much is held, by whom most (unless owners are not named), and what to
  // do.
  std::string Refusal(uint64_t bytes);

  // By owner, the largest first, each with its largest part.
  std::vector<Holder> Owners(size_t most) const;
  // By part, all owners together, the largest first.
  std::vector<Holder> Parts() const;

 private:
  friend class MemoryShare;

  bool Fits(uint64_t bytes, uint64_t mark) const {
    const uint64_t is = held();
    return is <= mark && bytes <= mark - is;
  }
  void Enter(MemoryShare& share);
  void Leave(MemoryShare& share);
  std::string Describe() const;

  const uint64_t limit_;
  const bool names_owners_;
  const uint64_t room_;
  const uint64_t reserve_;
  const uint64_t all_;
  std::atomic<int64_t> held_ = 0;

  mutable Mutex mutex_;
  MemoryShare* first_ ABSL_GUARDED_BY(mutex_) = nullptr;  // all shares, as a list through them
  // Of who held most, lately: whoever is refused may come often.
  std::string description_ ABSL_GUARDED_BY(mutex_);
  uint64_t described_at_ ABSL_GUARDED_BY(mutex_) = 0;   // what was held then
  uint64_t described_for_ ABSL_GUARDED_BY(mutex_) = 0;  // refusals since
};

// What one part of the server holds. Given back when destroyed.
//
// Threads: made and destroyed anywhere; `Set` by one thread only, `Add` by any, but not both.
class MemoryShare {
 public:
  // `account` outlives it; null: nobody counts.
  MemoryShare(MemoryAccount* account, std::string owner, std::string part);
  ~MemoryShare();
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  // It holds so much now.
  void Set(uint64_t bytes) {
    const auto is = static_cast<int64_t>(bytes);
    const int64_t was = bytes_.load(std::memory_order_relaxed);
    if (is == was) return;
    bytes_.store(is, std::memory_order_relaxed);
    if (account_ != nullptr) account_->held_.fetch_add(is - was, std::memory_order_relaxed);
  }
  // It holds so much more, or less.
  void Add(int64_t bytes) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (account_ != nullptr) account_->held_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // What this share was last set to; 0 at least.
  uint64_t bytes() const {
    const int64_t is = bytes_.load(std::memory_order_relaxed);
    return is > 0 ? static_cast<uint64_t>(is) : 0;
  }
  MemoryAccount* account() const { return account_; }  // null: nobody counts

  // What is called so from now on.
  void SetPart(std::string part);

 private:
  friend class MemoryAccount;

  MemoryAccount* const account_;
  const std::string owner_;
  std::atomic<int64_t> bytes_ = 0;
  // Under the account's mutex, from here on.
  std::string part_;
  MemoryShare* previous_ = nullptr;
  MemoryShare* next_ = nullptr;
};

// The memory that this process may use: the least of the machine's, its control groups' (versions 2
// and 1) and its limit of address space.
uint64_t MemoryOfProcess();

// The same for tests: `root` is where /proc and /sys are looked for.
uint64_t MemoryOfControlGroups(const std::string& root);

}  // namespace lockstep::runtime
