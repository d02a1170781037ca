// Where a server chooses to listen.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "lockstep/platform/runtime/address.h"

namespace lockstep::server {

// Chosen ports lie below 32768, where the system's own choices (and with them the idle coordination
// service that every stock process 0 binds to some port) begin.
inline constexpr uint16_t kChosenPortFirst = 20000;
inline constexpr uint16_t kChosenPortLast = 31999;

// Tries ports of `host` until `listen` succeeds, a bounded number of times; then the last error.
absl::Status ListenOnChosenPort(const std::string& host,
                                absl::FunctionRef<absl::Status(const runtime::Address&)> listen);

}  // namespace lockstep::server
