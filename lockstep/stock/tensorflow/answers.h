// Answers and errors to the older stock clients: what a machine answered -> bytes.
#pragma once

#include "lockstep/coord/effects.h"
#include "lockstep/coord/error.h"
#include "lockstep/stock/tensorflow/requests.h"
#include "lockstep/stock/tensorflow/roles.h"
#include "lockstep/stock/wire/family.h"

namespace lockstep::wire::tensorflow {

// The reply message of a call to `method`. Thread-safe.
stock::EncodedAnswer EncodeAnswer(Method method, const Roles& roles, const coord::Answer& answer,
                                  const stock::Asked& asked);

stock::EncodedError EncodeError(const Roles& roles, const coord::Error& error,
                                const stock::Asked& asked);

}  // namespace lockstep::wire::tensorflow
