// The stores of one job as a server runs them: one for torch's clients in each attempt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/events.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/server/counters.h"
#include "lockstep/server/store_journal.h"
#include "lockstep/server/store_log.h"
#include "lockstep/server/store_space.h"
#include "lockstep/stock/tcpstore/attempts.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/lifetime.h"
#include "lockstep/stock/tcpstore/listener/torch_store_listener.h"
#include "lockstep/stock/tcpstore/options.h"
#include "lockstep/stock/tcpstore/records.h"
#include "lockstep/stock/tcpstore/view.h"

namespace lockstep::server {

// Of StoreHostOptions::rest.
inline constexpr absl::Duration kTorchStoreRestMax = absl::Hours(24);

struct StoreHostOptions {
  // No job has a store.
  bool none = false;
  // With nobody connected, before a store's keys may be forgotten for a new run that no launcher
  // started (tcpstore::Lifetime); kTorchStoreRestMax at most.
  absl::Duration rest = absl::Seconds(10);
  // `keeps`: what is in them is in the server's journal.
  tcpstore::StoreOptions store;
  // Where the port of a kept store cannot be had, another one will do: its clients have agents.
  bool moves = false;
  net::TorchStoreListenerOptions listener;
};

// Feeds the store of the current attempt what its clients ask, and sends what it answers. An
// attempt begins when somebody asks for it: a fresh store on a port of its own, and the connections
// of the one before are closed, so that a process which outlived its attempt reaches nothing of the
// next.
//
// A store's keys live as long as anybody of its attempt may come for them, as tcpstore::Lifetime
// decides: that everybody has left is not the attempt's end.
//
// Which attempts there were is in the journal of a server that has one, so that no number is given
// to two stores. Where the stores keep, their keys are there, too: then the same store goes on at
// its port after a restart, and nobody is answered before what the answer tells of is durable.
// Else the store is over with the server, and if anybody knew of it, the next attempt begins.
//
// Threads: loop-confined, but everything may be called while the loop does not run. Bounds: those
// of StoreSpace and StoreLog.
class StoreHost {
 public:
  using Tellers = StoreLog::Tellers;
  // As PassedTorchCommands::Events::answer.
  using Answer = std::function<void(CallId, absl::StatusOr<tcpstore::ValuePtr>)>;

  // `commits` and `memory` outlive it.
  StoreHost(runtime::Loop& loop, const StoreHostOptions& options, CommitQueue& commits,
            std::string job, int32_t ranks, Tellers tell, runtime::MemoryAccount* memory = nullptr,
            Answer answer = nullptr);

  // What the journal had of it, in order, before `Listen`. An error: the record cannot follow those
  // before it.
  absl::Status Apply(const tcpstore::Record& record);
  // Takes a port of `host` for the first attempt; the later ones have theirs there, too. An error:
  // there is none, or not the one that the clients of a restored store know.
  absl::Status Listen(const std::string& host);
  // After `Listen`, once the job is in the journal: what has to be written down at once, is.
  void Keep();
  // From which it is made again.
  std::vector<tcpstore::Record> Snapshot() const;
  // Nothing is written down any more: the job is being deleted.
  void Forget() { journal_.Forget(); }
  // After `Listen`. Connections are taken from now on.
  void Start();

  // Begins the attempt, unless it is the current one; 0: gives the current one.
  // FAILED_PRECONDITION (`attempt_over`): a later one has begun. INVALID_ARGUMENT: it is too far
  // ahead of the current one and of the job's, `of_job`. Otherwise an error: there is no port.
  absl::Status Open(int64_t attempt, int64_t of_job = 0);

  // The store with its way in for agents; null: there is none, or it has not started.
  StoreSpace* space() { return started_ ? space_.get() : nullptr; }

  // What launchers tell of the processes of the current attempt, or of how many there will be.
  void Note(const coord::Event& event);

  // Closes the connections, and takes no more.
  void Stop();

  int64_t attempt() const { return attempts_.current(); }
  // HOST:PORT; empty: there is none.
  std::string address() const;
  size_t connections() const { return space_ ? space_->store().connections() : 0; }
  // Empty where the job has no store.
  tcpstore::StoreView View() const;
  const TorchCommandCounts& commands() const { return commands_; }

 private:
  std::unique_ptr<StoreSpace> MakeSpace();
  // At any port but this.
  absl::StatusOr<std::unique_ptr<StoreSpace>> MakeSpaceNotAt(uint16_t port);
  absl::Status ListenAgain(uint16_t port);
  void Connected(tcpstore::ConnectionId connection, std::string peer);
  void Command(tcpstore::ConnectionId from, const tcpstore::Command& command);
  void Cancelled(tcpstore::ConnectionId connection);
  void Left(tcpstore::ConnectionId connection, tcpstore::Effects& effects);
  // All keys, because of this.
  void ForgetKeys(const std::string& because, tcpstore::Effects& out);
  // What has to be forgotten before the command is carried out.
  void ForgetFirst(tcpstore::ConnectionId from, const tcpstore::Command& command,
                   tcpstore::Effects& out);
  void ForgetIfOver(bool over);

  runtime::Loop& loop_;
  const StoreHostOptions& options_;
  StoreJournal journal_;
  StoreLog log_;
  runtime::MemoryShare share_;
  std::string host_;
  std::unique_ptr<StoreSpace> space_;  // null: the job has no store
  tcpstore::Attempts attempts_;
  tcpstore::Lifetime lifetime_;
  const Answer answer_;
  bool started_ = false;
  TorchCommandCounts commands_ = {};
};

// The answer to who asks for an attempt of these stores that is not the current one.
absl::Status AttemptOver(int64_t attempt, const StoreHost& stores);

}  // namespace lockstep::server
