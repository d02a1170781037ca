// One end of a tunnel: a local connection whose other end is at the other end of a link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/platform/link/frame.h"
#include "lockstep/platform/link/tunnel_flow.h"
#include "lockstep/platform/runtime/memory_account.h"

namespace lockstep::link {

// What goes through a tunnel must look to both connections as if they were one: bytes in order, the
// end of each direction, and a break.
//
// Threads: loop-confined (to the socket's). Ownership: owns the socket; alive while an operation is
// pending or somebody holds it; calls its owner until it is over or abandoned. Bounds: TunnelFlow.
class Tunnel : public std::enable_shared_from_this<Tunnel> {
 public:
  struct Events {
    // A frame for the other end.
    std::function<void(Message)> send;
    // Once, perhaps from within `Take`: both directions have ended, or the connection broke.
    std::function<void()> over;
  };

  // `id`: of its frames. `memory`: whose account it is in; outlives it. Null: in none.
  static std::shared_ptr<Tunnel> Start(asio::ip::tcp::socket socket, uint64_t id, Events events,
                                       runtime::MemoryAccount* memory = nullptr);
  ~Tunnel();
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;

  // A frame from the other end. INVALID_ARGUMENT: it breaks the rules; the link cannot be trusted.
  absl::Status Take(Message frame);

  // The link has gone: calls nobody any more. To be followed by `Abandon`.
  void Detach() { events_ = {}; }
  // As `Detach`, and breaks the local connection, which takes the kernel a while.
  void Abandon();

 private:
  Tunnel(asio::ip::tcp::socket socket, uint64_t id, Events events, runtime::MemoryAccount* memory);

  void AwaitBytes();
  void Keep(std::string bytes);
  void ReadSome();
  void WriteNext();
  void Written(size_t bytes);
  void Send(FrameType type, uint32_t kind, std::string payload = {});
  // The local connection broke: the other end is told.
  void Break();
  void EndIfOver();
  // Tells the account what is held.
  void Count();

  asio::ip::tcp::socket socket_;
  const uint64_t id_;
  Events events_;  // empty once it is over
  TunnelFlow flow_;
  runtime::MemoryShare share_;
  bool reading_ = false;
  std::deque<std::string> unwritten_;  // the first is being written
};

}  // namespace lockstep::link
