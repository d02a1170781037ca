// Where state is kept in etcd: etcd://[USER@]HOST:PORT[,HOST:PORT...]/PREFIX. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::etcd {

// Members of etcd that a location may name.
inline constexpr size_t kEndpointsMax = 16;
inline constexpr size_t kPrefixBytesMax = 256;

struct Location {
  std::vector<std::string> endpoints;  // HOST:PORT each, in the order given
  std::string user;                    // empty: etcd asks for none
  std::string prefix;                  // of all keys, without slashes at its ends

  friend bool operator==(const Location&, const Location&) = default;
};

// Whether this text is meant to be a location in etcd.
bool IsLocation(std::string_view text);

// INVALID_ARGUMENT: says what is wrong with `text`, and how it should look.
absl::StatusOr<Location> ParseLocation(std::string_view text);

// As `ParseLocation` takes it.
std::string ToString(const Location& location);

}  // namespace lockstep::etcd
