// The dispatcher, the timer that wakes it, and whether it is set aside.
#pragma once

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/dispatcher.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::server {

// A dispatcher whose records are of no use is set aside: an empty one takes its place, and its
// records stay as they are.
//
// Threads: loop-confined. Ownership: the loop, and what the callbacks use, must outlive it.
class DataDispatcher {
 public:
  using Due = std::function<void()>;
  using Refusal = std::function<absl::Status()>;

  // `make_shape`, `service` and `first_id` of the options are filled in here. `due` is called on
  // the loop when the dispatcher's deadline is there.
  DataDispatcher(runtime::Loop& loop, dispatch::Options options, bool keeps, Due due);

  // Sets the timer again, too.
  dispatch::Effects Handle(dispatch::Event event);
  const dispatch::Dispatcher* operator->() const { return &*dispatcher_; }
  // One record of the journal, in order, before any event.
  void Restore(Time at, const dispatch::Record& record, const absl::Status& unfit) {
    dispatcher_->Restore(at, record, unfit);
  }

  // It is empty from now on. Requests are refused with what `refusal` says, for as long as that is
  // not OK; null: they are not.
  void SetAside(Refusal refusal);
  // OK: requests may be handled. Otherwise what they are answered with.
  absl::Status Refused() const { return refusal_ ? refusal_() : absl::OkStatus(); }

 private:
  void ArmTimer();

  const dispatch::Options options_;
  std::optional<dispatch::Dispatcher> dispatcher_;  // is there
  Refusal refusal_;                                 // null: it was never set aside
  const Due due_;
  runtime::Timer timer_;
  Time armed_for_ = Time::Infinite();
};

}  // namespace lockstep::server
