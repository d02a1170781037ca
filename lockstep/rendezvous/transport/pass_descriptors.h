// Handing file descriptors to another process of this host, and knowing which process that is.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::transport {

// Of one message: `passed_descriptors_max`.
inline constexpr size_t kPassedDescriptorsMax = 16;

// Sends a message, and with its first byte the descriptors, over a connected unix socket. Returns
// how many bytes went: fewer than all when a stream was full, the rest follows without descriptors;
// 0, and no descriptors, when a socket that does not block has no room at all. The caller keeps its
// descriptors. Never raises SIGPIPE.
absl::StatusOr<size_t> SendDescriptors(int socket, std::string_view message,
                                       std::span<const int> fds);

struct ReceivedDescriptors {
  enum class Outcome { kMessage, kWouldBlock, kClosed };
  Outcome outcome = Outcome::kMessage;
  size_t bytes = 0;
  std::vector<runtime::UniqueFd> fds;  // closed on exec
};

// Receives once into `buffer`, with what descriptors come along. On a stream they come with the
// first of the bytes that they were sent with. After an error the connection is of no use: bytes or
// descriptors of it are lost, though none stays open. RESOURCE_EXHAUSTED when this process may have
// no more of them.
absl::StatusOr<ReceivedDescriptors> ReceiveDescriptors(int socket, std::span<std::byte> buffer);

// Of the process that connected, or that listened, as the kernel noted them then. The pid is 0 when
// that process cannot be seen from this one's namespace.
struct PeerProcess {
  pid_t pid = 0;
  uid_t uid = 0;
};
absl::StatusOr<PeerProcess> PeerCredentials(int socket);

}  // namespace lockstep::transport
