// How clients of the older family name members: by the name of a role and an index within it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/options.h"

namespace lockstep::wire::tensorflow {

// The roles of one job. Without any it has one role, which every client may call as it likes:
// answers call it as the caller did. (That all mean the same by it is looked at when they
// register.) Immutable, thread-safe.
class Roles {
 public:
  explicit Roles(std::vector<coord::RoleOptions> roles = {});

  // The member meant, or INVALID_ARGUMENT: a role that the job does not have (`unknown_role`), an
  // index that the role does not have (`unknown_member`). A client that names no role means the
  // only one. Where the job's roles have no names, indices pass as they are.
  std::variant<MemberIndex, coord::ErrorPtr> Find(std::string_view role, int32_t index) const;

  // The same within a list, where it is the machine that refuses strangers.
  MemberIndex FindOrStranger(std::string_view role, int32_t index) const;

  struct Task {
    std::string_view role;
    int32_t index;
  };
  // `asked`: what the caller calls the role that has no name of its own, or the only one.
  Task NameOf(MemberIndex member, std::string_view asked) const;

 private:
  struct Role {
    std::string name;
    int32_t first;
    int32_t size;
  };
  std::vector<Role> roles_;
};

}  // namespace lockstep::wire::tensorflow
