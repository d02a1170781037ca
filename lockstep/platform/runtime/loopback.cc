#include "lockstep/platform/runtime/loopback.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "asio/ip/tcp.hpp"

namespace lockstep::runtime {

absl::Status CheckLoopback(asio::io_context& io, const Address& address, const char* option) {
  asio::error_code error;
  asio::ip::tcp::resolver resolver(io);
  const auto results = resolver.resolve(address.host, std::to_string(address.port), error);
  if (error) return absl::OkStatus();
  const bool loopback = std::all_of(results.begin(), results.end(), [](const auto& result) {
    return result.endpoint().address().is_loopback();
  });
  if (loopback) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(ToString(address),
                   " can be reached from other hosts, and nothing there is encrypted or "
                   "authenticated; allow it with ",
                   option, ", or use 127.0.0.1"));
}

}  // namespace lockstep::runtime
