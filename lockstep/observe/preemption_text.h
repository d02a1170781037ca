// What there is to say of a job's preemption: for `lockstep status`, `members` and `preempt`. Pure.
// docs/protocols/preemption.md says what the words mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

// Whether it ended as it should: everybody saved or came to the sync step, the work was done, or
// nobody dies after all.
bool EndedWell(wire::native::PreemptionOutcome outcome);

// It has begun and not ended.
bool IsOpen(const wire::native::PreemptionState& state);

// Who dies: "task/1,3"; "everybody".
std::string SubjectsText(const wire::native::JobStatus& job,
                         const wire::native::PreemptionState& state);

// Until the first of them dies: "27s left", "due 3.0s ago", "nobody says when".
std::string LeftText(const wire::native::PreemptionState& state);

// Members in that state of the current preemption.
std::vector<int32_t> MembersThatSync(const wire::native::JobStatus& job,
                                     wire::native::SyncState state);

// Those who agreed on the sync step: they answered before it was chosen, or came to it later.
std::vector<int32_t> MembersThatAgreed(const wire::native::JobStatus& job);

// One line for each state that members are in: those who have not saved first.
//   "failed    task/3 at step 120: disk full"
std::vector<std::string> SyncLines(const wire::native::JobStatus& job);

// Of the current preemption or the last one, for people: phase, who dies, when, who says so, the
// sync step, the members. Empty when there was none.
std::string PreemptionText(const wire::native::JobStatus& job);

// One member in it: "dies in 27s; held at step 118". Empty when nothing is to be said.
std::string SyncText(const wire::native::JobStatus& job, int32_t member);

}  // namespace lockstep::observe
