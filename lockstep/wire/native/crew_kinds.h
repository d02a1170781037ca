// The requests of launchers that run a job together; kinds.h has the others. Pure.
#pragma once

#include "lockstep/wire/native/crew_messages.h"
#include "lockstep/wire/native/kinds.h"

namespace lockstep::wire::native {

template <>
struct KindOf<PollCrew> : Kind<8, PollCrewReply, PollCrew> {};
template <>
struct KindOf<TellCrew> : Kind<9, TellCrewReply, TellCrew> {};

}  // namespace lockstep::wire::native
