#include "lockstep/coord/role_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

RoleTable::RoleTable(const CoordinatorOptions& options) : options_(options) {
  int32_t first = 0;
  for (const RoleOptions& role : options.roles) {
    roles_.push_back({.name = role.name, .first = first, .size = role.size});
    first += role.size;
  }
  // One role of all members, whose name is a guess until the first member says it.
  if (roles_.empty()) {
    roles_.push_back({.name = options.role, .first = 0, .size = options.size});
    settled_ = false;
  }
  LOCKSTEP_CHECK(options.roles.empty() || first == options.size);
}

const RoleRecord& RoleTable::Of(MemberIndex member) const {
  const auto beyond = std::upper_bound(
      roles_.begin(), roles_.end(), member.value(),
      [](int32_t index, const RoleRecord& role) { return index < role.first + role.size; });
  // An index beyond the job is named after the last role, in the error about it.
  return beyond == roles_.end() ? roles_.back() : *beyond;
}

ErrorPtr RoleTable::Find(const std::string& name, const RoleRecord** role) const {
  *role = nullptr;
  if (name.size() > options_.label_bytes_max) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
        absl::StrCat("a role name of ", name.size(), " bytes is over label_bytes_max (",
                     options_.label_bytes_max, "); use a shorter one"));
  }
  if (options_.roles.empty()) {
    // Until a member was let in, any name may become the role's.
    if (settled_ && !name.empty() && name != roles_[0].name) {
      return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                       absl::StrCat("job '", options_.job,
                                    "' was given no roles, and its first member calls its "
                                    "own '",
                                    roles_[0].name, "'; another calls its role '", name,
                                    "': use one name, or start the job with roles, as in ",
                                    options_.job, "=", roles_[0].name, ":N,", name, ":M"));
    }
    *role = &roles_[0];
    return nullptr;
  }
  // With several roles an empty name could mean any of them.
  if (name.empty() && roles_.size() == 1) {
    *role = &roles_[0];
    return nullptr;
  }
  const auto found = std::find_if(roles_.begin(), roles_.end(),
                                  [&name](const RoleRecord& each) { return each.name == name; });
  if (found != roles_.end()) {
    *role = &*found;
    return nullptr;
  }
  const std::string known =
      absl::StrJoin(roles_, ", ", [](std::string* out, const RoleRecord& each) {
        absl::StrAppend(out, "'", each.name, "' (", each.size, ")");
      });
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kUnknownRole,
                   absl::StrCat("job '", options_.job, "' has no role '", name, "'; it has ", known,
                                name.empty() ? "; say which one" : "; check the name"));
}

bool RoleTable::Settle(const std::string& name) {
  if (!options_.roles.empty() || settled_ || name.empty()) return false;
  LOCKSTEP_DCHECK(roles_.size() == 1);
  // Also where the name is the guess: another one is refused from now on.
  settled_ = true;
  if (roles_[0].name == name) return false;
  roles_[0].name = name;
  return true;
}

std::string RoleTable::NameMembers() const {
  return absl::StrJoin(roles_, ", ", [](std::string* out, const RoleRecord& role) {
    absl::StrAppend(out, role.name, "/0 to ", role.name, "/", role.size - 1);
  });
}

}  // namespace lockstep::coord
