// tensorflow.CoordinationService: stock clients of TensorFlow, and of jaxlib up to 0.9.2.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/coord/options.h"
#include "lockstep/stock/wire/family.h"

namespace lockstep::wire::tensorflow {

// For a job with these roles (CoordinatorOptions::roles).
std::unique_ptr<stock::Family> MakeFamily(std::vector<coord::RoleOptions> roles);

}  // namespace lockstep::wire::tensorflow
