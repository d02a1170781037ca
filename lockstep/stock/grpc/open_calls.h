// The calls of stock clients that wait for their answers.
#pragma once

#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/stock/grpc/registered_connections.h"
#include "lockstep/stock/wire/answer_cache.h"

namespace lockstep::net {

class StockCall;

// Finishes each call exactly once: whoever takes a call out of the table finishes it. Knows which
// attempt each connection registered with, and so which attempt a call is about whose request does
// not say.
//
// Threads: loop-confined. Bounds: the inbox's `calls_max`; `connections_max` for registrations.
class OpenCalls {
 public:
  explicit OpenCalls(size_t connections_max) : registered_(connections_max) {}

  // A call has come, and waits from now on. `event`, its request, gets the attempt that it is
  // about; `current` if neither the request nor its connection says one.
  void Began(CallId id, StockCall& call, ServiceIncarnation current, coord::Event& event);
  // Its caller is gone: nothing is sent. Does nothing once it was answered.
  void Left(CallId id);
  // Finishes the call. Dropped: the answer to one that has left.
  void Answer(const coord::Reply& reply);

  // A new connection has this name, which another one before may have had.
  void Connected(const std::string& peer) { registered_.Forget(peer); }

  size_t size() const { return open_.size(); }

 private:
  // Takes it out of the table. Null: it was answered, or has left.
  StockCall* Take(CallId id);

  absl::flat_hash_map<CallId, StockCall*> open_;
  wire::stock::AnswerCache answers_;
  RegisteredConnections registered_;
};

}  // namespace lockstep::net
