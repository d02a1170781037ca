#include "lockstep/platform/runtime/address.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace lockstep::runtime {

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "address '%s': %s; write HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070", text, what));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong("has no port");
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong("an IPv6 number needs brackets");
  }
  if (host.empty()) return wrong("has no host");
  const std::string digits(text.substr(colon + 1));
  uint32_t port = 0;
  const bool only_digits = !digits.empty() && digits.size() <= 5 &&
                           digits.find_first_not_of("0123456789") == std::string::npos;
  if (!only_digits || !absl::SimpleAtoi(digits, &port) || port > 65535) {
    return wrong("the port is not a number from 0 to 65535");
  }
  return Address{.host = std::string(host), .port = static_cast<uint16_t>(port)};
}

std::string ToString(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? absl::StrFormat("[%s]:%d", address.host, address.port)
            : absl::StrFormat("%s:%d", address.host, address.port);
}

}  // namespace lockstep::runtime
