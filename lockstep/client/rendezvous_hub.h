// The shell around a RendezvousMachine: its streams to other members, its clock, its callers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "asio/posix/stream_descriptor.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/client/call.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/client/member.h"
#include "lockstep/client/rendezvous.h"
#include "lockstep/client/rendezvous_bulk.h"
#include "lockstep/client/rendezvous_look.h"
#include "lockstep/platform/runtime/poller.h"
#include "lockstep/rendezvous/rendezvous_machine.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/connector.h"
#include "lockstep/wire/native/rendezvous_codec.h"

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
  using Done = absl::AnyInvocable<void(absl::StatusOr<rendezvous::Completed>)>;
  class Caller : public LoopDriver::Waiter {
   public:
    using Waiter::Waiter;
    rendezvous::Completed completed;
  };
  // Of an operation: a caller who waits, or a callback.
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
  // Where a value lies whose bytes did not come along.
  struct RemotePlace {
    transport::Place place;
    std::shared_ptr<transport::Stream> stream;
  };
  // From a lost member that may live: its memory is not used again before it has done with it.
  struct Parting {
    std::function<bool()> done;
    std::vector<rendezvous::Value> lent;
  };
  struct Peer {
    uint64_t incarnation = 0;  // the newest that is known; 0: none
    std::shared_ptr<transport::Stream> stream;
    std::string why_not_shared;  // memory; empty when it is, and until there is a stream
    bool reads_memory = false;   // of its process, for long values
    std::string why_not_read;    // after it was tried
    bool lost = false;
    bool connecting = false;
    std::vector<rendezvous::PeerMessage> queue;  // until there is a stream
  };

  RendezvousHub(Member& member, const RendezvousOptions& options, std::vector<std::string> names);
  static std::string CardKey(MemberIndex member);
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
  Pending StartAsync(const Act& act, Done done);
  bool MayShareMemoryWith(MemberIndex member);
  // Checks it, and puts it where its receiver can see it.
  absl::Status Prepare(int32_t to, rendezvous::Value& value);
  // On a thread of the library. `callbacks_` was counted up before; `Close` waits for it.
  void CallBack(absl::AnyInvocable<void()> function);
  absl::StatusOr<Received> ToReceived(rendezvous::Completed completed);

  // With the mutex held.
  void Carry(rendezvous::Effects& effects);
  void Route(MemberIndex to, rendezvous::PeerMessage message);
  static std::string TransportOf(const Peer& peer);
  wire::native::Placed PlaceOf(Peer& peer, const rendezvous::Value& value);
  void SendOver(Peer& peer, const rendezvous::PeerMessage& message);
  static void PlaceOffer(Peer& peer, const wire::native::ArenaPlace& place,
                         rendezvous::Offer& offer);
  void TakeMessage(MemberIndex from, const std::string& bytes);
  // Completes `op` when a receive took it, or with why it could not be sent.
  void SendAcked(rendezvous::Post post, OpId op, Time deadline, rendezvous::Effects& effects);
  void LosePeer(MemberIndex member, rendezvous::ErrorPtr why);
  // With `closed_error_`. What others may look at is not used again.
  void CloseMachine(rendezvous::Effects& effects);
  // A newer incarnation than the one that is known takes its place.
  void ComesBack(MemberIndex member, uint64_t incarnation);
  const std::string& NameOf(MemberIndex member) const;
  // Without it.
  absl::Status ToStatus(const rendezvous::ErrorPtr& error);
  void Settle(After after, bool on_loop);
  void ArmTimer();

  // On the bulk loop.
  std::optional<rendezvous::Value> Lent(MemberIndex member, rendezvous::LeaseId lease);
  void ReadsMemory(MemberIndex member, std::string why_not);
  void Fetched(OpId op, rendezvous::MemoryPtr memory, const rendezvous::ErrorPtr& error);

  RendezvousBulk::Events BulkEvents();
  transport::Connector::Events ConnectorEvents();
  transport::Stream::Events EventsOf(MemberIndex member, uint64_t incarnation);
  void FindCard(MemberIndex member, transport::Connector::FoundCard found);
  wire::native::RendezvousReport Report();
  void Connected(MemberIndex member, uint64_t incarnation,
                 std::shared_ptr<transport::Stream> stream, std::string why_not_shared);
  void TellOfRemovedSegments();
  // Of a lost member; `lent`: what it may still look at.
  void Part(const std::shared_ptr<transport::Stream>& stream, std::vector<rendezvous::Value> lent);
  void LookAtPartings();
  void WatchJob();
  void TakeJobChange(absl::StatusOr<JobChange> change);
  void WaitForBell();

  const uint64_t generation_;
  LoopDriver& loop_;
  const Keys keys_;
  const MemberIndex self_;
  const std::vector<std::string> names_;
  const uint64_t inline_bytes_max_;
  const bool shares_memory_;
  const std::unique_ptr<JobWatch> watch_;
  std::unique_ptr<RendezvousLook> look_;  // of the threads that open and close
  bool published_ = false;                // our card
  transport::Arena arena_;
  std::shared_ptr<RendezvousBulk> bulk_;

  Mutex mutex_;  // covers what follows
  rendezvous::RendezvousMachine machine_;
  absl::node_hash_map<OpId, Waiting> waiting_;  // its room goes back when many have waited
  uint64_t last_op_ = 0;
  std::map<MemberIndex, Peer> peers_;
  RendezvousCounters traffic_;           // only what is counted
  std::vector<rendezvous::Value> left_;  // in the arena when the machine was closed
  After after_;
  std::atomic<bool> has_after_ = false;
  rendezvous::ErrorPtr closed_error_;
  absl::Status closed_status_;
  bool closed_ = false;
  std::atomic<int64_t> armed_ns_;
  std::atomic<size_t> callbacks_ = 0;  // due or running

  // The loop's.
  std::shared_ptr<transport::Connector> connector_;
  std::vector<std::shared_ptr<transport::Stream>> streams_;
  std::vector<Parting> partings_;
  asio::steady_timer parting_timer_;
  uint64_t segments_removed_ = 0;  // of the arena's, that the others were told of
  asio::steady_timer timer_;
  asio::posix::stream_descriptor bell_;
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
  Settle(std::move(after), on_loop);
  if (arm) ArmSoon(on_loop);
}

}  // namespace lockstep::client
