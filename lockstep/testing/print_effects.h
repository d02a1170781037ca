// The coordinator's events and effects as text: for comparing runs byte by byte, and for reading a
// failed test. Tests only; the format is nobody's contract.
#pragma once

#include <ostream>
#include <string>

#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/view.h"

namespace lockstep::testing {

// One line, such as `call 7: OK barrier passed 0` or `call 7: CANCELLED superseded "..."`. Holds
// everything that a client can see, and the marks that the listeners turn into payloads.
std::string PrintReply(const coord::Reply& reply);

// One line, such as `KeySet key="a" value="1" ...`.
std::string PrintRecord(const coord::Record& record);

// A line for each record, reply and notice, in order; empty when there is none.
std::string PrintEffects(const coord::Effects& effects);

// One line, such as `ArriveAtBarrier call=3 service=9 member=1 id="a" ...`.
std::string PrintEvent(const coord::Event& event);

}  // namespace lockstep::testing

// How GoogleTest prints these when a test fails.
namespace lockstep::coord {

void PrintTo(const Reply& reply, std::ostream* out);
void PrintTo(const AliveMember& member, std::ostream* out);
void PrintTo(Reason reason, std::ostream* out);
void PrintTo(MemberCondition condition, std::ostream* out);
void PrintTo(AttemptState state, std::ostream* out);

}  // namespace lockstep::coord
