// HOST:PORT as people write it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep::runtime {

// A name or a number, not looked up. IPv6 numbers are written in brackets: [::1]:7070.
struct Address {
  std::string host;
  uint16_t port = 0;

  friend bool operator==(const Address&, const Address&) = default;
};

// INVALID_ARGUMENT says what is wrong with `text` and how it should look.
absl::StatusOr<Address> ParseAddress(std::string_view text);

std::string ToString(const Address& address);

}  // namespace lockstep::runtime
