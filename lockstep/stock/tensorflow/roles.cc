#include "lockstep/stock/tensorflow/roles.h"

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lockstep::wire::tensorflow {

Roles::Roles(std::vector<coord::RoleOptions> roles) {
  int32_t first = 0;
  for (coord::RoleOptions& role : roles) {
    roles_.push_back({std::move(role.name), first, role.size});
    first += role.size;
  }
}

std::variant<MemberIndex, coord::ErrorPtr> Roles::Find(std::string_view name, int32_t index) const {
  if (roles_.empty()) return MemberIndex(index);
  const Role* found = name.empty() && roles_.size() == 1 ? &roles_[0] : nullptr;
  for (const Role& role : roles_) {
    if (role.name == name) found = &role;
  }
  const auto refusal = [&](coord::Reason reason) {
    const std::string known = absl::StrJoin(roles_, ", ", [](std::string* out, const Role& role) {
      absl::StrAppendFormat(out, "%s:%d", role.name, role.size);
    });
    return coord::MakeError(
        absl::StatusCode::kInvalidArgument, reason,
        absl::StrFormat("Task %d of job '%s' is not in the cluster, whose roles are %s. Compare it "
                        "with --job of the server. Nothing was changed.",
                        index, std::string(name), known));
  };
  if (found == nullptr) return refusal(coord::Reason::kUnknownRole);
  if (index < 0 || index >= found->size) return refusal(coord::Reason::kUnknownMember);
  return MemberIndex(found->first + index);
}

MemberIndex Roles::FindOrStranger(std::string_view role, int32_t index) const {
  const auto found = Find(role, index);
  const auto* member = std::get_if<MemberIndex>(&found);
  return member ? *member : MemberIndex(-1);
}

Roles::Task Roles::NameOf(MemberIndex member, std::string_view asked) const {
  for (const Role& role : roles_) {
    const int32_t index = member.value() - role.first;
    if (index < 0 || index >= role.size) continue;
    return {roles_.size() == 1 && asked.empty() ? asked : std::string_view(role.name), index};
  }
  return {asked, member.value()};
}

}  // namespace lockstep::wire::tensorflow
