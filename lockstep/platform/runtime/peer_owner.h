// Whose a connection within this host is. A port of the loopback interface is open to every user of
// the host; the kernel knows which user made the other end, so that nobody has to prove it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::runtime {

// Who may call where only this host can.
struct AllowedPeers {
  bool everybody = false;
  // Beside the user of this process, and root.
  std::vector<uid_t> uids;

  // Whether that user may: everybody, root, the user of this process, or one of `uids`.
  bool Allow(uid_t uid) const;
  // "root and user 1000": for people.
  std::string ToText() const;
};

// `--allow-uid`: names or numbers of users, or "any". At most `kAllowedUidsMax`. INVALID_ARGUMENT
// names the text that is no user.
absl::StatusOr<AllowedPeers> ParseAllowedPeers(const std::vector<std::string>& texts);
inline constexpr size_t kAllowedUidsMax = 1024;

// "1000": for people, who can look up its name.
std::string UserText(uid_t uid);

// What somebody else is told.
std::string StrangersText(const AllowedPeers& allowed);

// The user who made the other end of a connected TCP socket. Absent: that end is closed already.
// NOT_FOUND when the kernel does not know it: a process of another network namespace, say, calls
// through something that forwards. Asks the kernel once (NETLINK_SOCK_DIAG; where there is no such
// thing, reads /proc/net/tcp). Threads: any.
absl::StatusOr<std::optional<uid_t>> OwnerOfPeer(int socket);
// By /proc/net/tcp alone, which costs as much as the host has connections. The answer, and the
// errors, are those of OwnerOfPeer.
absl::StatusOr<std::optional<uid_t>> OwnerOfPeerByTable(int socket);

}  // namespace lockstep::runtime
