// The coordinator's state as it travels. Pure.
#pragma once

#include <string>

#include "lockstep/base/time.h"
#include "lockstep/coord/preemption.h"
#include "lockstep/coord/view.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/preemption_messages.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::wire::native {

// `grpc_address` is where the job's stock clients call. Bytes that are not UTF-8 (a text that a
// client cut in the middle of a character) become U+FFFD.
JobStatus FromView(Time now, const coord::CoordinatorView& view, std::string grpc_address);

BarrierStatus FromBarrier(Time now, const coord::BarrierView& barrier);

MemberStatus FromMember(Time now, const coord::MemberView& member);

PreemptionState FromState(Time now, const coord::PreemptionState& state);
// Of a state that a member may say of itself.
coord::SyncState ToCoord(SyncState state);

WatchJobReply FromChange(Time now, const coord::JobChange& change);

}  // namespace lockstep::wire::native
