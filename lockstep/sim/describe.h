// Events and effects as one line of text each, for the trace of a simulation. Pure.
#pragma once

#include <string>

#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"

namespace lockstep::sim {

// "12.345678s".
std::string FormatTime(Time time);

// "ArriveAtBarrier #17 service=2a life=9 member=3 id='sync' counter=0".
std::string Describe(const coord::Event& event);

// "#17 OK passed counter=0" or "#17 ABORTED member_restarted: ...".
std::string Describe(const coord::Reply& reply);

}  // namespace lockstep::sim
