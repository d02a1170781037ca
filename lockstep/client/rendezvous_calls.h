// The program's calls that wait for the rendezvous machine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "lockstep/client/client_shell.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/rendezvous/effects.h"

namespace lockstep::client {

// Each call has an operation, from `Await` until `Take` is given its end; then whoever waits is
// woken, or the callback is called, and never with the owner's mutex: what must wait for that
// (waking, calling back, giving memory back) gathers as `After`.
//
// Threads: as each method says. Callbacks are the ClientShell's, which waits for them.
class RendezvousCalls {
 public:
  using OpId = rendezvous::OpId;
  using Done = absl::AnyInvocable<void(absl::StatusOr<rendezvous::Completed>)>;
  class Caller : public LoopDriver::Waiter {
   public:
    using Waiter::Waiter;
    rendezvous::Completed completed;
  };
  // A caller who waits, or a callback.
  struct Waiting {
    std::shared_ptr<Caller> caller;
    Done done;
    std::byte* into = nullptr;           // where fetched bytes go
    rendezvous::MemoryPtr fetched = {};  // where they went, if that is null
  };
  struct After {
    std::vector<std::pair<Waiting, rendezvous::Completed>> completed;
    std::vector<rendezvous::Value> dropped;
    bool empty() const { return completed.empty() && dropped.empty(); }
  };

  explicit RendezvousCalls(ClientShell& client) : client_(client) {}

  // --- With the owner's mutex ---

  // Never one that was given before.
  OpId NewOp() { return OpId(++last_op_); }
  // Before the machine can complete the operation: an operation without a waiter is dropped.
  void Await(OpId op, Waiting waiting) { waiting_[op] = std::move(waiting); }
  // Null: to memory that is made for them.
  std::byte* WhereBytesGo(OpId op) const;
  // Where they went, if not there.
  void SetFetched(OpId op, rendezvous::MemoryPtr memory);
  // What the machine completed and dropped.
  void Take(rendezvous::Effects& effects);
  // What gathered since the last time, for `Settle` once the mutex is let go.
  After TakeAfter();

  // --- Without it ---

  bool has_after() const { return has_after_; }
  // `on_loop`: the caller drives it.
  void Settle(After&& after, bool on_loop);

 private:
  ClientShell& client_;
  absl::node_hash_map<OpId, Waiting> waiting_;  // its room goes back when many have waited
  uint64_t last_op_ = 0;
  After after_;
  std::atomic<bool> has_after_ = false;
};

}  // namespace lockstep::client
