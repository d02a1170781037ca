// The keys of one attempt of a job, and the port where torch's clients have them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/server/passed_torch_commands.h"
#include "lockstep/server/store_journal.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/effects.h"
#include "lockstep/stock/tcpstore/listener/torch_store_listener.h"
#include "lockstep/stock/tcpstore/options.h"
#include "lockstep/stock/tcpstore/store.h"

namespace lockstep::server {

// Carries out what the store says, in order. What tells of a change leaves once that is durable,
// and so does what follows it, since it may tell of the same.
//
// Threads: loop-confined, but everything may be called while the loop does not run. Bounds: of what
// waits for the journal, `kHeldMax` and `kHeldBytesMax`; then no more commands are taken.
class StoreSpace {
 public:
  // Effects that wait for the journal, and bytes of their records and answers.
  static constexpr size_t kHeldMax = 4096;
  static constexpr size_t kHeldBytesMax = size_t{16} << 20;

  // What the listener and the agents tell; called on the loop.
  struct Events {
    std::function<void(tcpstore::ConnectionId, std::string peer)> connected;
    std::function<void(tcpstore::ConnectionId, const tcpstore::Command&)> command;
    // See PassedTorchCommands.
    std::function<void(tcpstore::ConnectionId)> cancelled;
    // `out`: what the store says of it comes behind this, and all of it is to be settled.
    std::function<void(tcpstore::ConnectionId, tcpstore::Effects& out)> left;
    std::function<void(std::string)> complain;
    std::function<void(CallId, absl::StatusOr<tcpstore::ValuePtr>)> answer;
  };

  // All of these outlive it. What it holds is in `share`, which no other space uses at the time.
  StoreSpace(runtime::Loop& loop, const tcpstore::StoreOptions& options,
             const net::TorchStoreListenerOptions& listener, StoreJournal& journal,
             runtime::MemoryShare& share, Events events);

  tcpstore::Store& store() { return store_; }
  const tcpstore::Store& store() const { return store_; }
  net::TorchStoreListener& listener() { return listener_; }
  const net::TorchStoreListener& listener() const { return listener_; }

  PassedTorchCommands& passed() { return passed_; }
  const PassedTorchCommands& passed() const { return passed_; }

  // Effects without content, whose memory is used again by each command.
  tcpstore::Effects& NoEffects();
  // Feeds the store what a client asks. What it says is in `out`, to be settled.
  void Handle(Time now, tcpstore::ConnectionId from, const tcpstore::Command& command,
              tcpstore::Effects& out);
  // It has gone. What the store says is in `out`, likewise.
  void Left(tcpstore::ConnectionId connection, tcpstore::Effects& out);
  // Carries out what the store said: at once, or when what it tells of is durable. Tells the
  // account what is held, frees what was forgotten, and makes the lists that were asked for, in as
  // many turns as that takes.
  void Settle(tcpstore::Effects& effects);
  // The agent's session is over: ends its connections, in as many turns as that takes.
  void AgentGone(SessionId agent);
  // The store is over: forgets its keys. Commands that agents passed on are answered with `why`;
  // others are not.
  void Discard(const absl::Status& why);
  // Tells the account what is held.
  void Count();

 private:
  void CarryOut(const tcpstore::Effects& effects);
  void Hold(tcpstore::Effects& effects);
  void LetGo(const tcpstore::Effects& effects, size_t bytes, bool durable);
  void FreeGone();
  void MakeLists();
  // A slice of a list; false: no list is asked for any more.
  bool ListSome();
  // Why a client may not have so many bytes more for a long request; empty: it may.
  std::string LimitOf(size_t bytes) const;

  runtime::Loop& loop_;
  const size_t bytes_max_;
  StoreJournal& journal_;
  runtime::MemoryShare& share_;
  tcpstore::Store store_;
  tcpstore::Effects effects_;
  // What waits for the journal.
  struct {
    size_t count = 0;
    size_t bytes = 0;
    bool paused = false;
  } held_;
  bool lists_ = false;  // `ListSome` is called in turns
  // Gone with the space, for what is still held then.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  net::TorchStoreListener listener_;
  PassedTorchCommands passed_;
};

}  // namespace lockstep::server
