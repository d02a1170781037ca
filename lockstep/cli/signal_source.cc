#include "lockstep/cli/signal_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {

SignalSource::SignalSource(preempt::SignalOptions options)
    : options_(std::move(options)),
      health_{.source = name_, .detail = "the first to lockstep run"} {}

void SignalSource::Take(int signal) {
  const MutexLock lock(mutex_);
  if (!listener_.on_event) {
    early_.push_back(signal);
    return;
  }
  Tell(signal);
}

absl::Status SignalSource::Start(preempt::SourceListener listener) {
  const MutexLock lock(mutex_);
  listener_ = std::move(listener);
  health_.healthy = true;
  health_.last_success = runtime::MonotonicNow();
  if (listener_.on_health) listener_.on_health(health_);
  for (const int signal : std::exchange(early_, {})) Tell(signal);
  return absl::OkStatus();
}

void SignalSource::Stop() {
  const MutexLock lock(mutex_);
  listener_ = {};
}

preempt::SourceHealth SignalSource::health() const {
  const MutexLock lock(mutex_);
  return health_;
}

void SignalSource::Tell(int signal) {
  ++health_.notices;
  listener_.on_event({.source = name_,
                      .id = preempt::SignalName(signal),
                      .kind = preempt::NoticeKind::kPreempt,
                      .left = options_.lead,
                      .text = absl::StrCat("lockstep run got ", preempt::SignalName(signal))});
}

}  // namespace lockstep::cli
