// How much a member may send before it is received. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/base/check.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/options.h"
#include "lockstep/rendezvous/texts.h"

namespace lockstep::rendezvous {

// Counts what was sent and not yet received, in all steps together. Threads: thread-compatible.
// Bounds: `quota_bytes`, `quota_values`.
class SendQuota {
 public:
  explicit SendQuota(const Options& options) : options_(options) {}

  // For one value more, of so many bytes.
  bool HasRoom(uint64_t bytes) const {
    return bytes <= options_.quota_bytes - bytes_ && values_ < options_.quota_values;
  }
  // Null: there is room. Otherwise RESOURCE_EXHAUSTED, `quota_exceeded`.
  ErrorPtr Check(uint64_t bytes) const {
    return HasRoom(bytes) ? nullptr : QuotaExceeded(options_, values_, bytes_, bytes);
  }
  // Where there is room.
  void Take(uint64_t bytes) {
    bytes_ += bytes;
    ++values_;
    LOCKSTEP_DCHECK(bytes_ <= options_.quota_bytes && values_ <= options_.quota_values);
  }
  void Return(uint64_t bytes) {
    LOCKSTEP_DCHECK(bytes <= bytes_ && values_ > 0);
    bytes_ -= bytes;
    --values_;
  }

  uint64_t bytes() const { return bytes_; }
  size_t values() const { return values_; }

 private:
  const Options& options_;
  uint64_t bytes_ = 0;
  size_t values_ = 0;
};

}  // namespace lockstep::rendezvous
