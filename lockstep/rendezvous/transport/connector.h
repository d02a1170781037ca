// Finds the other members and makes streams to them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "asio/io_context.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/ids.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/link/options.h"
#include "lockstep/rendezvous/transport/card.h"
#include "lockstep/rendezvous/transport/door.h"
#include "lockstep/rendezvous/transport/hellos.h"
#include "lockstep/rendezvous/transport/link_stream.h"
#include "lockstep/rendezvous/transport/shared_stream.h"
#include "lockstep/rendezvous/transport/stream.h"
#include "lockstep/rendezvous/transport/unix_socket.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::transport {

// Members of one host share memory if they can. Of two such members the one with the smaller index
// dials; the other one knocks, when it is the first to have something to say. So they never have
// two streams, nor wait for each other. Who dialed says once more that it has the welcome, so that
// both or none take the memory for theirs.
//
//   kIdle --Connect--> kFinding --its card--> kDialing | kKnocking --> kUp
//                          '<---- failed, after a pause ----'
//   any but kUp --hello--> kWelcomed --it says that it has the welcome--> kUp
//
// A member may come back as another process, with a greater incarnation: what there was with the
// one before is forgotten, and that one is not heard any more.
//
// Everybody else talks over the network (LinkStream), whoever dials; so do two members for whom
// memory failed, for good or `memory_attempts_max` times. The one that finds that out dials, and
// the other one gives up what it tries itself when it is dialed.
//
// Threads: loop-confined. What it makes is guarded by `mutex`, as Stream says; events come without
// it. Bounds: one entry a member; greetings_max connections that have not said who they are.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  using FoundCard = std::function<void(absl::StatusOr<Card>)>;

  struct Options {
    std::string job;
    int64_t attempt = 0;
    MemberIndex self;
    uint64_t incarnation = 1;  // of this member in its job; for the card
    // "trainer/4", by index: everybody who may come.
    std::vector<std::string> names;
    // Whether processes of this host may share memory with us.
    bool shared_memory = true;
    // Whether values are read from the memory of processes of this host, ours by others too.
    bool process_memory = true;
    // Where to listen, a number, as `LocalHostTowards` says; the secret goes into the card.
    Door::Options door;
    // Where values are fetched; for the card.
    std::string bulk_address;
    absl::Duration hello_timeout = absl::Seconds(5);
    absl::Duration retry_first = absl::Milliseconds(10);
    absl::Duration retry_last = absl::Seconds(1);
    int memory_attempts_max = 2;
    size_t greetings_max = 512;
    // Of streams over the network.
    Conversation::Options conversation;
    link::LinkOptions link;
  };
  struct Events {
    // Looks the card of a member up, and waits for it.
    std::function<void(MemberIndex, FoundCard)> find_card;
    // What a new stream to that incarnation of a member calls.
    std::function<Stream::Events(MemberIndex, uint64_t incarnation)> stream_events;
    // `why_not_shared`: empty, or why it is one without memory.
    std::function<void(MemberIndex, uint64_t incarnation, std::shared_ptr<Stream>,
                       std::string why_not_shared)>
        connected;
    // Given up.
    std::function<void(MemberIndex, absl::Status)> unreachable;
    LinkStream::Post post;
  };

  // Fails where there is no address for the network to listen at.
  // `bell`: an eventfd that wakes this process; given to those who share memory with it.
  static absl::StatusOr<std::shared_ptr<Connector>> Start(asio::io_context& io, Mutex& mutex,
                                                          int bell, Options options, Events events);
  ~Connector();

  // What the others need to know.
  const Card& card() const { return card_; }
  // There is something to say to that member. Does nothing when a stream is there or coming.
  void Connect(MemberIndex member);
  // It has this incarnation now: what there was with older ones is over.
  void ComesBack(MemberIndex member, uint64_t incarnation);
  const Options& options() const { return options_; }
  // Calls nobody any more.
  void Close();

 private:
  enum class State { kIdle, kFinding, kDialing, kKnocking, kWelcomed, kUp };
  struct Peer {
    // What was tried.
    void GiveUp();

    State state = State::kIdle;
    uint64_t incarnation = 0;  // the newest that is known; 0: none
    Card card;
    SharedStream::Parts parts;  // dialing, or welcomed
    std::unique_ptr<asio::steady_timer> timer;
    int failures = 0;
    std::string why_not_shared;
    std::shared_ptr<LinkStream> link;  // then it is up
  };

  Connector(asio::io_context& io, Mutex& mutex, int bell, Options options, Events events);
  absl::Status Listen();
  void ListenForMemory();

  // PERMISSION_DENIED: an incarnation that is over.
  absl::Status Heed(MemberIndex member, uint64_t incarnation);
  void Find(MemberIndex member);
  void Reach(MemberIndex member);
  void ArmTimer(MemberIndex member, absl::Duration after, void (Connector::*call)(MemberIndex));

  // Sharing memory: connector_memory.cc.
  absl::Status Dial(MemberIndex member, Peer& peer);
  absl::Status Knock(MemberIndex member, Peer& peer);
  void TakeWelcome(MemberIndex member);
  absl::Status FinishDial(MemberIndex member, Peer& peer, UnixSocket::Message welcome);
  void Failed(MemberIndex member, const absl::Status& why);
  void DialTimedOut(MemberIndex member);
  absl::Status Greet(const UnixHellos::Socket& socket, UnixSocket::Message message);
  absl::Status Welcome(const UnixHellos::Socket& socket, MemberIndex from,
                       UnixSocket::Message message);
  void TakeConfirmation(MemberIndex member);
  absl::Status StartShared(MemberIndex member, Peer& peer, bool first);

  // Over the network: connector_links.cc.
  absl::Status GreetLink(LinkStream::Arriving& arriving, const link::Message& message);
  void DialLink(MemberIndex member);
  std::shared_ptr<LinkStream> MakeLink(MemberIndex member, Peer& peer, Conversation::Role role,
                                       runtime::Address address, DoorKey key);

  asio::io_context& io_;
  Mutex& mutex_;
  const int bell_;
  const Options options_;
  Events events_;
  Card card_;
  std::string why_no_memory_;  // is offered by us
  bool closed_ = false;
  std::shared_ptr<UnixHellos> unix_hellos_;  // null: no memory is offered by us
  std::shared_ptr<LinkHellos> link_hellos_;
  std::map<MemberIndex, Peer> peers_;
};

// OK: the hello of a connection is meant for us, and from a member that may be. PERMISSION_DENIED:
// it is for another job, attempt, member or process. FAILED_PRECONDITION: no common version.
// INVALID_ARGUMENT: it is from nobody of this job.
absl::Status CheckHello(const wire::native::PeerHello& hello, const Card& card,
                        const Connector::Options& options);

// What a hello says of us and of whom it is for.
wire::native::PeerHello HelloFor(MemberIndex member, const Card& theirs,
                                 wire::native::LinkPurpose purpose, const Card& ours,
                                 const Connector::Options& options);

}  // namespace lockstep::transport
