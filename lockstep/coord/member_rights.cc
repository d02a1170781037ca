#include "lockstep/coord/member_rights.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lockstep::coord {

ErrorPtr CheckBound(std::optional<MemberIndex> bound, std::optional<MemberIndex> acts_as,
                    const std::string& job) {
  if (!bound || !acts_as || *bound == *acts_as) return nullptr;
  return MakeError(
      absl::StatusCode::kPermissionDenied, Reason::kNotPermitted,
      absl::StrCat("the client's certificate names member ", bound->value(), " of job '", job,
                   "', and the request names member ", acts_as->value(),
                   "; nothing was changed. Use the certificate of that member, or correct its "
                   "index"));
}

ErrorPtr CheckBound(const GetMemberStates& request, std::optional<MemberIndex> lives_as,
                    const std::string& job) {
  for (const MemberIndex member : request.members) {
    if (ErrorPtr refusal = CheckBound(request.caller.bound, member, job)) return refusal;
  }
  return CheckBound(request.caller.bound, lives_as, job);
}

}  // namespace lockstep::coord
