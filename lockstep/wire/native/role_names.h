// What tokens, options and errors call each role. Pure.
#pragma once

#include <array>

#include "lockstep/wire/native/kind.h"

namespace lockstep::wire::native {

struct NamedRole {
  Role role;
  const char* name;
};
inline constexpr std::array kNamedRoles = {
    NamedRole{Role::kObserve, "observe"}, NamedRole{Role::kTask, "task"},
    NamedRole{Role::kLaunch, "launch"}, NamedRole{Role::kWork, "worker"},
    NamedRole{Role::kOperate, "operator"}};

}  // namespace lockstep::wire::native
