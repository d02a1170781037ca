#include "lockstep/rendezvous/transport/pass_descriptors.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/rendezvous/transport/system_call_error.h"

namespace lockstep::transport {
namespace {

constexpr size_t kControlBytes = CMSG_SPACE(kPassedDescriptorsMax * sizeof(int));

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

template <class Call>
ssize_t Uninterrupted(Call call) {
  ssize_t result = 0;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

void AppendDescriptors(const cmsghdr& control, std::vector<runtime::UniqueFd>& fds) {
  const unsigned char* const data = CMSG_DATA(&control);
  const size_t count = (control.cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < count; ++i) {
    int fd = -1;
    std::memcpy(&fd, data + i * sizeof(int), sizeof(int));
    fds.emplace_back(fd);
  }
}

// Takes over all that came, before anything else may fail.
std::vector<runtime::UniqueFd> TakeDescriptors(msghdr& header) {
  std::vector<runtime::UniqueFd> fds;
  fds.reserve(kPassedDescriptorsMax);
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS) {
      AppendDescriptors(*control, fds);
    }
  }
  return fds;
}

// The kernel could not give us all. Either there was no room for more than the limit, or this
// process has too many open.
absl::Status Truncated(size_t received) {
  if (received >= kPassedDescriptorsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer sent more than ", kPassedDescriptorsMax,
                     " descriptors at once (passed_descriptors_max)"));
  }
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return absl::ResourceExhaustedError(
      absl::StrCat("descriptors that the peer sent could not be received: this process may have ",
                   limit.rlim_cur, " open (RLIMIT_NOFILE); raise that limit (ulimit -n)"));
}

}  // namespace

absl::StatusOr<size_t> SendDescriptors(int socket, std::string_view message,
                                       std::span<const int> fds) {
  if (fds.size() > kPassedDescriptorsMax || message.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        fds.size(), " descriptors with ", message.size(), " bytes: at most ", kPassedDescriptorsMax,
        " (passed_descriptors_max) and at least one byte can be sent"));
  }
  alignas(cmsghdr) char control_bytes[kControlBytes] = {};
  iovec bytes = {const_cast<char*>(message.data()), message.size()};
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control_bytes;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(control), fds.data(), fds.size_bytes());
  }
  const ssize_t sent = Uninterrupted([&] { return ::sendmsg(socket, &header, MSG_NOSIGNAL); });
  if (sent >= 0) return static_cast<size_t>(sent);
  if (WouldBlock(errno)) return 0;
  if (errno == ETOOMANYREFS) {
    return SystemCallError("sendmsg", errno,
                           "more descriptors are under way than RLIMIT_NOFILE allows; the peers "
                           "do not take them");
  }
  return SystemCallError("sendmsg", errno, "the peer, or the connection to it, is gone");
}

absl::StatusOr<ReceivedDescriptors> ReceiveDescriptors(int socket, std::span<std::byte> buffer) {
  if (buffer.empty()) return absl::InvalidArgumentError("nothing can be received into no bytes");
  alignas(cmsghdr) char control_bytes[kControlBytes] = {};
  iovec bytes = {buffer.data(), buffer.size()};
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control_bytes;
  header.msg_controllen = sizeof(control_bytes);
  const ssize_t received =
      Uninterrupted([&] { return ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC); });
  ReceivedDescriptors result;
  if (received < 0) {
    if (!WouldBlock(errno)) {
      return SystemCallError("recvmsg", errno, "the connection to the peer is gone");
    }
    result.outcome = ReceivedDescriptors::Outcome::kWouldBlock;
    return result;
  }
  result.bytes = static_cast<size_t>(received);
  result.fds = TakeDescriptors(header);
  if ((header.msg_flags & MSG_CTRUNC) != 0) return Truncated(result.fds.size());
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer sent a message of more than ", buffer.size(), " bytes"));
  }
  if (received == 0) result.outcome = ReceivedDescriptors::Outcome::kClosed;
  return result;
}

absl::StatusOr<PeerProcess> PeerCredentials(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return SystemCallError("getsockopt(SO_PEERCRED)", errno, "a unix socket is needed");
  }
  return PeerProcess{peer.pid, peer.uid};
}

}  // namespace lockstep::transport
