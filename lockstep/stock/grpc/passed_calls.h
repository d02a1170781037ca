// Calls of stock clients that come without gRPC: an agent received them and forwards their bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/options.h"
#include "lockstep/stock/grpc/registered_connections.h"
#include "lockstep/stock/wire/answer_cache.h"
#include "lockstep/stock/wire/family.h"

namespace lockstep::net {

// Reads the calls of one job, and encodes their answers. As OpenCalls does for calls that come by
// gRPC, it knows which attempt a client registered with.
//
// Threads: thread-compatible. Bounds: calls, those of who passes them on; `connections_max`.
class PassedCalls {
 public:
  struct Call {
    std::string_view method;  // "/xla.coordination.CoordinationService/Heartbeat"
    std::string_view bytes;   // of the message
    Time deadline = Time::Infinite();
    std::string peer;        // where it comes from, for people
    std::string connection;  // the client's, by a unique name
  };
  using Answer = std::variant<wire::stock::EncodedAnswer, wire::stock::EncodedError>;

  PassedCalls(const std::vector<coord::RoleOptions>& roles, size_t connections_max);

  // The event that the call means, which waits from now on; or why it means none: UNIMPLEMENTED
  // (no such method), or as Family::Decode. `current`: the job's attempt.
  std::variant<coord::Event, wire::stock::EncodedError> Begin(CallId id, const Call& call,
                                                              ServiceIncarnation current);
  // Of a call that waits; it does not any more.
  Answer End(const coord::Reply& reply);
  // The same, without an answer.
  void Left(CallId id) { open_.erase(id); }

 private:
  struct Open {
    const wire::stock::Family* family = nullptr;
    size_t method = 0;
    std::unique_ptr<wire::stock::Asked> asked;
  };

  // Of its `path`; null family: there is no such method.
  Open Find(std::string_view path) const;

  const std::vector<std::unique_ptr<wire::stock::Family>> families_;
  absl::flat_hash_map<CallId, Open> open_;
  wire::stock::AnswerCache answers_;
  RegisteredConnections registered_;
};

}  // namespace lockstep::net
