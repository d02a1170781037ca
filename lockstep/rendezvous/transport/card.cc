#include "lockstep/rendezvous/transport/card.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>

#include "absl/status/status.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::transport {
namespace {

constexpr uint32_t kCardVersion = 1;
constexpr size_t kTokenBytes = 16;

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

uint64_t NamespaceInode(const char* path) {
  struct stat status = {};
  return ::stat(path, &status) == 0 ? status.st_ino : 0;
}

bool IsSameHost(const Card& self, const Card& other) {
  return !self.boot_id.empty() && self.boot_id == other.boot_id;
}

}  // namespace

Card MakeCard() {
  return {.version = kCardVersion,
          .boot_id = FirstLine("/proc/sys/kernel/random/boot_id"),
          .pid = ::getpid(),
          .uid = ::geteuid(),
          .host = wire::native::ToUtf8(runtime::HostName()),
          .pid_namespace = NamespaceInode("/proc/self/ns/pid"),
          .net_namespace = NamespaceInode("/proc/self/ns/net"),
          .ipc_namespace = NamespaceInode("/proc/self/ns/ipc"),
          .user_namespace = NamespaceInode("/proc/self/ns/user"),
          .page_size = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)),
          .big_endian = std::endian::native == std::endian::big,
          .token = {runtime::RandomBytes(kTokenBytes)}};
}

absl::StatusOr<DoorKey> KeyOf(const Card& other, const Card& self) {
  if (self.encrypts && !other.encrypts) {
    return absl::FailedPreconditionError(
        "it does not encrypt what goes over the network, and this member must: set "
        "LOCKSTEP_ENCRYPT_DATA for all members, as `lockstep run --encrypt-data` does");
  }
  if (other.encrypts && other.secret.data.size() != runtime::kSecretBytes) {
    return absl::FailedPreconditionError(
        "its card says that it encrypts, and has no secret for it");
  }
  return DoorKey{.secret = other.secret.data, .encrypt = other.encrypts};
}

bool Offers(const std::vector<std::string>& transports, std::string_view name) {
  return std::find(transports.begin(), transports.end(), name) != transports.end();
}

bool MayShareMemory(const Card& self, const Card& other, std::string& why_not) {
  const auto offers = [](const Card& card) {
    return !card.unix_address.empty() && Offers(card.transports, "shm");
  };
  if (!offers(self)) {
    why_not = "this member does not offer shared memory";
  } else if (!offers(other)) {
    why_not = "the other member does not offer shared memory";
  } else if (!IsSameHost(self, other)) {
    why_not = "it is on another host";
  } else if (self.net_namespace != other.net_namespace) {
    // Where names of unix sockets are looked up.
    why_not = "it is in another network namespace (another container)";
  } else if (self.uid != other.uid) {
    why_not = "it runs as another user";
  } else if (self.version != other.version) {
    why_not = "it has another version of lockstep";
  }
  return why_not.empty();
}

bool MayReadMemory(const Card& self, const Card& other, std::string& why_not) {
  if (!Offers(self.transports, "cma")) {
    why_not = "this member does not read other processes' memory";
  } else if (!Offers(other.transports, "cma")) {
    why_not = "the other member does not let its memory be read";
  } else if (!IsSameHost(self, other)) {
    why_not = "it is on another host";
  } else if (self.pid_namespace == 0 || self.pid_namespace != other.pid_namespace) {
    // Its process id means something else here.
    why_not = "it is in another process namespace (another container)";
  } else if (self.uid != other.uid) {
    why_not = "it runs as another user";
  }
  return why_not.empty();
}

}  // namespace lockstep::transport
