// Who may read and write the keys that are Lockstep's own. Pure.
//
// Those are the keys whose name begins with `_`, and the keys below `lockstep`. All others belong
// to the job: every caller of it may do everything with them.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"

namespace lockstep::coord {

enum class KeyAccess { kRead, kWrite };

// By the table in key_rights.cc, which denies everything below `_` that it does not name. `key` is
// in normal spelling; `member` is the caller, if it is one.
bool MayAccess(Standing standing, std::optional<MemberIndex> member, KeyAccess access,
               absl::string_view key);

// In the order of bytes, names that begin with `_` lie between these. Who reads or follows all keys
// without the right to those is told of the others.
inline constexpr absl::string_view kHiddenKeysBegin = "_";
inline constexpr absl::string_view kHiddenKeysEnd = "`";
constexpr bool IsHidden(absl::string_view key) { return !key.empty() && key.front() == '_'; }
inline bool SeesHidden(const Caller& caller) { return caller.standing == Standing::kOperator; }

// Null when the caller may do that with each key that the request names. Else PERMISSION_DENIED
// (not_permitted), which names the key.
ErrorPtr CheckKeys(const SetKey& request, std::optional<MemberIndex> member);
ErrorPtr CheckKeys(const CompareAndSetKey& request, std::optional<MemberIndex> member);
ErrorPtr CheckKeys(const IncrementKey& request, std::optional<MemberIndex> member);
ErrorPtr CheckKeys(const MaxKey& request, std::optional<MemberIndex> member);
ErrorPtr CheckKeys(const DeleteKey& request, std::optional<MemberIndex> member);
ErrorPtr CheckKeys(const GetKey& request, std::optional<MemberIndex> member);
ErrorPtr CheckKeys(const TryGetKey& request, std::optional<MemberIndex> member);
ErrorPtr CheckKeys(const GetKeys& request, std::optional<MemberIndex> member);
ErrorPtr CheckKeys(const ListKeys& request, std::optional<MemberIndex> member);
ErrorPtr CheckKeys(const WatchKeys& request, std::optional<MemberIndex> member);
// Others name none.
template <class Request>
ErrorPtr CheckKeys(const Request& /*request*/, std::optional<MemberIndex> /*member*/) {
  constexpr bool kNamesKeys = requires(Request r) { r.key; }
  || requires(Request r) { r.keys; }
  || requires(Request r) { r.directory; };
  static_assert(!kNamesKeys, "say above what rights this request needs");
  return nullptr;
}

}  // namespace lockstep::coord
