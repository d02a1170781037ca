// Whether other hosts can reach an address.
#pragma once

#include "absl/status/status.h"
#include "asio/io_context.hpp"
#include "lockstep/platform/runtime/address.h"

namespace lockstep::runtime {

// FAILED_PRECONDITION, with what to do, when other hosts can reach the address: `option` allows it.
// May look a name up, which blocks; one that does not exist is complained about by whoever listens
// there.
absl::Status CheckLoopback(asio::io_context& io, const Address& address, const char* option);

}  // namespace lockstep::runtime
