// The network of a rendezvous: how this process reaches the other members, and what comes from
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/mutex.h"
#include "lockstep/client/bell.h"
#include "lockstep/client/call.h"
#include "lockstep/client/keys.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/client/member.h"
#include "lockstep/client/polled_streams.h"
#include "lockstep/client/rendezvous_bulk.h"
#include "lockstep/client/rendezvous_cards.h"
#include "lockstep/client/rendezvous_departed.h"
#include "lockstep/client/rendezvous_peers.h"
#include "lockstep/rendezvous/effects.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/connector.h"
#include "lockstep/rendezvous/transport/stream.h"

namespace lockstep::client {

// Brings messages of the rendezvous machine over streams, and long values from where they lie.
// Decides which incarnation of a member is listened to, and when a member is lost: for good, unless
// a newer incarnation comes.
//
// A member of its owner, which `self` of `Listen` holds; what is posted and called back holds the
// owner, too. Streams and `peers` are guarded by `mutex`, which is the owner's.
//
// Threads: as each method says. Ownership: `Close` and `CloseBulk` before letting go. Bounds: one
// entry a member, and what its parts say.
class RendezvousNetwork {
 public:
  // What its owner does about it.
  class Events {
   public:
    virtual ~Events() = default;

    // --- With the mutex ---

    // Only from the newest incarnation of a member that is not lost.
    virtual void Take(MemberIndex from, rendezvous::PeerMessage message) = 0;
    // That member is lost. `sees_memory`: it may live, and look at what was lent to it; returns
    // that then, for it is to stay as it is.
    virtual std::vector<rendezvous::Value> Lose(MemberIndex member, rendezvous::ErrorPtr why,
                                                bool sees_memory) = 0;
    // It is there again, as another process.
    virtual void ComesBack(MemberIndex member) = 0;

    // --- Without it, on the bulk loop ---

    // Nullopt: that member has no such lease.
    virtual std::optional<rendezvous::Value> Lent(MemberIndex member,
                                                  rendezvous::LeaseId lease) = 0;
    // `memory`: where the bytes are; null when that was said before.
    virtual void Fetched(rendezvous::OpId op, rendezvous::MemoryPtr memory,
                         rendezvous::ErrorPtr error) = 0;
  };

  // `names`: of all members, by index. `inline_bytes_max`: as the machine's.
  RendezvousNetwork(LoopDriver& loop, Mutex& mutex, transport::Arena& arena, MemberIndex self,
                    std::vector<std::string> names, uint64_t inline_bytes_max, Keys keys,
                    Events& events);

  // On the loop: from here on others can reach us, once `Publish` said where. UNAVAILABLE and the
  // like: there is no address or descriptor for it.
  absl::Status Listen(const std::shared_ptr<RendezvousNetwork>& self,
                      transport::Connector::Options options);
  // As RendezvousCards.
  absl::Status Publish(absl::Duration timeout, const Interrupted& interrupted);
  // Of the thread that closes; does not wait for the server.
  void Withdraw() { cards_.Withdraw(); }
  // On the loop: reaches nobody any more, and is not reached.
  void Close();
  // Returns when nothing is written to anybody's memory any more. Without the mutex.
  void CloseBulk();
  // Such as in what gives a value's memory back.
  bool InBulkLoop() const { return bulk_ != nullptr && bulk_->InLoop(); }

  // --- With the mutex ---

  // Good while the mutex is held.
  const RendezvousPeers& peers() const {
    mutex_.AssertHeld();
    return peers_;
  }
  // Connects, when it has to.
  void Send(MemberIndex to, rendezvous::PeerMessage message);
  // As RendezvousBulk.
  void Fetch(const rendezvous::Fetch& fetch, std::byte* into) { bulk_->Fetch(fetch, into); }
  // Ignored once the fetch is over.
  void StopFetch(rendezvous::OpId op) { bulk_->Stop(op); }
  // What the job knows of that member: its incarnation, and whether it is lost.
  void TakeMember(const MemberInfo& info);

  // --- On the loop, without the mutex ---

  PolledStreams& streams() { return streams_; }

 private:
  RendezvousBulk::Events BulkEvents();
  transport::Connector::Events ConnectorEvents();
  transport::Stream::Events EventsOf(MemberIndex member, uint64_t incarnation);
  void Connected(MemberIndex member, uint64_t incarnation,
                 std::shared_ptr<transport::Stream> stream, std::string why_not_shared);
  // Of a lost member; `lent`: what it may still look at. On the loop.
  void Part(const std::shared_ptr<transport::Stream>& stream, std::vector<rendezvous::Value> lent);

  void TakeMessage(MemberIndex from, const std::string& bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Lose(MemberIndex member, rendezvous::ErrorPtr why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A newer incarnation than the one that is known takes its place.
  void Heed(MemberIndex member, uint64_t incarnation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  LoopDriver& loop_;
  Mutex& mutex_;
  transport::Arena& arena_;
  Events& events_;
  std::weak_ptr<RendezvousNetwork> self_;  // set once, by `Listen`
  RendezvousCards cards_;
  RendezvousPeers peers_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<RendezvousBulk> bulk_;  // set once, by `Listen`

  // The loop's.
  std::shared_ptr<transport::Connector> connector_;
  PolledStreams streams_;
  DepartedPeers departed_;
  Bell bell_;
};

}  // namespace lockstep::client
