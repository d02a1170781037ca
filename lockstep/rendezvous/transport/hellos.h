// Connections that other members make to this one, until they have said who they are.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "lockstep/platform/link/connection.h"
#include "lockstep/platform/link/options.h"
#include "lockstep/rendezvous/transport/door.h"
#include "lockstep/rendezvous/transport/link_stream.h"
#include "lockstep/rendezvous/transport/unix_socket.h"

namespace lockstep::transport {

// By unix sockets, from processes of this host. Threads: loop-confined. Bounds: `max` connections
// that have said nothing; then one of them makes room.
class UnixHellos : public std::enable_shared_from_this<UnixHellos> {
 public:
  using Socket = std::shared_ptr<UnixSocket>;
  // The first message of a connection. Not OK: the connection is closed, which says so.
  using Take = std::function<absl::Status(const Socket& socket, UnixSocket::Message message)>;

  // Fails as `UnixListener::Start`.
  static absl::StatusOr<std::shared_ptr<UnixHellos>> Start(asio::io_context& io,
                                                           const std::string& name, size_t max,
                                                           Take take);
  // Calls nobody any more.
  void Close();

 private:
  UnixHellos(size_t max, Take take) : max_(max), take_(std::move(take)) {}
  void Accepted(Socket socket);
  void Readable(const Socket& socket);

  const size_t max_;
  Take take_;  // empty: closed
  std::shared_ptr<UnixListener> listener_;
  std::map<UnixSocket*, Socket> silent_;
};

// Over the network, from who has come through the door. Threads: loop-confined. Bounds: as above,
// and those of the door.
class LinkHellos : public std::enable_shared_from_this<LinkHellos> {
 public:
  // As above. OK: a stream has taken the connection.
  using Take =
      std::function<absl::Status(LinkStream::Arriving& arriving, const link::Message& message)>;
  struct Options {
    Door::Options door;
    link::LinkOptions link;
    size_t max = 0;
  };

  // Fails as `Door::Start`.
  static absl::StatusOr<std::shared_ptr<LinkHellos>> Start(asio::io_context& io, Options options,
                                                           Take take);
  std::string address() const { return door_->address(); }
  // Calls nobody any more.
  void Close();

 private:
  using Arriving = std::shared_ptr<LinkStream::Arriving>;

  LinkHellos(asio::io_context& io, Options options, Take take)
      : io_(io), options_(std::move(options)), take_(std::move(take)) {}
  void Accepted(ProvenConnection proven);
  void TakeMessage(const Arriving& arriving, const link::Message& message);

  asio::io_context& io_;
  const Options options_;
  Take take_;  // empty: closed
  std::shared_ptr<Door> door_;
  std::map<LinkStream::Arriving*, Arriving> silent_;
};

}  // namespace lockstep::transport
