// What events of the coordinator are called in the output of tests and simulations.
#pragma once

#include <iterator>
#include <variant>

#include "lockstep/coord/events.h"

namespace lockstep::coord {

// By `Event::index()`.
inline constexpr const char* kEventNames[] = {"RegisterMember",
                                              "Heartbeat",
                                              "PollForError",
                                              "ReportError",
                                              "LeaveJob",
                                              "ResetMember",
                                              "WatchMembers",
                                              "GetMemberStates",
                                              "SetKey",
                                              "GetKey",
                                              "TryGetKey",
                                              "IncrementKey",
                                              "ListKeys",
                                              "DeleteKey",
                                              "ArriveAtBarrier",
                                              "CancelBarrier",
                                              "GetAliveMembers",
                                              "CallLeft",
                                              "OpenSession",
                                              "SessionBroke",
                                              "AnsweredThrough",
                                              "CloseSession",
                                              "JoinJob",
                                              "ReportProgress",
                                              "WatchJob",
                                              "AgreeOnIndex",
                                              "CompareAndSetKey",
                                              "MaxKey",
                                              "GetKeys",
                                              "WatchKeys",
                                              "NotifyPreemption",
                                              "WatchPreemption",
                                              "AnswerFence",
                                              "ReportSave",
                                              "ProcessStarted",
                                              "ProcessEnded",
                                              "ProcessEnding",
                                              "ProcessStopped",
                                              "ProcessContinued",
                                              "RunBegan",
                                              "DeadlineReached",
                                              "Restored",
                                              "Stop"};
static_assert(std::size(kEventNames) == std::variant_size_v<Event>);

}  // namespace lockstep::coord
