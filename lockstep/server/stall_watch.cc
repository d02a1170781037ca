#include "lockstep/server/stall_watch.h"

#include <utility>

#include "absl/time/time.h"
#include "lockstep/base/check.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

constexpr absl::Duration kStall = absl::Seconds(1);

}  // namespace

StallWatch::StallWatch(runtime::Loop& loop, std::function<Progress()> progress)
    : progress_(std::move(progress)), timer_(loop) {}

void StallWatch::Begin() {
  if (watching_) return;
  watching_ = true;
  timer_.Arm(runtime::MonotonicNow() + kStall,
             [this, durable = progress_().durable] { Look(durable); });
}

void StallWatch::Look(uint64_t durable_before) {
  LOCKSTEP_DCHECK(watching_);
  watching_ = false;
  const Progress now = progress_();
  if (now.waiting == 0) return;
  if (now.durable == durable_before) {
    spdlog::warn(
        "no disk write has finished for {}: {} changes ({} bytes) and their callers are waiting",
        absl::FormatDuration(kStall), now.waiting, now.bytes);
  }
  Begin();
}

}  // namespace lockstep::server
