// xla.coordination.CoordinationService: stock clients of jaxlib 0.10 and later.
#pragma once

#include <memory>

#include "lockstep/stock/wire/family.h"

namespace lockstep::wire::xla {

std::unique_ptr<stock::Family> MakeFamily();

}  // namespace lockstep::wire::xla
