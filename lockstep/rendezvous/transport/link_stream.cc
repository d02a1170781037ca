#include "lockstep/rendezvous/transport/link_stream.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::transport {
namespace {

using link::Connection;
using link::FrameType;
using link::Message;
using rendezvous::MakeError;
using rendezvous::Reason;
using runtime::MonotonicNow;
using wire::native::PeerHello;
using wire::native::PeerWelcome;

std::string BytesOf(const ConversationId& id) { return {id.begin(), id.end()}; }

absl::StatusOr<ConversationId> ConversationIdOf(std::string_view bytes) {
  ConversationId id;
  if (bytes.size() != id.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a conversation's id has %d bytes, not %d", bytes.size(), id.size()));
  }
  std::copy(bytes.begin(), bytes.end(), id.begin());
  return id;
}

// What hellos and welcomes have in common.
template <class Said>
absl::StatusOr<Greeting> CommonGreeting(const Said& said, uint64_t incarnation) {
  const auto conversation = ConversationIdOf(said.conversation.data);
  if (!conversation.ok()) return conversation.status();
  if (incarnation == 0) return absl::InvalidArgumentError("a greeting without an incarnation");
  return Greeting{.conversation = *conversation,
                  .incarnation = Incarnation(incarnation),
                  .received_through = said.received_through,
                  .turn = said.turn};
}

template <class Said>
void SetCommon(const Greeting& greeting, Said& said) {
  said.conversation = {BytesOf(greeting.conversation)};
  said.received_through = greeting.received_through;
  said.turn = greeting.turn;
}

// Of a frame's acknowledgement: it is not behind what was acknowledged before, and not 2^32
// messages ahead of it.
uint64_t Widened(uint32_t low_bits, uint64_t before) {
  return before + static_cast<uint32_t>(low_bits - static_cast<uint32_t>(before));
}

}  // namespace

absl::StatusOr<Greeting> GreetingOf(const PeerHello& hello) {
  auto greeting = CommonGreeting(hello, hello.from_incarnation);
  if (!greeting.ok() || hello.peer_conversation.data.empty()) return greeting;
  const auto yours = ConversationIdOf(hello.peer_conversation.data);
  if (!yours.ok()) return yours.status();
  greeting->yours = *yours;
  return greeting;
}

ConversationId NewConversationId() {
  ConversationId id;
  const std::string drawn = runtime::RandomBytes(id.size());
  std::copy(drawn.begin(), drawn.end(), id.begin());
  return id;
}

link::LinkOptions LinkStream::Bounds(link::LinkOptions options) {
  // A message between members is one frame: fragments of several would overtake each other.
  options.message_bytes_max = link::kFramePayloadMax;
  options.partial_messages_max = 0;
  // The conversation keeps what is not acknowledged anyway, and its owner bounds that.
  options.write_queue_bytes_max = std::numeric_limits<size_t>::max();
  return options;
}

LinkStream::LinkStream(asio::io_context& io, Mutex& mutex, Post post, Options options,
                       Events events)
    : io_(io),
      mutex_(mutex),
      post_(std::move(post)),
      options_(std::move(options)),
      events_(std::move(events)),
      conversation_(options_.conversation),
      timer_(io) {}

LinkStream::~LinkStream() {
  for (auto& [id, link] : links_) {
    if (link.connection) link.connection->Abandon();
  }
}

template <class Act>
void LinkStream::Do(const Act& act) {
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    Conversation::Effects effects;
    act(conversation_, effects);
    Carry(effects);
  }
  Flush();
  ArmTimer();
}

void LinkStream::Start() {
  Do([](Conversation& conversation, Conversation::Effects& effects) {
    conversation.Start(MonotonicNow(), effects);
  });
}

// --- Sending ---

void LinkStream::Send(std::string message) {
  LOCKSTEP_CHECK(message.size() <= link::kFramePayloadMax);
  if (closed_) return;
  Conversation::Effects effects;
  conversation_.Send(std::make_shared<const std::string>(std::move(message)), effects);
  if (effects.send.empty()) return;
  std::move(effects.send.begin(), effects.send.end(), std::back_inserter(pending_));
  if (has_pending_.exchange(true)) return;
  post_([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Flush();
  });
}

bool LinkStream::Poll() {
  if (!has_pending_) return false;
  Flush();
  return true;
}

void LinkStream::Flush() {
  if (!has_pending_) return;
  std::vector<Conversation::Outgoing> pending;
  {
    const MutexLock lock(mutex_);
    has_pending_ = false;
    pending.swap(pending_);
  }
  // But for what was to go out over a link that has broken meanwhile, all is for the one that is
  // up.
  std::erase_if(pending, [this](const Conversation::Outgoing& each) {
    const auto at = links_.find(each.link);
    return at == links_.end() || !at->second.greeted;
  });
  if (pending.empty()) return;
  LOCKSTEP_DCHECK(pending.front().link == pending.back().link);
  const std::shared_ptr<Connection> connection = links_.at(pending.front().link).connection;
  Write(*connection, std::move(pending));
}

void LinkStream::Write(Connection& connection, std::vector<Conversation::Outgoing> pending) {
  static const auto kNothing = std::make_shared<const std::string>();
  for (Conversation::Outgoing& each : pending) {
    Message message = {
        .type = each.payload ? FrameType::kPeerMessage : FrameType::kPeerAcknowledged,
        .must_understand = true,
        .kind = static_cast<uint32_t>(each.acknowledged),
        .id = each.number};
    connection.Queue(std::move(message), each.payload ? std::move(each.payload) : kNothing);
  }
  connection.SendNow({});
  runtime::FaultPoint("link/written");
}

void LinkStream::Close() {
  if (std::exchange(closed_, true)) return;
  events_ = {};
  timer_.cancel();
  has_pending_ = false;
  for (auto& [id, link] : links_) {
    if (link.connection == nullptr) continue;
    if (!link.greeted || !conversation_.up()) {
      link.connection->Abandon();
      continue;
    }
    std::erase_if(pending_, [&id = id](const auto& each) { return each.link != id; });
    Write(*link.connection, std::exchange(pending_, {}));
    link.connection->Close({.type = FrameType::kPeerClosing, .must_understand = true},
                           absl::CancelledError("closed"));
    link.connection->SendNow({});
  }
  links_.clear();
  Conversation::Effects nothing;
  conversation_.Close(nothing);
}

// --- Effects ---

void LinkStream::Carry(Conversation::Effects& effects) {
  for (const LinkId link : effects.close) Drop(link);
  if (effects.dial.has_value()) Dial(*effects.dial);
  if (effects.welcome.has_value()) Welcome(*effects.welcome);
  if (!effects.send.empty()) {
    std::move(effects.send.begin(), effects.send.end(), std::back_inserter(pending_));
    has_pending_ = true;
  }
  for (std::string& message : effects.deliver) events_.message(message);
  if (effects.lost) End(std::move(effects.lost));
}

void LinkStream::End(rendezvous::ErrorPtr why) {
  if (const auto events = std::exchange(events_, {}); events.lost) events.lost(std::move(why));
}

void LinkStream::Drop(LinkId link) {
  auto node = links_.extract(link);
  if (!node.empty() && node.mapped().connection) node.mapped().connection->Abandon();
}

void LinkStream::Dial(const Conversation::Dial& dial) {
  links_[dial.link] = {};
  PeerHello hello = options_.hello;
  hello.from_incarnation = dial.hello.incarnation.value();
  SetCommon(dial.hello, hello);
  if (dial.hello.yours.has_value()) hello.peer_conversation = {BytesOf(*dial.hello.yours)};
  DialDoor(io_, options_.address, options_.key, options_.conversation.dial_timeout,
           [weak = weak_from_this(), link = dial.link,
            hello = std::move(hello)](absl::StatusOr<ProvenConnection> dialed) {
             if (const auto self = weak.lock()) {
               self->Dialed(link, hello, std::move(dialed));
             } else if (dialed.ok()) {
               runtime::CloseSocket(dialed->socket);
             }
           });
}

void LinkStream::Dialed(LinkId link, const PeerHello& hello,
                        absl::StatusOr<ProvenConnection> dialed) {
  if (!dialed.ok()) return LinkDown(link, dialed.status());
  const auto at = links_.find(link);
  if (at == links_.end()) return runtime::CloseSocket(dialed->socket);
  at->second.connection = Connection::Start(
      io_, std::make_shared<link::Channel>(std::move(dialed->socket), std::move(dialed->layer)),
      options_.link,
      {.message =
           [weak = weak_from_this(), link](Message message) {
             const auto self = weak.lock();
             if (self) self->TakeMessage(link, std::move(message));
           },
       .closed =
           [weak = weak_from_this(), link](const absl::Status& why) {
             if (const auto self = weak.lock()) self->LinkDown(link, why);
           }});
  at->second.connection->SendNow({{.type = FrameType::kHello,
                                   .must_understand = true,
                                   .payload = wire::native::Encode(hello)}});
  runtime::FaultPoint("link/dialed");
}

void LinkStream::Take(Arriving& arriving, const Greeting& hello) {
  {
    const MutexLock lock(mutex_);
    if (closed_) return std::exchange(arriving.connection, nullptr)->Abandon();
    arriving.link = conversation_.NewLink();
  }
  arriving.stream = weak_from_this();
  links_[arriving.link] = {.connection = std::exchange(arriving.connection, nullptr)};
  Do([&](Conversation& conversation, Conversation::Effects& effects) {
    conversation.TakeDial(MonotonicNow(), arriving.link, hello, effects);
  });
}

void LinkStream::Welcome(const Conversation::Welcome& welcome) {
  const auto at = links_.find(welcome.link);
  if (at == links_.end()) return;
  PeerWelcome said = {.version = kPeerVersion,
                      .incarnation = welcome.welcome.incarnation.value(),
                      .transports = options_.hello.transports};
  SetCommon(welcome.welcome, said);
  Message message = {
      .type = FrameType::kWelcome, .must_understand = true, .payload = wire::native::Encode(said)};
  if (welcome.last) {
    at->second.connection->Close(std::move(message), absl::CancelledError("not the same end"));
    links_.erase(at);
    return;
  }
  at->second.connection->Welcomed();
  at->second.connection->SendNow({std::move(message)});
  runtime::FaultPoint("link/welcomed");
  at->second.greeted = true;
}

// --- Links ---

void LinkStream::TakeMessage(LinkId link, Message message) {
  const auto at = links_.find(link);
  if (at == links_.end()) return;
  if (!at->second.greeted) return TakeWelcome(link, at->second, message);
  switch (message.type) {
    case FrameType::kPeerMessage:
    case FrameType::kPeerAcknowledged:
      return Do([&](Conversation& conversation, Conversation::Effects& effects) {
        const bool says = message.type == FrameType::kPeerMessage;
        const uint64_t acknowledged = Widened(message.kind, conversation.sent().acknowledged());
        conversation.Take(MonotonicNow(), link, says ? message.id : 0, acknowledged,
                          std::move(message.payload), effects);
      });
    case FrameType::kPeerClosing:
      return Do([&](Conversation& conversation, Conversation::Effects& effects) {
        conversation.Close(effects);
        effects.lost = MakeError(
            absl::StatusCode::kUnavailable, Reason::kPeerLost,
            absl::StrCat(options_.conversation.peer_name, " closed its rendezvous, or ended"));
      });
    default:
      return LinkDown(link, absl::InvalidArgumentError(absl::StrFormat(
                                "a frame of type %d where a message of a member was due",
                                static_cast<int>(message.type))));
  }
}

void LinkStream::TakeWelcome(LinkId link, Link& at, const Message& message) {
  const auto welcome = wire::native::Decode<PeerWelcome>(message.payload);
  absl::StatusOr<Greeting> greeting =
      welcome.ok() ? CommonGreeting(*welcome, welcome->incarnation) : welcome.status();
  if (message.type != FrameType::kWelcome || !greeting.ok() || welcome->version != kPeerVersion) {
    return LinkDown(link,
                    absl::InvalidArgumentError("it answered our hello with what is no welcome"));
  }
  at.greeted = true;
  at.connection->Welcomed();
  Do([&](Conversation& conversation, Conversation::Effects& effects) {
    conversation.LinkUp(MonotonicNow(), link, *greeting, effects);
  });
}

void LinkStream::LinkDown(LinkId link, const absl::Status& why) {
  Drop(link);
  Do([&](Conversation& conversation, Conversation::Effects& effects) {
    conversation.LinkDown(MonotonicNow(), link, why, effects);
  });
}

void LinkStream::ArmTimer() {
  Time due;
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    due = conversation_.NextDeadline();
  }
  // One that rings too early does no harm, and most acknowledgements go with a message.
  if (due >= armed_) return;
  armed_ = due;
  timer_.expires_at(
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due.nanoseconds())));
  timer_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr) return;
    self->armed_ = Time::Infinite();
    self->Do([](Conversation& conversation, Conversation::Effects& effects) {
      conversation.ReachDeadline(MonotonicNow(), effects);
    });
  });
}

}  // namespace lockstep::transport
