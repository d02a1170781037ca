// One stream of messages each way between two members, out of links that may break: numbers,
// acknowledgements, resends, redials. Pure. Links, hellos and the clock are the shell's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/transport/link_history.h"
#include "lockstep/rendezvous/transport/received_messages.h"
#include "lockstep/rendezvous/transport/redialer.h"
#include "lockstep/rendezvous/transport/resend_queue.h"

namespace lockstep::transport {

// A connection to the peer, dialed or taken. Given out by `Conversation::NewLink`; never used
// again.
using LinkId = Id<struct LinkIdTag, uint64_t>;

// 16 random bytes: one life of one end of a conversation.
using ConversationId = std::array<uint8_t, 16>;

// What an end says first on a link: in the hello of who dialed, in the welcome of who took it.
struct Greeting {
  ConversationId conversation = {};
  // In a hello: whom it wants to go on talking to; absent before the first welcome.
  std::optional<ConversationId> yours;
  Incarnation incarnation;
  uint64_t received_through = 0;
  // Goes up with each link that the end dials or takes, so that a hello that was overtaken by later
  // events is known as such.
  uint64_t turn = 0;
};

// Which link stays when both ends have dialed: the one of the smaller index. Both know that without
// asking, so neither link is closed by one and the other by the other.
constexpr bool KeepsOwnDial(MemberIndex self, MemberIndex peer) { return self < peer; }

// One end of a conversation. Every message is delivered once and in the order of sending, or the
// conversation is lost, and says why.
//
//             .--LinkDown, dial too long--.
//             v                           |
//   kDown --dial--> kDialing --LinkUp--> kUp --LinkDown--> kDown
//     |                |  ^ |            ^ ^
//     |    TakeDial,   |  | '--held is---' |
//     |  the own stays v  |     taken      |
//     |          (held: theirs)            |
//     '--------------TakeDial--------------'
//   any --grace over, peer restarted, rule broken, Close--> kEnded
//
// Crossing dials. An end takes the peer's dial whatever it does itself, and closes what it had, but
// for one case: it is dialing, and keeps its own dial (`KeepsOwnDial`). Then it holds the other's
// link unanswered until its own is answered (and closes the held one) or is not (and takes it). The
// peer, for whom the opposite holds, drops its own dial when it sees ours. So at most one link of
// the two is answered. A hello that was sent before the peer's last word that we know is stale, and
// its link closed: the peer has given it up.
//
// Invariants: (1) at most one link is up, and messages come and go on that one only; (2) an end
// that dials and has no link is dialing, or has a deadline at which it does; (3) what is delivered
// is 1, 2, 3...; (4) what is not acknowledged is kept, whatever its size: `full` asks to stop.
//
// Threads: thread-compatible. Bounds: Options.
class Conversation {
 public:
  using Payload = ResendQueue::Payload;

  enum class Role {
    kDials,  // it has something to say, and redials; the other end may as well
    kTakes,  // it was dialed, and waits to be dialed again
  };

  struct Options {
    MemberIndex self;
    MemberIndex peer;
    Incarnation incarnation;       // ours
    Incarnation peer_incarnation;  // another one is another process
    ConversationId conversation = {};
    std::string peer_name;  // "task/3 at host7:4711", for texts
    Role role = Role::kDials;
    // Without a link for so long, the peer is lost.
    absl::Duration grace = absl::Seconds(30);
    // Between dials: the first follows a loss at once; then doubled, half of it drawn.
    absl::Duration backoff_first = absl::Milliseconds(10);
    absl::Duration backoff_last = absl::Seconds(1);
    // For an answer to our dial; less when the peer's own has come meanwhile.
    absl::Duration dial_timeout = absl::Seconds(5);
    absl::Duration crossing_timeout = absl::Seconds(1);
    // What has come is acknowledged with the next message, or after so many, so much, so long.
    absl::Duration ack_delay = absl::Milliseconds(1);
    uint64_t ack_messages = 64;
    uint64_t ack_bytes = uint64_t{1} << 20;
    // Not acknowledged yet: `unacknowledged_messages_max`, `unacknowledged_bytes_max`.
    size_t unacknowledged_messages_max = size_t{1} << 16;
    size_t unacknowledged_bytes_max = size_t{64} << 20;
    // The jitter comes from it.
    uint64_t seed = 0;
  };

  struct Dial {
    LinkId link;
    Greeting hello;
  };
  struct Welcome {
    LinkId link;
    Greeting welcome;
    // They want a former life of ours: that we are another is all that they are told. Close it.
    bool last = false;
  };
  // A message, or an acknowledgement alone (number 0), on the link that is up.
  struct Outgoing {
    LinkId link;
    uint64_t number = 0;
    uint64_t acknowledged = 0;
    Payload payload;
  };

  // What is to be done after a call, in the order of the fields and before the next call.
  struct Effects {
    std::vector<LinkId> close;  // no more events of these
    std::optional<Dial> dial;
    std::optional<Welcome> welcome;
    std::vector<Outgoing> send;
    std::vector<std::string> deliver;
    rendezvous::ErrorPtr lost;  // at most once; not after Close
  };

  explicit Conversation(Options options);

  // For a connection that the peer made: the `link` of its `TakeDial`. Never given out twice.
  LinkId NewLink() { return LinkId(++last_link_); }

  // Once, before all else. The grace runs from here; who dials, dials.
  void Start(Time now, Effects& out);
  // Never refuses: without a link the message is kept until there is one (look at `full`). Once the
  // conversation has ended, the message is dropped.
  void Send(Payload payload, Effects& out);
  // Nothing more is done or said; what is not acknowledged is forgotten.
  void Close(Effects& out);

  // The peer has dialed us. `link` is new, from `NewLink`; it is welcomed, closed or held.
  void TakeDial(Time now, LinkId link, const Greeting& hello, Effects& out);
  // The peer welcomes our dial.
  void LinkUp(Time now, LinkId link, const Greeting& welcome, Effects& out);
  // A dial failed, or a link ended. Links that are not ours any more are ignored, here and below.
  void LinkDown(Time now, LinkId link, const absl::Status& why, Effects& out);
  // What came on a link, as `Outgoing` says. A message that came before is acknowledged again and
  // not delivered. One that skips others, or acknowledges what was never sent, breaks a rule:
  // INTERNAL `protocol` in `lost`.
  void Take(Time now, LinkId link, uint64_t number, uint64_t acknowledged, std::string payload,
            Effects& out);

  // Dials, gives a dial up, or acknowledges, if that is due. With the grace over: UNAVAILABLE
  // `unreachable` in `lost`. Too early, it does nothing.
  void ReachDeadline(Time now, Effects& out);
  // When `ReachDeadline` has something to do; infinite: not before another call.
  Time NextDeadline() const;

  // Too much waits for acknowledgement: say no more until some has come.
  bool full() const {
    return sent_.messages() >= options_.unacknowledged_messages_max ||
           sent_.bytes() >= options_.unacknowledged_bytes_max;
  }
  const ResendQueue& sent() const { return sent_; }
  // A link is there, so that what is sent goes out at once.
  bool up() const { return stage_ == Stage::kUp; }
  // Lost or closed: nothing is sent or delivered any more.
  bool ended() const { return stage_ == Stage::kEnded; }

 private:
  enum class Stage { kDown, kDialing, kUp, kEnded };

  // A dial of the peer's that is not answered yet.
  struct Held {
    LinkId link;
    Greeting hello;
  };
  // What the peer has said of itself.
  struct Peer {
    std::optional<ConversationId> conversation;
    uint64_t turn = 0;  // the greatest
  };

  Greeting NextGreeting();
  // Whether this is the peer that we talk to, or talked to. If not, it is lost.
  bool Knows(Time now, const Greeting& theirs, Effects& out);
  void Welcomes(Time now, LinkId link, const Greeting& hello, Effects& out);
  void BecomeUp(Time now, LinkId link, const Greeting& theirs, Effects& out);
  // Of what there is: the link that is up or being dialed, and the held one.
  void DropLinks(Effects& out);
  void StartDial(Time now, Effects& out);
  void FailDial(Time now, const absl::Status& why, Effects& out);
  // False: it was of a message that was never sent, and the conversation is lost.
  bool TakeAcknowledgement(uint64_t through, Effects& out);
  // Number 0: no message, but an acknowledgement alone.
  void SendOne(uint64_t number, const Payload& payload, Effects& out);
  void Lose(absl::StatusCode code, rendezvous::Reason reason, std::string text, Effects& out);
  void BreakRule(std::string_view what, Effects& out);

  const Options options_;
  Stage stage_ = Stage::kDown;
  uint64_t last_link_ = 0;
  LinkId link_;  // that is being dialed, or is up
  std::optional<Held> held_;
  uint64_t turn_ = 0;
  Peer peer_;
  LinkHistory history_;
  Redialer redialer_;
  ResendQueue sent_;
  ReceivedMessages received_;
};

}  // namespace lockstep::transport
