#include "lockstep/platform/runtime/peer_owner.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::runtime {
namespace {

// One end of a connection, and the other one, as its owner's kernel entry has them.
struct Ends {
  int family = AF_INET;
  std::array<uint32_t, 4> source = {};  // in network order
  std::array<uint32_t, 4> destination = {};
  in_port_t source_port = 0;  // in network order
  in_port_t destination_port = 0;
};

struct Found {
  uid_t uid = 0;
  // 0: no process has that end any more, and the kernel tells of root in place of who made it.
  uint64_t inode = 0;
};

bool TakeAddress(const sockaddr_storage& from, int& family, std::array<uint32_t, 4>& address,
                 in_port_t& port) {
  family = from.ss_family;
  if (family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &from, sizeof(v4));
    address = {v4.sin_addr.s_addr, 0, 0, 0};
    port = v4.sin_port;
    return true;
  }
  if (family != AF_INET6) return false;
  sockaddr_in6 v6;
  std::memcpy(&v6, &from, sizeof(v6));
  std::memcpy(address.data(), &v6.sin6_addr, sizeof(v6.sin6_addr));
  port = v6.sin6_port;
  return true;
}

// As the other end sees it.
std::optional<Ends> EndsOfPeer(int socket) {
  Ends ends;
  sockaddr_storage peer = {};
  sockaddr_storage local = {};
  socklen_t peer_size = sizeof(peer);
  socklen_t local_size = sizeof(local);
  int local_family = 0;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&local), &local_size) != 0 ||
      !TakeAddress(peer, ends.family, ends.source, ends.source_port) ||
      !TakeAddress(local, local_family, ends.destination, ends.destination_port) ||
      local_family != ends.family) {
    return std::nullopt;
  }
  return ends;
}

// --- NETLINK_SOCK_DIAG ---------------------------------------------------------------------------

struct DiagRequest {
  nlmsghdr header;
  inet_diag_req_v2 request;
};

// Under ForkMutex(). Kept, since a process without descriptors must be able to ask; one for all
// threads, any of which may accept. A child of `fork` asks by one of its own.
UniqueFd& DiagSocket() {
  static UniqueFd socket;
  static pid_t owner = 0;
  if (owner != ::getpid()) {
    owner = ::getpid();
    socket = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  }
  return socket;
}

absl::Status Unsupported() { return absl::UnimplementedError("no NETLINK_SOCK_DIAG"); }
absl::Status Unknown() { return absl::NotFoundError("the kernel has no such connection"); }

// What the message says of that end: that there is none, too.
absl::StatusOr<Found> ReadDiag(const nlmsghdr& header, const char* payload, size_t bytes,
                               const Ends& ends) {
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error;
    if (bytes < sizeof(error)) return Unsupported();
    std::memcpy(&error, payload, sizeof(error));
    return error.error == -ENOENT ? Unknown() : Unsupported();
  }
  inet_diag_msg message;
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || bytes < sizeof(message)) return Unsupported();
  std::memcpy(&message, payload, sizeof(message));
  // Where the end itself is gone, the kernel may answer with whoever listens at its port.
  if (message.id.idiag_dport != ends.destination_port ||
      message.id.idiag_sport != ends.source_port) {
    return Unknown();
  }
  return Found{.uid = message.idiag_uid, .inode = message.idiag_inode};
}

absl::StatusOr<Found> AskDiag(const Ends& ends) {
  const MutexLock lock(ForkMutex());
  const UniqueFd& socket = DiagSocket();
  if (!socket.valid()) return Unsupported();
  DiagRequest question = {};
  question.header = {.nlmsg_len = sizeof(question),
                     .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                     .nlmsg_flags = NLM_F_REQUEST,
                     .nlmsg_seq = 0,
                     .nlmsg_pid = 0};
  question.request.sdiag_family = static_cast<uint8_t>(ends.family);
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0U;
  question.request.id.idiag_sport = ends.source_port;
  question.request.id.idiag_dport = ends.destination_port;
  std::copy(ends.source.begin(), ends.source.end(), question.request.id.idiag_src);
  std::copy(ends.destination.begin(), ends.destination.end(), question.request.id.idiag_dst);
  question.request.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  question.request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  sockaddr_nl kernel = {};
  kernel.nl_family = AF_NETLINK;
  if (sendto(socket.get(), &question, sizeof(question), 0, reinterpret_cast<sockaddr*>(&kernel),
             sizeof(kernel)) != static_cast<ssize_t>(sizeof(question))) {
    return Unsupported();
  }
  // The kernel has answered before `sendto` returns.
  std::array<char, 4096> answer;
  const ssize_t size = recv(socket.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  nlmsghdr header;
  if (size < static_cast<ssize_t>(sizeof(header))) return Unsupported();
  std::memcpy(&header, answer.data(), sizeof(header));
  return ReadDiag(header, answer.data() + sizeof(header),
                  static_cast<size_t>(size) - sizeof(header), ends);
}

// --- /proc/net/tcp -------------------------------------------------------------------------------

std::string ProcText(const std::array<uint32_t, 4>& address, in_port_t port, int family) {
  std::string text;
  std::array<char, 16> part;
  for (size_t i = 0; i < (family == AF_INET ? 1 : address.size()); ++i) {
    std::snprintf(part.data(), part.size(), "%08X", address[i]);
    text += part.data();
  }
  std::snprintf(part.data(), part.size(), ":%04X", ntohs(port));
  return text + part.data();
}

// For kernels without the other: each question reads all connections of the host.
absl::StatusOr<Found> ReadTable(const Ends& ends) {
  constexpr size_t kLocal = 1;
  constexpr size_t kRemote = 2;
  constexpr size_t kUid = 7;
  constexpr size_t kInode = 9;
  static_assert(std::max({kLocal, kRemote, kUid}) < kInode);  // the one whose place is checked
  std::ifstream table(ends.family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6");
  if (!table) return absl::NotFoundError("the kernel tells of no connections");
  const std::string source = ProcText(ends.source, ends.source_port, ends.family);
  const std::string destination = ProcText(ends.destination, ends.destination_port, ends.family);
  for (std::string line; std::getline(table, line);) {
    if (line.find(source) == std::string::npos) continue;
    const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    Found found;
    if (fields.size() > kInode && fields[kLocal] == source && fields[kRemote] == destination &&
        absl::SimpleAtoi(fields[kUid], &found.uid) &&
        absl::SimpleAtoi(fields[kInode], &found.inode)) {
      return found;
    }
  }
  return Unknown();
}

bool PeerHasClosed(int socket) {
  char byte = 0;
  const ssize_t got = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
  tcp_info info = {};
  socklen_t size = sizeof(info);
  // Behind what it has sent there may be its end.
  return got == 0 || (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
                      info.tcpi_state != TCP_ESTABLISHED);
}

absl::StatusOr<uid_t> ParseUser(const std::string& text) {
  uid_t uid = 0;
  if (absl::SimpleAtoi(text, &uid)) return uid;
  std::array<char, 4096> buffer;
  passwd entry = {};
  passwd* found = nullptr;
  if (getpwnam_r(text.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--allow-uid ", text, ": no user of this host: give a name, a number, or any"));
  }
  return entry.pw_uid;
}

}  // namespace

bool AllowedPeers::Allow(uid_t uid) const {
  return everybody || uid == 0 || uid == geteuid() ||
         std::find(uids.begin(), uids.end(), uid) != uids.end();
}

std::string AllowedPeers::ToText() const {
  if (everybody) return "everybody";
  constexpr size_t kNamedMax = 8;
  std::vector<std::string> texts;
  if (geteuid() != 0) texts.push_back(UserText(geteuid()));
  for (const uid_t uid : uids) {
    if (texts.size() < kNamedMax) texts.push_back(UserText(uid));
  }
  if (texts.empty()) return "root";
  return absl::StrCat("root and user ", absl::StrJoin(texts, ", "));
}

absl::StatusOr<AllowedPeers> ParseAllowedPeers(const std::vector<std::string>& texts) {
  if (texts.size() > kAllowedUidsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("--allow-uid: ", texts.size(), " users, more than ", kAllowedUidsMax));
  }
  AllowedPeers allowed;
  for (const std::string& text : texts) {
    if (text == "any") {
      allowed.everybody = true;
      continue;
    }
    const absl::StatusOr<uid_t> uid = ParseUser(text);
    if (!uid.ok()) return uid.status();
    allowed.uids.push_back(*uid);
  }
  return allowed;
}

// Not by name: that may ask a directory over the network, on a loop, as often as a stranger calls.
std::string UserText(uid_t uid) { return absl::StrCat(uid); }

std::string StrangersText(const AllowedPeers& allowed) {
  return absl::StrCat("this address serves ", allowed.ToText(),
                      " of this host only; whoever runs it may allow more users (--allow-uid)");
}

absl::StatusOr<std::optional<uid_t>> OwnerOfPeer(int socket) {
  const std::optional<Ends> ends = EndsOfPeer(socket);
  if (!ends) return std::nullopt;  // not connected any more
  // A kernel without that question says the same as one that does not know the connection, until it
  // has answered once.
  static std::atomic<bool> answers = false;
  const absl::StatusOr<Found> found = AskDiag(*ends);
  if (found.ok() && found->inode != 0) {
    answers = true;
    return found->uid;
  }
  if (PeerHasClosed(socket)) return std::nullopt;
  if (answers && absl::IsNotFound(found.status())) return found.status();
  return OwnerOfPeerByTable(socket);
}

absl::StatusOr<std::optional<uid_t>> OwnerOfPeerByTable(int socket) {
  const std::optional<Ends> ends = EndsOfPeer(socket);
  if (!ends) return std::nullopt;
  const absl::StatusOr<Found> found = ReadTable(*ends);
  if (found.ok() && found->inode != 0) return found->uid;
  if (PeerHasClosed(socket)) return std::nullopt;
  return Unknown();
}

}  // namespace lockstep::runtime
