// The calls about preemptions that members and others have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "lockstep/client/preemption.h"
#include "lockstep/client/typed.h"
#include "lockstep/client/watch.h"
#include "lockstep/wire/native/preemption_messages.h"

namespace lockstep::client {

using PreemptionWatch = Watch<wire::native::PreemptionState>;

// `answers`: of a member that polls its steps.
std::shared_ptr<PreemptionWatch> MakePreemptionWatch(std::weak_ptr<Engine> engine, bool answers);

Typed<bool> NoticeCall(const wire::native::NotifyPreemption& notice, absl::Duration timeout);

// For people and programs. `since`: how long ago the state was told. `member`: whose view it is.
PreemptionNotice ToNotice(const wire::native::PreemptionState& state, absl::Duration since,
                          std::optional<int32_t> member);

}  // namespace lockstep::client
