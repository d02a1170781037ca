// One job as a server runs it: its coordinator, its listener for stock clients and its timer.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/coordinator.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/view.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/server/counters.h"
#include "lockstep/server/deadline_timer.h"
#include "lockstep/server/event_feed.h"
#include "lockstep/server/job_memory.h"
#include "lockstep/server/job_outlet.h"
#include "lockstep/server/member_views.h"
#include "lockstep/server/native_listener.h"
#include "lockstep/server/passed_stock_calls.h"
#include "lockstep/server/stack_questions.h"
#include "lockstep/server/store_agents.h"
#include "lockstep/server/store_host.h"
#include "lockstep/server/writes_awaiting_disk.h"
#include "lockstep/stock/grpc/stock_listener.h"
#include "lockstep/wire/native/status_messages.h"
#include "lockstep/wire/store/entry.h"

namespace lockstep::server {

// How a job came about, and when somebody was seen to use it.
struct JobLife {
  bool temporary = false;  // it is deleted after a rest
  bool restored = false;   // a former life of the server made it
  Time last_used;
};

// Feeds the coordinator what happens and carries out what it wants: the timer at once, the rest
// through its JobOutlet.
//
// Owns the coordinator, the listener and the stores of one job. Bounds: the coordinator's, the
// listeners' and journal_queue_bytes_max.
//
// Life: construct, Listen, Start, ... Stop, Shutdown, destroy. Stop and Shutdown are mandatory
// after Start. Threads: the loop's, or while it does not run; except `Shutdown`.
class JobHost final : public NativeJob {
 public:
  // `commits`, `feed`, `counters`, `memory` and `stores` are the server's; they outlive the job.
  JobHost(runtime::Loop& loop, coord::CoordinatorOptions coordinator, CommitQueue& commits,
          NativeListener& native, EventFeed& feed, Counters& counters,
          runtime::MemoryAccount& memory, const StoreHostOptions& stores,
          net::StockListenerOptions listener = {}, size_t journal_queue_bytes_max = kNoQueueLimit);
  static constexpr size_t kNoQueueLimit = std::numeric_limits<size_t>::max();

  // Takes the address for stock clients; an error names it.
  absl::Status Listen(const runtime::Address& at);
  // After `Listen`: takes a port of the same host for torch's clients. An error: there is none, or
  // not the one that its clients know.
  absl::Status ListenForTorch() {
    return stores_.host.Listen(stock_.listener.address().address().to_string());
  }
  // After `Listen`: connections are taken from now on.
  void Start() {
    stock_.listener.Start();
    stores_.host.Start();
  }

  // What the journal had of it, before anything else; then, when all has been given,
  // coord::Restored is to be handled. An error: the record cannot follow those before it.
  absl::Status Apply(const coord::TimedRecord& record) {
    return coordinator_.Apply(record.at, record.record);
  }

  // From which the job can be made again, but for its records.
  wire::store::Job saved() const;

  // What the job says, also what others have to tell of it.
  JobOutlet& outlet() { return outlet_; }
  const JobOutlet& outlet() const { return outlet_; }

  // What comes in at the listeners, and what a launcher reports.
  void Handle(coord::Event event) override;

  // To look at.
  const coord::Coordinator& coordinator() const { return coordinator_; }
  MemberViews& members() { return members_; }
  const std::string& name() const { return options().job; }
  const coord::CoordinatorOptions& options() const { return coordinator_.options(); }
  int32_t size() const { return options().size; }
  // HOST:PORT for stock clients.
  std::string grpc_address() const;
  StoreHost& stores() { return stores_.host; }
  const StoreHost& stores() const { return stores_.host; }

  // Where its processes are in their code, asked of launchers when something timed out: the last.
  std::optional<wire::native::StacksTaken> LastStacks(Time now) const {
    return stack_questions_.Last(now);
  }

  // Of JAX and TensorFlow, open now.
  size_t CountStockConnections() { return stock_.listener.CountConnections(); }

  JobLife& life() { return life_; }

  // Answers every wait; refuses what comes later. That the server ends is no part of the job's
  // story: from here on nothing is kept.
  void Stop();
  // Nothing is kept any more: the job is being deleted.
  void Forget() {
    outlet_.Forget();
    stores_.host.Forget();
  }
  // Lets the answers go out, then ends the connections. Blocks for seconds, while the loop must
  // run: so not on the loop.
  void Shutdown();
  // A stock client was here: `Shutdown` waits for gRPC, and is not for the loop.
  bool shutdown_blocks() const { return stock_.listener.anyone_came(); }

 private:
  // Gives the event to the machine and carries out what it says.
  void Take(coord::Event&& event, const coord::NoRoom& no_room);
  // Asks the launchers of the job, soon, where its processes are, if that is worth it.
  void AskForStacks(StackQuestions::Cause cause);
  StoreHost::Tellers TellersOfStores();
  StackQuestions::Job AskedOfJob() const;

  coord::Coordinator coordinator_;
  Counters& counters_;
  // How stock clients reach the job: by gRPC, or through the agents of their hosts.
  struct {
    net::StockListener listener;
    PassedStockCalls passed_on;
  } stock_;
  // Torch's stores, and the way to them through agents.
  struct {
    StoreHost host;
    StoreAgents agents;
  } stores_;
  JobMemory memory_;
  JobOutlet outlet_;
  WritesAwaitingDisk delayed_;
  StackQuestions stack_questions_;
  runtime::Loop& loop_;
  DeadlineTimer timer_;
  JobLife life_;
  MemberViews members_;
};

}  // namespace lockstep::server
