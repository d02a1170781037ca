// A stream between two members over the network.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "asio/io_context.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/link/connection.h"
#include "lockstep/platform/link/options.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/rendezvous/transport/conversation.h"
#include "lockstep/rendezvous/transport/door.h"
#include "lockstep/rendezvous/transport/stream.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::transport {

inline constexpr uint32_t kPeerVersion = 1;

// INVALID_ARGUMENT: the ids are not as they must be.
absl::StatusOr<Greeting> GreetingOf(const wire::native::PeerHello& hello);

// 16 random bytes.
ConversationId NewConversationId();

// The shell of a Conversation: connections, hellos, the clock. Senders give it messages on any
// thread; one turn of the loop writes what has gathered.
//
// Threads: as Stream says; all else on the loop without the mutex, which it takes itself. Bounds:
// those of the conversation.
class LinkStream final : public Stream, public std::enable_shared_from_this<LinkStream> {
 public:
  // Runs it on the loop soon, from any thread.
  using Post = std::function<void(std::function<void()>)>;

  struct Options {
    Conversation::Options conversation;
    link::LinkOptions link;
    // What our hellos say besides the greeting.
    wire::native::PeerHello hello;
    // Where the peer listens, and what opens its door; for who dials.
    runtime::Address address;
    DoorKey key = {};
  };
  // A connection that the peer made, between its owner before the hello and the stream. What comes
  // on the connection goes to `stream` once that is set.
  struct Arriving {
    std::shared_ptr<link::Connection> connection;
    std::weak_ptr<LinkStream> stream;
    LinkId link;
  };

  LinkStream(asio::io_context& io, Mutex& mutex, Post post, Options options, Events events);
  ~LinkStream() override;

  // The bounds of a connection between members.
  static link::LinkOptions Bounds(link::LinkOptions options);

  // The grace runs from here; who dials, dials.
  void Start();
  // The peer has dialed.
  void Take(Arriving& arriving, const Greeting& hello);
  // Came on a connection that arrived, once the stream has it.
  void TakeMessage(LinkId link, link::Message message);
  // Such a connection has ended; the conversation goes on, until its grace is over.
  void LinkDown(LinkId link, const absl::Status& why);

  void Send(std::string message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string_view transport() const override { return "tcp"; }
  void Close() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool connected() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return conversation_.up();
  }

  bool Poll() override;
  bool PrepareToSleep() override { return !has_pending_; }

 private:
  struct Link {
    std::shared_ptr<link::Connection> connection;  // null: is being dialed
    bool greeted = false;                          // welcomed by one end or the other
  };

  // Calls `act(conversation, effects)`, and does what follows from it.
  template <class Act>
  void Do(const Act& act) ABSL_LOCKS_EXCLUDED(mutex_);
  void Carry(Conversation::Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Dial(const Conversation::Dial& dial);
  void Welcome(const Conversation::Welcome& welcome);
  void Drop(LinkId link);
  void End(rendezvous::ErrorPtr why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Dialed(LinkId link, const wire::native::PeerHello& hello,
              absl::StatusOr<ProvenConnection> dialed);
  void TakeWelcome(LinkId link, Link& at, const link::Message& message);
  void Flush() ABSL_LOCKS_EXCLUDED(mutex_);
  static void Write(link::Connection& connection, std::vector<Conversation::Outgoing> pending);
  void ArmTimer() ABSL_LOCKS_EXCLUDED(mutex_);

  asio::io_context& io_;
  Mutex& mutex_;
  const Post post_;
  const Options options_;

  Events events_ ABSL_GUARDED_BY(mutex_);
  Conversation conversation_ ABSL_GUARDED_BY(mutex_);
  std::vector<Conversation::Outgoing> pending_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_pending_ = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;

  // The loop's.
  std::map<LinkId, Link> links_;
  asio::steady_timer timer_;
  Time armed_ = Time::Infinite();
};

}  // namespace lockstep::transport
