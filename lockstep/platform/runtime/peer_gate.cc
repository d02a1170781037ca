#include "lockstep/platform/runtime/peer_gate.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/dial.h"

namespace lockstep::runtime {

PeerGate::PeerGate(const asio::ip::tcp::endpoint& listens, AllowedPeers allowed)
    : listens_(listens),
      allowed_(std::move(allowed)),
      asks_(listens.address().is_loopback() && !allowed_.everybody) {}

absl::Status PeerGate::Check(int socket) const {
  if (!asks_) return absl::OkStatus();
  const absl::StatusOr<std::optional<uid_t>> owner = OwnerOfPeer(socket);
  if (owner.ok() && !*owner) return absl::CancelledError("the other end has gone");
  if (owner.ok() && allowed_.Allow(**owner)) return absl::OkStatus();
  const std::string whose =
      owner.ok() ? absl::StrCat("of user ", UserText(**owner))
                 : std::string(
                       "whose user the kernel does not know (does it come from a container "
                       "or another network namespace?)");
  return absl::PermissionDeniedError(absl::StrCat(ToString(listens_), ": a connection ", whose,
                                                  " is refused; this address serves ",
                                                  allowed_.ToText()));
}

}  // namespace lockstep::runtime
