// Answers and errors to stock JAX clients: what a machine answered -> bytes.
#pragma once

#include "lockstep/coord/effects.h"
#include "lockstep/coord/error.h"
#include "lockstep/stock/wire/answers.h"
#include "lockstep/stock/wire/errors.h"

namespace lockstep::wire::xla {

// The reply message of the call that `answer` belongs to. Thread-safe.
stock::EncodedAnswer EncodeAnswer(const coord::Answer& answer);

stock::EncodedError EncodeError(const coord::Error& error);

}  // namespace lockstep::wire::xla
