// Accepts the connections of one listening address, and survives running out of everything.
//
// Our own, for all listeners, because gRPC's listener stops accepting for good once it has run out
// of file descriptors (seen in 1.51), and because it sets a TCP_USER_TIMEOUT that ends connections
// over a short cut of the network. And because every user of a host reaches the ports of its
// loopback interface: there it takes only connections of users who are allowed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "asio/ip/address.hpp"
#include "asio/ip/tcp.hpp"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/complaints.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/open_connections.h"
#include "lockstep/platform/runtime/peer_gate.h"
#include "lockstep/platform/runtime/peer_owner.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::runtime {

// Limits, and what those are told who are sent away.
struct AcceptorOptions {
  // Connections at a time; further ones are accepted and closed: `connections_max`. 0: the owner
  // counts them itself.
  size_t connections_max = 100'000;
  // Of those, from one address: `connections_per_host_max`. For the host that has run wild; a whole
  // cluster may sit behind one address.
  size_t connections_per_host_max = 20'000;
  // Descriptors that are left to others, but never more than an eighth of what the process may
  // have: a connection that would take one of them is closed. `descriptors_left_min`
  size_t descriptors_left_min = 0;
  // How long to pause when there is no memory (or not even the spare descriptor); what comes
  // meanwhile waits in the kernel's queue.
  absl::Duration pause = absl::Milliseconds(100);
  // Said to a connection that is refused because there are no file descriptors.
  std::string goodbye;
  // Asked before that: ends a connection that can be spared, and says whether there was one.
  std::function<bool()> make_room = nullptr;
  // Whose connections are taken at an address of the loopback interface; others are closed.
  AllowedPeers allowed = {};
  // Said to those others.
  std::string goodbye_to_strangers = {};
};

// One descriptor is kept spare, so that without any other the newest connection can still be taken
// and refused instead of waiting, with all those behind it, for a server that seems dead.
//
// Threads: loop-confined, but `Listen` and the destructor may also be called while the loop does
// not run. Destroying it closes the listening socket, not the connections.
class Acceptor {
 public:
  // Takes over a connected socket: non-blocking, close-on-exec, options set.
  using TakeConnection = absl::AnyInvocable<void(int fd)>;

  // `complain` gets a line for the log when connections are refused or cannot be taken.
  Acceptor(Loop& loop, AcceptorOptions options, TakeConnection take, Complain complain);
  ~Acceptor();

  // Binds and listens, but does not accept yet. An error names the address and what to do.
  absl::Status Listen(const Address& at);
  // Where it listens: with the port that was chosen for port 0. After `Listen`.
  asio::ip::tcp::endpoint address() const { return address_; }

  // Accepts from now on.
  void Start();
  // Accepts no more and closes the listening socket, for good.
  void Stop();

  // Of those that were handed over, how many are still open.
  size_t CountOpenConnections() { return open_.Count(); }

 private:
  void AwaitConnections();
  // Those that wait, up to a number: others on the loop wait, too.
  void AcceptWaiting();
  bool SomebodyWaits();
  void HandOver(UniqueFd socket, const asio::ip::address& host);
  // A stranger is told so.
  bool MayCall(int socket);
  // Whether to go on at once.
  bool OutOfDescriptors(const asio::error_code& error);
  bool RefuseWithSpare();
  void PauseAfter(const asio::error_code& error);

  Loop& loop_;
  const AcceptorOptions options_;
  TakeConnection take_;
  Complaints complaints_;
  asio::ip::tcp::acceptor acceptor_;
  Timer resume_;
  asio::ip::tcp::endpoint address_;
  PeerGate gate_;
  UniqueFd spare_;  // a descriptor of nothing
  OpenConnections open_;
  // What Asio has queued outlives us; it looks here first.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lockstep::runtime
