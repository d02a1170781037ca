// Making TCP connections and listening for them.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "lockstep/platform/runtime/address.h"

namespace lockstep::runtime {

using DialDone = absl::AnyInvocable<void(absl::StatusOr<asio::ip::tcp::socket>)>;

// Looks `address` up and connects to the first of its addresses that accepts. Calls `done` exactly
// once on `io`, at the latest after `timeout`. UNAVAILABLE or DEADLINE_EXCEEDED name the address
// and the system's reason; RESOURCE_EXHAUSTED: this process may have no more descriptors. The
// socket is close-on-exec from its first moment, so that no child keeps the connection of a dead
// parent open, and sends without delay; close it with `CloseSocket` (fork_guard.h). A name that the
// resolver is slow to answer can hold up the destruction of `io`.
void Dial(asio::io_context& io, const Address& address, absl::Duration timeout, DialDone done);

// Binds and listens, close-on-exec. An error names the address, the system's reason and a way out.
// Port 0: the system chooses. Looks a name up first, which may block.
absl::StatusOr<asio::ip::tcp::acceptor> Listen(asio::io_context& io, const Address& address);

// "127.0.0.1:7070"
std::string ToString(const asio::ip::tcp::endpoint& endpoint);

}  // namespace lockstep::runtime
