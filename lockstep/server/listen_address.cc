#include "lockstep/server/listen_address.h"

#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "asio/ip/tcp.hpp"

namespace lockstep::server {
namespace {

constexpr int kTriesMax = 100;

}  // namespace

absl::Status CheckLoopback(asio::io_context& io, const runtime::Address& address) {
  asio::error_code error;
  asio::ip::tcp::resolver resolver(io);
  const auto results = resolver.resolve(address.host, std::to_string(address.port), error);
  // A name that does not exist is complained about by whoever listens there.
  if (error) return absl::OkStatus();
  const bool loopback = std::all_of(results.begin(), results.end(), [](const auto& result) {
    return result.endpoint().address().is_loopback();
  });
  if (loopback) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(runtime::ToString(address),
                   " can be reached from other hosts, and nothing there is encrypted or "
                   "authenticated; allow it with --insecure-network, or use 127.0.0.1"));
}

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
