#include "lockstep/platform/runtime/memory_account.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "lockstep/base/mutex.h"

namespace lockstep::runtime {
namespace {

// Of the limit, in percent: new work is refused above the first, small requests of work that runs
// above the second.
constexpr uint64_t kRoomPercent = 90;
constexpr uint64_t kReservePercent = 97;
static_assert(kRoomPercent < kReservePercent && kReservePercent < 100);

// Who held most is looked up anew after so many refusals, and when this part of the limit more or
// less is held.
constexpr uint64_t kRefusalsDescribed = 256;
constexpr uint64_t kDescribedPart = 64;

uint64_t PartOf(uint64_t limit, uint64_t percent) {
  return limit == 0 ? std::numeric_limits<int64_t>::max() : limit / 100 * percent;
}

std::string Mebibytes(uint64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

bool HoldsMore(const MemoryAccount::Holder& a, const MemoryAccount::Holder& b) {
  return a.bytes != b.bytes ? a.bytes > b.bytes : a.owner + a.part < b.owner + b.part;
}

}  // namespace

MemoryAccount::MemoryAccount(uint64_t limit, bool names_owners)
    : limit_(limit),
      names_owners_(names_owners),
      room_(PartOf(limit, kRoomPercent)),
      reserve_(PartOf(limit, kReservePercent)),
      all_(PartOf(limit, 100)) {}

void MemoryAccount::Enter(MemoryShare& share) {
  const MutexLock lock(mutex_);
  share.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &share;
  first_ = &share;
}

void MemoryAccount::Leave(MemoryShare& share) {
  const MutexLock lock(mutex_);
  if (share.previous_ != nullptr) {
    share.previous_->next_ = share.next_;
  } else {
    first_ = share.next_;
  }
  if (share.next_ != nullptr) share.next_->previous_ = share.previous_;
  held_.fetch_sub(share.bytes_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

std::vector<MemoryAccount::Holder> MemoryAccount::Owners(size_t most) const {
  struct Sum {
    uint64_t bytes = 0;
    uint64_t largest = 0;
    std::string part;
  };
  std::map<std::string, Sum> sums;
  {
    const MutexLock lock(mutex_);
    for (const MemoryShare* share = first_; share != nullptr; share = share->next_) {
      const uint64_t bytes = share->bytes();
      if (bytes == 0) continue;
      Sum& sum = sums[share->owner_];
      sum.bytes += bytes;
      if (bytes <= sum.largest) continue;
      sum.largest = bytes;
      sum.part = share->part_;
    }
  }
  std::vector<Holder> holders;
  holders.reserve(sums.size());
  for (auto& [owner, sum] : sums) holders.push_back({owner, std::move(sum.part), sum.bytes});
  const size_t count = std::min(most, holders.size());
  std::partial_sort(holders.begin(), holders.begin() + static_cast<ptrdiff_t>(count), holders.end(),
                    HoldsMore);
  holders.resize(count);
  return holders;
}

std::vector<MemoryAccount::Holder> MemoryAccount::Parts() const {
  std::map<std::string, uint64_t> sums;
  {
    const MutexLock lock(mutex_);
    for (const MemoryShare* share = first_; share != nullptr; share = share->next_) {
      // What is told of a link is its name.
      const bool link = share->owner_.starts_with(kLinksOf);
      sums[link ? std::string("links") : share->part_] += share->bytes();
    }
  }
  std::vector<Holder> holders;
  for (const auto& [part, bytes] : sums) holders.push_back({"", part, bytes});
  std::sort(holders.begin(), holders.end(), HoldsMore);
  return holders;
}

std::string MemoryAccount::Describe() const {
  const std::vector<Holder> holders = Owners(1);
  if (holders.empty()) return "nobody holds any";
  const Holder& most = holders.front();
  if (!names_owners_) {
    return absl::StrFormat("whoever holds most holds %s; `lockstep status` tells an operator who",
                           Mebibytes(most.bytes));
  }
  return absl::StrFormat("%s holds most: %s, above all %s", most.owner, Mebibytes(most.bytes),
                         most.part);
}

std::string MemoryAccount::Refusal(uint64_t bytes) {
  const uint64_t is = held();
  std::string description;
  {
    const MutexLock lock(mutex_);
    const uint64_t moved = is > described_at_ ? is - described_at_ : described_at_ - is;
    if (!description_.empty() && described_for_ < kRefusalsDescribed &&
        moved <= limit_ / kDescribedPart) {
      ++described_for_;
      description = description_;
    }
  }
  if (description.empty()) {
    description = Describe();
    const MutexLock lock(mutex_);
    description_ = description;
    described_at_ = is;
    described_for_ = 0;
  }
  return absl::StrFormat(
      "the server has no memory left for this: it holds %s of %s (memory_max), this needs %s, and "
      "it refuses new work above %d%%; %s. Delete what is not needed, retry later, or raise "
      "--memory-max",
      Mebibytes(is), Mebibytes(limit_), Mebibytes(bytes), kRoomPercent, description);
}

MemoryShare::MemoryShare(MemoryAccount* account, std::string owner, std::string part)
    : account_(account), owner_(std::move(owner)), part_(std::move(part)) {
  if (account_ != nullptr) account_->Enter(*this);
}

MemoryShare::~MemoryShare() {
  if (account_ != nullptr) account_->Leave(*this);
}

void MemoryShare::SetPart(std::string part) {
  if (account_ == nullptr) return;
  const MutexLock lock(account_->mutex_);
  part_ = std::move(part);
}

}  // namespace lockstep::runtime
