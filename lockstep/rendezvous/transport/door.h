// Where other members connect to this one: nobody gets past it without a proof of the secret in its
// card.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "lockstep/platform/link/link_places.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/rendezvous/transport/tcp_listener.h"

namespace lockstep::transport {

// How long a connection has for its proof: `proof_timeout`.
inline constexpr absl::Duration kProofTimeout = absl::Seconds(5);

// Listens, and hands connections over once they have proven it (ProofTaker). Until then it reads no
// byte of theirs but the proof.
//
// Threads: loop-confined. Bounds: `unproven_max` connections that have not; one more takes the
// place of the oldest of the host that has most of them. Each has `timeout`.
class Door : public std::enable_shared_from_this<Door> {
 public:
  using Proven = std::function<void(asio::ip::tcp::socket)>;
  struct Options {
    std::string host;    // where to listen: a number
    std::string secret;  // empty: whom TcpListener lets in needs no proof
    size_t unproven_max = 512;
    absl::Duration timeout = kProofTimeout;
    // As of TcpListener.
    TcpListener::Refused refused = nullptr;
  };

  // Fails as `TcpListener::Start`.
  static absl::StatusOr<std::shared_ptr<Door>> Start(asio::io_context& io, Options options,
                                                     Proven proven);
  ~Door();
  // HOST:PORT
  const std::string& address() const { return listener_->address(); }
  // Calls nobody any more.
  void Close();

 private:
  class Guest;

  Door(asio::io_context& io, Options options, Proven proven);
  void Accepted(asio::ip::tcp::socket socket);
  // The guest goes. OK: it is handed over.
  void End(link::LinkId id, const absl::Status& why);

  asio::io_context& io_;
  const Options options_;
  Proven proven_;  // empty: closed
  std::shared_ptr<TcpListener> listener_;
  link::LinkPlaces places_;  // one for each of `guests_`
  std::map<link::LinkId, std::shared_ptr<Guest>> guests_;
  uint64_t last_guest_ = 0;
};

// Calls `done` with a connection to the door at `address` that both ends have proven to each other.
// An empty `secret`: it needs no proof. Errors: as `runtime::Dial`; UNAVAILABLE: the other end
// closed it; PERMISSION_DENIED: who listens there is not the member of the card;
// FAILED_PRECONDITION: this process has no OpenSSL. `timeout`: of the connection, and again of the
// proof.
void DialDoor(asio::io_context& io, const runtime::Address& address, std::string secret,
              absl::Duration timeout, runtime::DialDone done);

}  // namespace lockstep::transport
