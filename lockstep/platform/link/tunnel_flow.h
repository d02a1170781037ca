// How much of a tunnelled connection may be on its way, and which of its directions have ended.
// Pure.
#pragma once

#include <cstddef>

#include "absl/status/status.h"

namespace lockstep::link {

// One end's account of a tunnel. Outward is from the local connection to the other end of the link,
// inward the other way. The receiver gives credit for what its connection has taken, so that a
// connection that takes nothing holds up its own tunnel only.
//
// Threads: thread-compatible. Bounds: kWindow bytes in each direction.
class TunnelFlow {
 public:
  // Of one direction: sent, and not yet taken at the other end.
  static constexpr size_t kWindow = size_t{64} << 10;

  // --- Outward ---

  // Bytes that may be sent; 0: not before there is credit, or at all any more.
  size_t MaySend() const { return outward_ended_ ? 0 : kWindow - sent_; }
  void Sent(size_t bytes);
  // INVALID_ARGUMENT: for more than was sent.
  absl::Status Credited(size_t bytes);
  // The local connection sends nothing more.
  void EndOutward() { outward_ended_ = true; }

  // --- Inward ---

  // INVALID_ARGUMENT: more than there was credit for, or after the end.
  absl::Status Came(size_t bytes);
  // The local connection has taken so much of it. Returns for how much credit is to be given now:
  // half the window at a time, or all when nothing waits.
  size_t Taken(size_t bytes);
  // INVALID_ARGUMENT: it had ended.
  absl::Status EndInward();

  size_t waiting() const { return waiting_; }  // inward, that the local connection has not taken
  // Nothing more comes, and the local connection has all of it.
  bool inward_done() const { return inward_ended_ && waiting_ == 0; }
  bool over() const { return outward_ended_ && inward_done(); }

 private:
  size_t sent_ = 0;     // outward, without credit yet
  size_t waiting_ = 0;  // inward, that the local connection has not taken
  size_t owed_ = 0;     // inward, taken and not credited
  bool outward_ended_ = false;
  bool inward_ended_ = false;
};

}  // namespace lockstep::link
