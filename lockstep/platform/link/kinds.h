// The kinds of requests, under the name that callers of a link use. Pure.
#pragma once

#include "lockstep/wire/native/kinds.h"

namespace lockstep::link {

using wire::native::KindOf;
using wire::native::RequestKind;

}  // namespace lockstep::link
