#include "lockstep/stock/grpc/families.h"

#include "lockstep/stock/tensorflow/family.h"
#include "lockstep/stock/xla/family.h"

namespace lockstep::net {

std::vector<std::unique_ptr<wire::stock::Family>> MakeFamilies(
    const std::vector<coord::RoleOptions>& roles) {
  std::vector<std::unique_ptr<wire::stock::Family>> families;
  families.push_back(wire::xla::MakeFamily());
  families.push_back(wire::tensorflow::MakeFamily(roles));
  return families;
}

}  // namespace lockstep::net
