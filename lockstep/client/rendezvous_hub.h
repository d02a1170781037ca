// The shell around a RendezvousMachine: its streams to other members, its clock, its callers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/client/bell.h"
#include "lockstep/client/call.h"
#include "lockstep/client/deadline_timer.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/client/member.h"
#include "lockstep/client/polled_streams.h"
#include "lockstep/client/rendezvous.h"
#include "lockstep/client/rendezvous_bulk.h"
#include "lockstep/client/rendezvous_calls.h"
#include "lockstep/client/rendezvous_cards.h"
#include "lockstep/client/rendezvous_departed.h"
#include "lockstep/client/rendezvous_look.h"
#include "lockstep/client/rendezvous_peers.h"
#include "lockstep/client/shared_values.h"
#include "lockstep/platform/runtime/poller.h"
#include "lockstep/rendezvous/rendezvous_machine.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/connector.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::client {

// Callers act on the machine themselves, under the one mutex: what they send goes into the other
// process's memory before they return. Who waits drives the loop of this process meanwhile
// (LoopDriver), which looks into the memory where others write; so a value needs no thread of the
// library on its way while somebody waits for it.
//
// What must not be done with the mutex held (waking, calling back, giving memory back) is put into
// `After`, and done by whoever let go of it.
//
// Threads: thread-safe. Ownership: `Close` before letting go (Rendezvous does).
class RendezvousHub final : public runtime::Poller,
                            public std::enable_shared_from_this<RendezvousHub> {
 public:
  static absl::StatusOr<std::shared_ptr<RendezvousHub>> Start(Member& member,
                                                              const RendezvousOptions& options);
  ~RendezvousHub() override;

  absl::Status OpenStep(int64_t step);
  void CloseStep(int64_t step);
  absl::Status Abort(int64_t step, const absl::Status& why);

  absl::Status Send(int64_t step, std::string_view name, int32_t to, rendezvous::Value value,
                    const SendOptions& options);
  absl::Status SendAcked(int64_t step, std::string_view name, int32_t to, rendezvous::Value value,
                         const CallOptions& options);
  Pending SendAckedAsync(int64_t step, std::string_view name, int32_t to, rendezvous::Value value,
                         const CallOptions& options, Completion<void> done);
  absl::StatusOr<Received> Receive(int64_t step, std::string_view name, int32_t from,
                                   std::optional<std::span<std::byte>> into,
                                   const CallOptions& options);
  Pending ReceiveAsync(int64_t step, std::string_view name, int32_t from,
                       const CallOptions& options, Completion<Received> done);

  absl::StatusOr<std::shared_ptr<transport::Block>> Allocate(uint64_t bytes);
  std::vector<PeerTransport> Transports();
  RendezvousCounters Counters();

  void Close();
  // False in a forked child: nothing here may be touched there.
  bool here() const;

  // Poller, on the loop.
  bool Poll() override;
  bool PrepareToSleep() override;
  void Awake() override;

 private:
  using OpId = rendezvous::OpId;
  using After = RendezvousCalls::After;
  // Why the machine was closed: as it says so, and as callers are told. Null: it was not.
  struct Ending {
    rendezvous::ErrorPtr error;
    absl::Status status;
  };

  RendezvousHub(Member& member, const RendezvousOptions& options, std::vector<std::string> names);
  // 2 of "trainer/4#2"; 0: it was never there.
  static uint64_t IncarnationOf(const std::string& name);
  absl::Status Begin(Member& member, const RendezvousOptions& options);
  // On the loop: from here on others can reach us.
  absl::StatusOr<transport::Card> Listen(transport::Connector::Options options);

  // Does something with the machine, and what follows from it. `on_loop`: the caller drives.
  template <class Act>
  void Do(const Act& act, bool on_loop = false);
  // With the mutex held, for the last time: what is to be done without it, and whether the timer
  // rings too late.
  bool Unlocking(After& after);
  void ArmSoon(bool on_loop);
  template <class Act>
  absl::StatusOr<rendezvous::Completed> Wait(const Act& act, const Interrupted& interrupted,
                                             std::byte* into = nullptr);
  template <class Act>
  Pending StartAsync(const Act& act, RendezvousCalls::Done done);
  // Checks it, and puts it where its receiver can see it.
  absl::Status Prepare(int32_t to, rendezvous::Value& value);
  absl::StatusOr<Received> ToReceived(rendezvous::Completed completed);

  // With the mutex held.
  void Carry(rendezvous::Effects& effects);
  void Route(MemberIndex to, rendezvous::PeerMessage message);
  void TakeMessage(MemberIndex from, const std::string& bytes);
  // Completes `op` when a receive took it, or with why it could not be sent.
  void SendAcked(rendezvous::Post post, OpId op, Time deadline, rendezvous::Effects& effects);
  void LosePeer(MemberIndex member, rendezvous::ErrorPtr why);
  // What others may look at is not used again.
  void CloseMachine(Ending ending, rendezvous::Effects& effects);
  // A newer incarnation than the one that is known takes its place.
  void ComesBack(MemberIndex member, uint64_t incarnation);
  // Without it.
  absl::Status ToStatus(const rendezvous::ErrorPtr& error);
  void ArmTimer();

  // On the bulk loop.
  std::optional<rendezvous::Value> Lent(MemberIndex member, rendezvous::LeaseId lease);
  void ReadsMemory(MemberIndex member, std::string why_not);
  void Fetched(OpId op, rendezvous::MemoryPtr memory, const rendezvous::ErrorPtr& error);

  RendezvousBulk::Events BulkEvents();
  transport::Connector::Events ConnectorEvents();
  transport::Stream::Events EventsOf(MemberIndex member, uint64_t incarnation);
  wire::native::RendezvousReport Report();
  void Connected(MemberIndex member, uint64_t incarnation,
                 std::shared_ptr<transport::Stream> stream, std::string why_not_shared);
  // Of a lost member; `lent`: what it may still look at.
  void Part(const std::shared_ptr<transport::Stream>& stream, std::vector<rendezvous::Value> lent);
  void WatchJob();
  void TakeJobChange(absl::StatusOr<JobChange> change);

  const uint64_t generation_;
  LoopDriver& loop_;
  const MemberIndex self_;
  const std::unique_ptr<JobWatch> watch_;
  std::unique_ptr<RendezvousLook> look_;  // of the threads that open and close
  RendezvousCards cards_;                 // of the threads that open and close, but for `Find`
  SharedValues values_;
  std::shared_ptr<RendezvousBulk> bulk_;

  const std::shared_ptr<RendezvousCalls> calls_;

  Mutex mutex_;  // covers what follows
  rendezvous::RendezvousMachine machine_;
  RendezvousPeers peers_;
  Ending ending_;
  bool closed_ = false;

  // The loop's.
  std::shared_ptr<transport::Connector> connector_;
  PolledStreams streams_;
  DepartedPeers departed_;
  DeadlineTimer timer_;
  Bell bell_;
};

template <class Act>
void RendezvousHub::Do(const Act& act, bool on_loop) {
  After after;
  bool arm = false;
  {
    const MutexLock lock(mutex_);
    rendezvous::Effects effects;
    act(effects);
    Carry(effects);
    arm = Unlocking(after);
  }
  calls_->Settle(std::move(after), on_loop);
  if (arm) ArmSoon(on_loop);
}

}  // namespace lockstep::client
