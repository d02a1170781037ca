// The families of stock clients that a server serves.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/coord/options.h"
#include "lockstep/stock/wire/family.h"

namespace lockstep::net {

// `roles` of the job, by which the older clients name members (CoordinatorOptions::roles).
std::vector<std::unique_ptr<wire::stock::Family>> MakeFamilies(
    const std::vector<coord::RoleOptions>& roles);

}  // namespace lockstep::net
