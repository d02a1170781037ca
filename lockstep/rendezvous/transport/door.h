// Where other members connect to this one: nobody gets past it without a proof of the secret in its
// card.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "lockstep/platform/link/link_places.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/secure_layer.h"
#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/rendezvous/transport/tcp_listener.h"

namespace lockstep::transport {

// How long a connection has for its proof: `proof_timeout`.
inline constexpr absl::Duration kProofTimeout = absl::Seconds(5);

// What opens a door.
struct DoorKey {
  std::string secret;    // empty: whom TcpListener lets in needs none
  bool encrypt = false;  // with a secret only: all bytes are, from the proof on
};

// Both ends know that the other one has the key.
struct ProvenConnection {
  asio::ip::tcp::socket socket;
  std::unique_ptr<runtime::SecureLayer> layer;  // null: bytes go in clear
};

// Listens, and hands connections over once they have proven it (Handshake). Until then it reads no
// byte of theirs but the proof.
//
// Threads: loop-confined. Bounds: `unproven_max` connections that have not; one more takes the
// place of the oldest of the host that has most of them. Each has `timeout`.
class Door : public std::enable_shared_from_this<Door> {
 public:
  using Proven = std::function<void(ProvenConnection)>;
  struct Options {
    std::string host;  // where to listen: a number
    DoorKey key;
    size_t unproven_max = 512;
    absl::Duration timeout = kProofTimeout;
    // As of TcpListener.
    TcpListener::Refused refused = nullptr;
  };

  // Fails as `TcpListener::Start`. FAILED_PRECONDITION: this process has no OpenSSL to encrypt
  // with.
  static absl::StatusOr<std::shared_ptr<Door>> Start(asio::io_context& io, Options options,
                                                     Proven proven);
  ~Door();
  // HOST:PORT
  const std::string& address() const { return listener_->address(); }
  // Calls nobody any more.
  void Close();

 private:
  Door(asio::io_context& io, Options options, Proven proven);
  void Accepted(asio::ip::tcp::socket socket);
  // The guest goes. OK: it is handed over.
  void End(link::LinkId id, const absl::Status& why);

  asio::io_context& io_;
  const Options options_;
  Proven proven_;                               // empty: closed
  runtime::SharedSecrets::MakeLayer encrypts_;  // null: it does not
  std::shared_ptr<TcpListener> listener_;
  link::LinkPlaces places_;  // one for each of `guests_`
  std::map<link::LinkId, std::shared_ptr<class Entrance>> guests_;
  uint64_t last_guest_ = 0;
};

// Calls `done` with a connection to the door at `address`. A key without a secret: it needs no
// proof. Errors: as `runtime::Dial`; UNAVAILABLE: the other end closed it; PERMISSION_DENIED: who
// listens there is not the member of the card; FAILED_PRECONDITION: this process has no OpenSSL.
// `timeout`: of the connection, and again of the proof.
void DialDoor(asio::io_context& io, const runtime::Address& address, const DoorKey& key,
              absl::Duration timeout,
              absl::AnyInvocable<void(absl::StatusOr<ProvenConnection>)> done);

}  // namespace lockstep::transport
