// What a caller may do, and whether a request is part of that. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/wire/native/kind.h"

namespace lockstep::link {

// Of who called, for as long as the link stands.
struct Rights {
  wire::native::Role role = wire::native::Role::kOperate;
  std::string job = {};                       // the only one; empty: all
  absl::Time until = absl::InfiniteFuture();  // when its token expires
  // Of that job, the only one that the caller may join as; absent: any.
  std::optional<MemberIndex> member = std::nullopt;
};

// PERMISSION_DENIED, `not_permitted`: the role may not ask requests of that kind
// (proto/lockstep/options.proto), or not about that job. INVALID_ARGUMENT: no such message, of a
// request that names a job.
absl::Status CheckRights(const Rights& rights, wire::native::RequestKind kind,
                         std::string_view payload);

// A client's first words, for who decides what it may.
struct Greeting {
  std::string_view token;  // empty: it has none
  bool secure = false;     // by TLS
  bool local = false;      // from this host, by a user who may call here
  // As runtime::SecureLayer::peer_uris.
  std::vector<std::string> uris = {};
  std::string host = {};  // from which it calls; of this one all addresses are the same
};

}  // namespace lockstep::link
