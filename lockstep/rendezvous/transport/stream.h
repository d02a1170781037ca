// What carries messages between two members. Pure interface.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/peer_arena.h"
#include "lockstep/rendezvous/transport/place.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::transport {

// Messages both ways, once and in order each way, until the other member is lost. With some, the
// other end sees our memory and we see its.
//
// Threads: guarded by one mutex of its owner, with which `Send`, `Share`, `View`, `Close` and
// `connected` are called and with which it calls back; what it does on a loop it does with that
// mutex. `Close` is called on the loop; so are the functions of the poller, without the mutex.
// Bounds: what has been sent and has no room yet is bounded by the owner (credits, quotas).
class Stream {
 public:
  struct Events {
    // May send, but neither close nor destroy the stream.
    std::function<void(std::string& message)> message;
    // Once, and the last call; never from within a method.
    std::function<void(rendezvous::ErrorPtr why)> lost;
  };

  virtual ~Stream() = default;

  // Returns at once and never fails: the message goes out in order, or `lost` is called. Ignored
  // once closed.
  virtual void Send(std::string message) = 0;
  // "shm", "tcp"
  virtual std::string_view transport() const = 0;
  // Whatever was sent goes out, then the other end is told that we go. Calls nobody back any more.
  virtual void Close() = 0;
  // Whether the other end is known to be there at this moment.
  virtual bool connected() const { return true; }

  // Whether the other end can see memory of ours; never changes.
  virtual bool shares_memory() const { return false; }
  // OK: it can see blocks of this segment, from now on.
  virtual absl::Status Share(const Arena& /*arena*/, uint32_t /*segment*/) {
    return absl::FailedPreconditionError("no memory is shared with that member");
  }
  // Tells the other end which of those the arena has given back.
  virtual void Unshare(const Arena& /*arena*/) {}
  // OK, or why this segment of the other end's could not be mapped here: its values are fetched.
  virtual absl::Status CanSee(uint32_t /*segment*/) { return absl::OkStatus(); }
  // Once closed: tells, on any thread, whether the other end has done with our memory. Until then
  // it is left as it is. Outlives the stream.
  virtual std::function<bool()> DoneWithOurs() const {
    return [] { return true; };
  }
  // What the other end says that it put there. Good for as long as it lives, also when the stream
  // was closed meanwhile.
  virtual absl::StatusOr<rendezvous::MemoryPtr> View(const Place& /*place*/,
                                                     PeerArena::OnGone /*on_gone*/) {
    return absl::FailedPreconditionError("no memory is shared with that member");
  }

  // As of runtime::Poller.
  virtual bool Poll() { return false; }
  virtual bool PrepareToSleep() { return true; }
  virtual void Awake() {}
};

}  // namespace lockstep::transport
