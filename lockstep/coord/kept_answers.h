// Answers that native clients and agents may ask for again: what is kept of one, and what it is
// made of again. Pure.
#pragma once

#include <optional>
#include <string>

#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// What to keep of this success of the caller's request; nothing when it did nothing that could
// happen twice. Values are not kept: a client that asks again sends them along.
std::optional<record::AnswerKept> KeptAnswerOf(const Caller& caller, const Answer& answer);

// Whether it may be an answer to a stock client's request, which agents pass on: natives are told
// of revisions and of what was deleted.
bool MayBeStock(const record::AnswerKept& kept);

// The answer once more. `value`: what the request wrote, when it wrote one.
Answer AnswerAgain(const record::AnswerKept& kept, const std::string* value);

}  // namespace lockstep::coord
