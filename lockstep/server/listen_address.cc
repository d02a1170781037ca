#include "lockstep/server/listen_address.h"

#include <random>
#include <string>

namespace lockstep::server {
namespace {

constexpr int kTriesMax = 100;
// Anybody may take these ports, and Linux gives none of them to outgoing connections (from 32768).
static_assert(1024 <= kChosenPortFirst && kChosenPortLast < 32768);
static_assert(kChosenPortFirst + kTriesMax < kChosenPortLast);

}  // namespace

absl::Status ListenOnChosenPort(const std::string& host,
                                absl::FunctionRef<absl::Status(const runtime::Address&)> listen) {
  std::random_device random;
  std::uniform_int_distribution<int> ports(kChosenPortFirst, kChosenPortLast);
  absl::Status status;
  for (int i = 0; i < kTriesMax; ++i) {
    status = listen({.host = host, .port = static_cast<uint16_t>(ports(random))});
    if (status.ok()) break;
  }
  return status;
}

}  // namespace lockstep::server
