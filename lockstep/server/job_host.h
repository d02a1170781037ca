// One job as a server runs it: its coordinator, its door for stock clients and its timer.
#pragma once

#include <deque>
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
#include "lockstep/coord/stack_looks.h"
#include "lockstep/coord/view.h"
#include "lockstep/net/stock_door.h"
#include "lockstep/runtime/address.h"
#include "lockstep/runtime/loop.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/server/counters.h"
#include "lockstep/server/event_feed.h"
#include "lockstep/server/long_answers.h"
#include "lockstep/server/native_door.h"
#include "lockstep/server/rendezvous_totals.h"
#include "lockstep/server/store_host.h"
#include "lockstep/server/writes_awaiting_disk.h"
#include "lockstep/wire/native/stack_question.h"
#include "lockstep/wire/native/status_messages.h"
#include "lockstep/wire/store/entry.h"

namespace lockstep::server {

// Feeds the coordinator what happens and carries out what it wants: the timer at once; replies,
// each at the door that its call came through, and notices (one log line each) when the records
// that came with them, and all before, are durable.
//
// Life: construct, Listen, Start, ... Stop, Shutdown, destroy. Stop and Shutdown are mandatory
// after Start. Threads: the loop's, or while it does not run; except `Shutdown`.
class JobHost final : public NativeJob {
 public:
  // `commits`, `feed`, `counters`, `memory` and `stores` are the server's; they outlive the job.
  JobHost(runtime::Loop& loop, coord::CoordinatorOptions coordinator, CommitQueue& commits,
          NativeDoor& native, EventFeed& feed, Counters& counters, runtime::MemoryAccount& memory,
          const StoreHostOptions& stores, net::StockDoorOptions door = {},
          size_t journal_queue_bytes_max = kNoQueueLimit);
  static constexpr size_t kNoQueueLimit = std::numeric_limits<size_t>::max();

  // Takes the address for stock clients.
  absl::Status Listen(const runtime::Address& at);
  // After `Listen`: takes a port of the same host for torch's clients.
  absl::Status ListenForTorch() { return stores_.Listen(door_.address().address().to_string()); }
  void Start() {
    door_.Start();
    stores_.Start();
  }

  // What the journal had of it, before anything else; then, when all has been given, `Resume`.
  absl::Status Apply(const coord::TimedRecord& record);
  void Resume() { Handle(coord::Restored{}); }

  // From which the job can be made again, but for its records; and those.
  wire::store::Job saved() const;
  std::vector<coord::TimedRecord> Snapshot() const { return coordinator_.Snapshot(); }
  std::vector<tcpstore::Record> TorchSnapshot() const { return stores_.Snapshot(); }
  // Its newest events; those that wait for the journal as well.
  std::vector<wire::native::JobEvent> KeptEvents() const;

  // What others than its coordinator have to tell of it.
  void Tell(const coord::Notice& notice);
  void TellServed(const std::string& text);

  bool Knows(SessionId session) const { return coordinator_.Knows(session); }

  // Called with host and pid of each member that is lost, where they are known: for those beside
  // the job to whom the process matters.
  using MemberLost = std::function<void(const std::string& host, int64_t pid)>;
  void OnMemberLost(MemberLost function) { on_member_lost_ = std::move(function); }

  // What comes in at the doors, and what a launcher reports.
  void Handle(coord::Event event) override;

  // Without the members, of which there may be many: they are looked at one by one.
  coord::CoordinatorView Summary(Time now) const { return coordinator_.Summary(now); }
  coord::MemberView MemberAt(Time now, MemberIndex member);
  int64_t attempt() const { return coordinator_.attempt(); }
  const std::string& name() const { return name_; }
  const coord::CoordinatorOptions& options() const { return coordinator_.options(); }
  int32_t size() const { return options().size; }
  std::string grpc_address() const;
  StoreHost& stores() { return stores_; }
  const StoreHost& stores() const { return stores_; }

  // Where its processes are in their code, asked of launchers when something timed out: the last.
  std::optional<wire::native::StacksTaken> LastStacks(Time now) const;

  // Members that are in the current attempt and have not left it.
  size_t CountConnected() const;
  // Adds the next keys that tell of a rendezvous to `keys`; `after` is where it goes on. Returns
  // whether there are more.
  bool CountRendezvous(RendezvousTotalsOfKeys& keys, std::string& after) const;
  size_t CountStockConnections() { return door_.CountConnections(); }

  // Whether it is deleted after a rest, and when somebody was seen to use it.
  bool temporary() const { return temporary_; }
  void set_temporary(bool temporary) { temporary_ = temporary; }
  // Whether a former life of the server made it.
  bool restored() const { return restored_; }
  void set_restored(bool restored) { restored_ = restored; }
  Time last_used() const { return last_used_; }
  void set_last_used(Time at) { last_used_ = at; }

  // Answers every wait; refuses what comes later. That the server ends is no part of the job's
  // story: from here on nothing is kept.
  void Stop();
  // Nothing is kept any more: the job is being deleted.
  void Forget() {
    keeps_ = false;
    stores_.Forget();
  }
  // Lets the answers go out, then ends the connections. Blocks for seconds, while the loop must
  // run: so not on the loop.
  void Shutdown();
  bool shutdown_blocks() const { return door_.anyone_came(); }

 private:
  using Events = std::vector<wire::native::JobEvent>;

  // Gives the event to the machine and carries out what it says.
  void Take(coord::Event event, coord::NoRoom no_room);
  // Why what makes the job hold more is refused, for this event.
  coord::NoRoom RoomFor(const coord::Event& event);
  void CountMemory();
  void TellOfLoss(const coord::record::MemberChanged& changed) const;
  // Answers a sign of life, which tells of nothing that the disk has to have first.
  void AnswerAlive(coord::Effects& effects, CallId call);

  // Carries out now what needs not wait; the events go with the records that brought them about.
  void Settle(coord::Effects effects, Events events);
  CommitQueue::Release Later(coord::Effects effects, Events events);
  void CarryOut(coord::Effects& effects, const Events& events);
  void Refuse(const coord::Effects& effects);
  void ArmTimer();
  // Asks the launchers of the job, soon, where its processes are: something has timed out.
  // `awaited`: members whom others waited for, as far as that is known.
  void AskForStacks(std::string because, std::vector<int32_t> awaited);
  // A launcher asks for them since a process does not move.
  void NoteStacks(const coord::Event& event);
  std::vector<int32_t> MembersNamed(const std::string& names) const;

  // An answer of many members takes many turns; listing the hosts once for each would be too dear.
  static constexpr absl::Duration kHostsHeardKept = absl::Seconds(1);

  const std::string name_;
  coord::Coordinator coordinator_;
  CommitQueue& commits_;
  NativeDoor& native_;
  EventFeed& feed_;
  Counters& counters_;
  net::StockDoor door_;
  StoreHost stores_;
  // Gone with the job, for what is still held then.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  runtime::MemoryAccount& memory_;
  runtime::MemoryShare key_share_;
  runtime::MemoryShare share_;
  WritesAwaitingDisk delayed_;
  LongAnswers long_answers_;
  coord::StackLooks stack_looks_{{.kept = wire::native::kStacksOfTimeoutLive}};
  runtime::Loop& loop_;
  runtime::Timer timer_;
  Time armed_for_ = Time::Infinite();
  bool keeps_ = true;
  bool temporary_ = false;
  MemberLost on_member_lost_;
  bool restored_ = false;
  std::deque<wire::native::JobEvent> untold_;  // they wait for the journal
  Time last_used_;
  std::optional<coord::HostsHeard> hosts_heard_;
  Time hosts_heard_at_;
};

}  // namespace lockstep::server
