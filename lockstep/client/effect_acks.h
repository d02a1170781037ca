// Which answers the server need not keep any more: a cumulative acknowledgement. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <set>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/client/session_call.h"

namespace lockstep::client {

// Of the requests that take effect. The server keeps their answers, which it gives again after a
// broken link, until it hears that all up to a number have come.
//
// Threads: thread-compatible. Bounds: the calls that are open.
class EffectAcks {
 public:
  // The server is told after `batch` answers, or after `interval`.
  EffectAcks(size_t batch, absl::Duration interval) : batch_(batch), interval_(interval) {}

  // Before it is sent: until `Over`, no report goes past it.
  void Began(RequestNumber request) { open_.insert(request); }
  // Its caller has the answer, or does not wait for it any more. Unknown ones are ignored.
  void Over(RequestNumber request) { open_.erase(request); }
  // The server has answered; after `Over`.
  void Answered(Time now, RequestNumber request);

  // Callers wait for answers that take effect: the session must not be begun anew.
  bool any_open() const { return !open_.empty(); }
  // So many answers have come since the last `Report` that the next is due at once.
  bool batch_full() const { return unreported_ >= batch_; }
  // When to `Report`; infinite: nothing is to be told.
  Time Due() const;
  // Up to which request all answers have come; nothing when the server knows it.
  std::optional<RequestNumber> Report(Time now);

 private:
  const size_t batch_;
  const absl::Duration interval_;
  std::set<RequestNumber> open_;
  RequestNumber last_answered_ = 0;  // the greatest
  RequestNumber reported_ = 0;       // through this one
  size_t unreported_ = 0;
  Time unreported_since_;
};

}  // namespace lockstep::client
