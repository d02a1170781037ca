// Which member a caller may act as whose certificate names one (Caller::bound). Pure.
#pragma once

#include <optional>
#include <string>

#include "lockstep/base/ids.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"

namespace lockstep::coord {

// Null when the caller may act as that member, or acts as none. Else PERMISSION_DENIED
// (not_permitted), which names both.
ErrorPtr CheckBound(std::optional<MemberIndex> bound, std::optional<MemberIndex> acts_as,
                    const std::string& job);

// The same of a stock client's request. `lives_as`: whose life the request names, if anybody's.
template <class Request>
ErrorPtr CheckBound(const Request& request, std::optional<MemberIndex> lives_as,
                    const std::string& job) {
  const std::optional<MemberIndex> bound = request.caller.bound;
  if (!bound) return nullptr;
  if constexpr (requires { request.member; }) {
    if (ErrorPtr refusal = CheckBound(bound, request.member, job)) return refusal;
  }
  return CheckBound(bound, lives_as, job);
}
// Names the members that it asks about, and not the one that asks.
ErrorPtr CheckBound(const GetMemberStates& request, std::optional<MemberIndex> lives_as,
                    const std::string& job);

}  // namespace lockstep::coord
