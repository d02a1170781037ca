// Checks definitions that are to be registered; long ones on a thread of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "lockstep/base/ids.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/work_thread.h"
#include "lockstep/wire/native/data_service_messages.h"

namespace lockstep::server {

// A definition that is to be registered, looked at. `status`: OK, or "definition_invalid", or what
// plan::Check says of it.
struct CheckedDefinition {
  absl::Status status;
  dispatch::RegisterDataset event;
};

// Threads: loop-confined, with one thread that only checks. Ownership: the loop, and what the
// callbacks use, must outlive it. Bounds: kCheckedBytesMax of definitions on the thread, or one
// that is longer; `definition_bytes_max` of each.
class DataDefinitionChecks {
 public:
  // Of definitions that are being checked at a time: `definitions_checked_bytes_max`.
  static constexpr size_t kCheckedBytesMax = size_t{64} << 20;

  using Checked = std::function<void(CallId call, CheckedDefinition checked)>;

  // `checked` is called once for each `Check`, on the loop; `resized` when `bytes` has changed.
  DataDefinitionChecks(runtime::Loop& loop, size_t definition_bytes_max, Checked checked,
                       std::function<void()> resized);

  // OK; or reason "limit_reached": the definition is too long.
  absl::Status CheckLength(size_t bytes) const;
  // OK; or reason "limit_reached": others are being checked.
  absl::Status CheckRoom(size_t bytes) const;
  // A short one is checked before this returns.
  void Check(CallId call, wire::native::RegisterDataset message);
  size_t bytes() const { return bytes_; }  // being checked

 private:
  runtime::Loop& loop_;
  const size_t definition_bytes_max_;
  const Checked checked_;
  const std::function<void()> resized_;
  size_t bytes_ = 0;
  // Gone with this, for what is still on its way then.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);

  runtime::WorkThread thread_;  // the first to go, since it calls back
};

}  // namespace lockstep::server
