// Notices that nothing has come for too long.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "asio/io_context.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/time.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::transport {

// Looks from time to time, so that what comes costs no timer. Threads: confined to its loop.
class StallWatch {
 public:
  StallWatch(asio::io_context& io, absl::Duration allowed) : timer_(io), allowed_(allowed) {}

  // Something is waited for from now on. `stalled` is called once, when nothing has come for the
  // allowed time, unless `owner`, whose member this is, is gone.
  void Start(std::weak_ptr<void> owner, std::function<void()> stalled) {
    watches_ = true;
    heard_at_ = runtime::MonotonicNow();
    Look(std::move(owner), std::move(stalled));
  }
  // Something has come: the allowed time begins anew.
  void Heard() { heard_at_ = runtime::MonotonicNow(); }
  // Nothing is waited for; `stalled` is not called before the next `Start`.
  void Stop() {
    watches_ = false;
    timer_.cancel();
  }
  absl::Duration allowed() const { return allowed_; }

 private:
  static constexpr auto kLookEvery = std::chrono::milliseconds(500);

  void Look(std::weak_ptr<void> owner, std::function<void()> stalled) {
    timer_.expires_after(kLookEvery);
    timer_.async_wait([this, owner = std::move(owner),
                       stalled = std::move(stalled)](const asio::error_code& error) mutable {
      const auto alive = owner.lock();
      if (error || alive == nullptr || !watches_) return;
      if (runtime::MonotonicNow() - heard_at_ < allowed_) {
        return Look(std::move(owner), std::move(stalled));
      }
      watches_ = false;
      stalled();
    });
  }

  asio::steady_timer timer_;
  const absl::Duration allowed_;
  bool watches_ = false;
  Time heard_at_;
};

}  // namespace lockstep::transport
