#include "lockstep/platform/link/tunnel_flow.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"

namespace lockstep::link {

void TunnelFlow::Sent(size_t bytes) {
  LOCKSTEP_DCHECK(bytes <= MaySend());
  sent_ += bytes;
}

absl::Status TunnelFlow::Credited(size_t bytes) {
  if (bytes > sent_) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "credit for %d bytes of a tunnel, of which %d are on their way", bytes, sent_));
  }
  sent_ -= bytes;
  return absl::OkStatus();
}

absl::Status TunnelFlow::Came(size_t bytes) {
  if (inward_ended_) return absl::InvalidArgumentError("bytes of a tunnel after its end");
  LOCKSTEP_DCHECK(waiting_ + owed_ <= kWindow);
  if (bytes > kWindow - waiting_ - owed_) {
    return absl::InvalidArgumentError(
        absl::StrFormat("more bytes of a tunnel than it had credit for: %d on their way, %d more "
                        "came, %d are allowed",
                        waiting_ + owed_, bytes, kWindow));
  }
  waiting_ += bytes;
  return absl::OkStatus();
}

size_t TunnelFlow::Taken(size_t bytes) {
  LOCKSTEP_DCHECK(bytes <= waiting_);
  waiting_ -= bytes;
  owed_ += bytes;
  const bool due = waiting_ == 0 || owed_ >= kWindow / 2;
  return due ? std::exchange(owed_, 0) : 0;
}

absl::Status TunnelFlow::EndInward() {
  if (inward_ended_) return absl::InvalidArgumentError("a tunnel ended twice");
  inward_ended_ = true;
  return absl::OkStatus();
}

}  // namespace lockstep::link
