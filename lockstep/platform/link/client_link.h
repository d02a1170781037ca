// The side of the link that calls, for code that runs on a loop. Client and Reporter stand on it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "asio/io_context.hpp"
#include "asio/ip/address.hpp"
#include "lockstep/platform/link/connection.h"
#include "lockstep/platform/link/kinds.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/wire/native/link_messages.h"

namespace lockstep::link {

class LeaderDial;

// Dials one server, or the one of several that leads, says hello, and after the welcome sends
// requests, each of which is called back exactly once unless the link is abandoned. Does not
// reconnect.
//
// Threads: loop-confined (to `io`). Ownership: keep it; `Abandon` before letting go.
class ClientLink : public std::enable_shared_from_this<ClientLink> {
 public:
  using Answered = absl::AnyInvocable<void(absl::StatusOr<std::string>)>;
  struct Events {
    std::function<void(const wire::native::Welcome&)> ready;
    // Once: the link could not be made or has ended. The calls that waited have been called back.
    std::function<void(absl::Status)> closed;
    // Takes every message after the welcome instead of `Call`'s callbacks, for an owner that
    // numbers its requests itself and sends them with `SendNow`. Null: not.
    std::function<void(Message&&)> message = nullptr;
    // Takes the frames of tunnels. Null: there are none, and a frame of one breaks the link.
    std::function<void(Message&&)> tunnel = nullptr;
  };

  // `timeout` is for the connection; the hello has LinkOptions::hello_timeout. `who` gets pid and
  // host. `token`: sent by TLS only, instead of OwnToken.
  static std::shared_ptr<ClientLink> Dial(asio::io_context& io, const runtime::Address& address,
                                          absl::Duration timeout, const std::string& who,
                                          const LinkOptions& options, Events events,
                                          std::optional<std::string> token = std::nullopt);
  // The same to the one of `servers` that leads, as LeaderSearch and LeaderDial find it. The
  // connections to all of them together have `timeout`. `closed` with `not_leader` or
  // `stale_leader`: some were reached, and none leads now.
  static std::shared_ptr<ClientLink> Dial(asio::io_context& io,
                                          const std::shared_ptr<Servers>& servers,
                                          absl::Duration timeout, const std::string& who,
                                          const LinkOptions& options, Events events,
                                          std::optional<std::string> token = std::nullopt);

  // After `ready` only. After `closed` it is called back with its error. Returns the request's id.
  uint64_t Call(RequestKind kind, std::string payload, Answered answered);

  // A frame of a tunnel. After `ready` only; ignored once the link has closed.
  void Send(Message frame);
  // Ends a link whose other end breaks the rules.
  void BreakRules(absl::Status why);

  // After `ready` only, with Events::message. Ignored once the link has closed.
  void SendNow(std::vector<Message> messages);

  // Writes what waits and says farewell, without keeping anybody; calls nobody back any more.
  void Farewell();

  // Closes at once and calls nobody back any more.
  void Abandon();

  // Of this end: how the other one's host reaches ours.
  const asio::ip::address& local_address() const { return local_address_; }
  // The server at the other end; after `ready` only.
  const runtime::Address& server() const { return server_; }
  // For good: it does not reconnect. False while it is being dialled.
  bool closed() const { return !closed_.ok(); }
  // OK until it is closed.
  const absl::Status& why() const { return closed_; }
  // What is known of the servers while the one that leads is searched for, as an error; OK
  // otherwise.
  absl::Status why_not_found() const;

 private:
  // Whom the connection calls: the link by which it was made, or the one that took it over.
  struct Route {
    std::weak_ptr<ClientLink> owner;
  };

  ClientLink(runtime::Address server, std::string address, const LinkOptions& options,
             Events events)
      : address_(std::move(address)),
        server_(std::move(server)),
        options_(options),
        events_(std::make_shared<const Events>(std::move(events))) {}

  struct Identity {
    Channel::Layer layer;  // null: the connection is made without TLS
    std::string token;
  };
  static absl::StatusOr<Identity> IdentityFor(const runtime::Address& address,
                                              std::optional<std::string> token);
  void Connected(asio::io_context& io, asio::ip::tcp::socket socket, Identity identity,
                 const std::string& who);
  // Goes on with the connection of a link that was welcomed a moment ago.
  void TakeOver(ClientLink& leader, const wire::native::Welcome& welcome);
  void Take(Message&& message);
  void Greeted(const Message& message);
  absl::Status NotWelcomed(const absl::Status& why) const;
  void Closed(const absl::Status& why);

  std::string address_;  // for texts: of all servers while the one that leads is searched for
  runtime::Address server_;
  const LinkOptions options_;
  asio::ip::address local_address_;
  std::shared_ptr<const Events> events_;  // null once the link has closed
  std::shared_ptr<LeaderDial> search_;    // null: this link has one server, or its leader was found
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Route> route_;  // of the connection
  bool welcomed_ = false;
  absl::Status closed_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Answered> waiting_;
};

}  // namespace lockstep::link
