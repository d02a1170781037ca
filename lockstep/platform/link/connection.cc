#include "lockstep/platform/link/connection.h"

#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "asio/buffer.hpp"
#include "asio/post.hpp"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/link_messages.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::link {
namespace {

using runtime::MonotonicNow;
using wire::native::Farewell;

// At a time: a value of 256 KiB and what is around it.
constexpr size_t kWriteBytes = size_t{320} << 10;

// With so much unread by it, a peer is sent nothing more once memory is short.
constexpr size_t kUnreadWhenShortMax = size_t{1} << 20;
static_assert(kFrameBytesMax <= kWriteBytes);
static_assert(kWriteBytes <= kUnreadWhenShortMax);
static_assert(kUnreadWhenShortMax <= LinkOptions().write_queue_bytes_max);
// A link may hold an answer of the largest size and be sent another one.
static_assert(2 * kMessageBytesMax <= LinkOptions().write_queue_bytes_max);
// What an unfinished message has to come on by within half a `message_timeout`.
constexpr size_t kProgressBytesMin = size_t{64} << 10;
// The object, its socket and what its owner has for it.
constexpr size_t kConnectionBytes = size_t{4} << 10;

constexpr char kClosedByPeerUrl[] = "lockstep.link.closed_by_peer";

absl::Status PeerClosed(std::string text) {
  absl::Status status = absl::UnavailableError(std::move(text));
  status.SetPayload(kClosedByPeerUrl, absl::Cord());
  return status;
}

absl::Status Broken(const std::string& peer, const asio::error_code& error) {
  std::string text = absl::StrCat("the connection to ", peer, " broke: ", error.message());
  if (error == asio::error::connection_reset || error == asio::error::broken_pipe) {
    return PeerClosed(std::move(text));
  }
  return absl::UnavailableError(std::move(text));
}

// Names who it is about.
absl::Status Insecure(const std::string& peer, const absl::Status& why) {
  // A certificate stays what it is; anything else may be somebody on the way, or a refusal in
  // clear.
  const bool lasts = absl::IsUnauthenticated(why) || absl::IsPermissionDenied(why);
  return absl::Status(
      lasts ? why.code() : absl::StatusCode::kUnavailable,
      absl::StrCat("no secure connection with ", peer, ": ", std::string(why.message())));
}

Message FarewellMessage(std::string_view reason, std::string_view text) {
  return {.type = FrameType::kFarewell,
          .payload = wire::native::Encode(
              Farewell{.reason = std::string(reason), .message = wire::native::ToUtf8(text)})};
}

std::string PeerOf(const asio::ip::tcp::socket& socket) {
  asio::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  return error ? "a peer that has gone" : runtime::ToString(endpoint);
}

std::string HostOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

}  // namespace

std::shared_ptr<Connection> Connection::Start(asio::io_context& io,
                                              std::shared_ptr<Channel> channel,
                                              const LinkOptions& options, Events events,
                                              runtime::MemoryAccount* memory) {
  std::shared_ptr<Connection> connection(
      new Connection(io, std::move(channel), options, std::move(events), memory));
  connection->ArmTimer();
  connection->Read();
  return connection;
}

Connection::Connection(asio::io_context& io, std::shared_ptr<Channel> channel,
                       const LinkOptions& options, Events events, runtime::MemoryAccount* memory)
    : io_(io),
      channel_(std::move(channel)),
      options_(options),
      events_(std::make_shared<const Events>(std::move(events))),
      peer_(PeerOf(channel_->socket())),
      life_(options_, MonotonicNow()),
      share_(memory, std::string(runtime::kLinksOf) + HostOf(peer_), peer_),
      reader_({.payload_bytes_max = options.hello_bytes_max,
               .message_bytes_max = options.hello_bytes_max,
               .partial_messages_max = 0}),
      timer_(io) {
  outbox_.SetPeerMax(options.message_bytes_max);
  if (memory != nullptr) {
    reader_.SetRoom([memory](size_t bytes) { return memory->HasRoom(bytes); });
  }
  Count();
}

Connection::~Connection() { channel_->Close(); }

void Connection::Welcomed(size_t peer_message_bytes_max) {
  if (life_.state() != LinkLife::State::kGreeting) return;
  if (peer_message_bytes_max > 0) outbox_.SetPeerMax(peer_message_bytes_max);
  life_.Open(MonotonicNow());
  reader_.SetLimits({.payload_bytes_max = kFramePayloadMax,
                     .message_bytes_max = options_.message_bytes_max,
                     .partial_messages_max = options_.partial_messages_max});
  ArmTimer();
}

bool Connection::HasRoom(size_t bytes) const {
  const size_t waits = outbox_.bytes();
  return waits <= options_.write_queue_bytes_max &&
         bytes + kFrameHeaderBytes <= options_.write_queue_bytes_max - waits;
}

bool Connection::MaySend(size_t bytes) {
  if (!life_.converses()) return false;
  const size_t waits = outbox_.bytes();
  const bool full = !HasRoom(bytes);
  const runtime::MemoryAccount* const memory = share_.account();
  const bool is_short = waits > kUnreadWhenShortMax && memory != nullptr && !memory->HasReserve();
  if (!full && !is_short) return true;
  Break(absl::ResourceExhaustedError(absl::StrFormat(
      "%s reads too slowly: %d bytes wait for it (%s)", peer_, waits,
      full ? absl::StrFormat("write_queue_bytes_max %d", options_.write_queue_bytes_max)
           : "and the server's memory is short: memory_max")));
  return false;
}

void Connection::Count() {
  if (share_.account() == nullptr) return;
  share_.Set(kConnectionBytes + channel_->memory() + reader_.memory() + outbox_.memory() +
             batch_.size);
}

void Connection::Send(Message message) {
  if (!MaySend(message.payload.size())) return;
  outbox_.Push(std::move(message));
  if (outbox_.bytes() > kWriteBytes) Count();
  WriteSoon();
}

void Connection::Send(Message message, std::shared_ptr<const std::string> payload) {
  Queue(std::move(message), std::move(payload));
  WriteSoon();
}

void Connection::Queue(Message message, std::shared_ptr<const std::string> payload) {
  if (!MaySend(payload->size())) return;
  outbox_.Push(std::move(message), std::move(payload));
  if (outbox_.bytes() > kWriteBytes) Count();
}

void Connection::Close(absl::Status why, std::string_view farewell_reason) {
  Message farewell = FarewellMessage(farewell_reason, std::string(why.message()));
  Close(std::move(farewell), std::move(why));
}

void Connection::Close(Message last, absl::Status why) {
  if (!life_.converses()) return;
  outbox_.Push(std::move(last));
  life_.BeginClosing(MonotonicNow(), std::move(why));
  ArmTimer();
  WriteSoon();
}

void Connection::SendNow(std::vector<Message> messages) {
  for (Message& message : messages) {
    if (!MaySend(message.payload.size())) return;
    outbox_.Push(std::move(message));
  }
  if (flush_ != Flush::kAfterTaking && !outbox_.empty()) Write();
}

void Connection::Abandon() {
  events_.reset();
  Break(absl::CancelledError("abandoned"));
}

void Connection::Read() {
  auto done = [self = shared_from_this()](const asio::error_code& error, size_t bytes) {
    self->ReadDone(error, bytes);
  };
  const MessageReader::Room room = reader_.Prepare();
  channel_->ReadSome({asio::mutable_buffer(room.payload.data(), room.payload.size()),
                      asio::mutable_buffer(room.buffer.data(), room.buffer.size())},
                     std::move(done));
}

void Connection::ReadDone(const asio::error_code& error, size_t bytes) {
  if (life_.state() == LinkLife::State::kClosed) return;
  if (error == asio::error::eof) {
    return Break(PeerClosed(absl::StrCat(peer_, " closed the connection without a farewell")));
  }
  if (!channel_->why().ok()) return Break(Insecure(peer_, channel_->why()));
  if (error) return Break(Broken(peer_, error));
  // Of a closing link only the end counts, so that our last words are not lost in a reset.
  if (life_.state() != LinkLife::State::kClosing) reader_.Commit(bytes);
  TakeAll();
}

void Connection::TakeAll() {
  bool all = true;
  if (life_.converses()) {
    LOCKSTEP_DCHECK(flush_ != Flush::kAfterTaking);  // no message is taken from within another
    // A write that is posted still comes, and finds nothing to do.
    flush_ = Flush::kAfterTaking;
    all = Take();
    flush_ = Flush::kWithNextSend;
    if (!outbox_.empty()) Write();
    Count();
  }
  if (life_.state() == LinkLife::State::kClosed) return;
  if (all) return Read();
  asio::post(io_, [self = shared_from_this()] { self->TakeAll(); });
}

bool Connection::Take() {
  // What waits for its turn was sent by somebody who lives.
  life_.Heard(MonotonicNow());
  runtime::TurnBudget budget(kMessagesPerTurn);
  while (life_.converses()) {
    auto message = reader_.Next();
    if (!message.ok()) {
      Close(message.status(), "protocol");
      return true;
    }
    if (!message->has_value()) return true;
    Dispatch(*std::move(*message));
    if (budget.Spent()) return false;
  }
  return true;
}

void Connection::Dispatch(Message&& message) {
  if (message.type == FrameType::kPing) return;
  if (message.type == FrameType::kFarewell) {
    const auto farewell = wire::native::Decode<Farewell>(message.payload);
    std::string text = absl::StrCat(
        peer_, " closed the link: ", farewell.ok() ? farewell->message : "(unreadable)");
    // Who only missed our signs of life is there, and comes back.
    if (farewell.ok() && farewell->reason == "silence") {
      return Break(absl::UnavailableError(std::move(text)));
    }
    return Break(PeerClosed(std::move(text)));
  }
  if (!IsKnown(message.type)) {
    if (!message.must_understand) return;
    return Close(absl::UnimplementedError(absl::StrFormat(
                     "frame of type %d must be understood and is not known here: the other program "
                     "is newer",
                     static_cast<int>(message.type))),
                 "protocol");
  }
  // Held, since the owner may abandon us in the call.
  const auto events = events_;
  if (events != nullptr && events->message) events->message(std::move(message));
}

// After this turn of the loop, with whatever else the turn sends.
void Connection::WriteSoon() {
  if (flush_ != Flush::kWithNextSend || batch_.size > 0) return;
  flush_ = Flush::kPosted;
  asio::post(io_, [self = shared_from_this()] {
    self->flush_ = Flush::kWithNextSend;
    self->Write();
  });
}

void Connection::Write() {
  if (batch_.size > 0 || life_.state() == LinkLife::State::kClosed) return;
  if (outbox_.empty()) {
    if (life_.state() == LinkLife::State::kClosing) {
      channel_->ShutdownSend();
    }
    return;
  }
  outbox_.Take(kWriteBytes, batch_);
  LOCKSTEP_DCHECK(batch_.size > 0);  // else nobody would say that it is written
  life_.BeganWriting(MonotonicNow());
  std::vector<asio::const_buffer> buffers;
  for (const std::string_view piece : batch_.Pieces()) {
    buffers.emplace_back(piece.data(), piece.size());
  }
  const auto written = [self = shared_from_this()](const asio::error_code& error, size_t) {
    self->Written(error);
  };
  if (!channel_->Write(buffers, written)) return Count();
  if (outbox_.empty()) return Written({});
  // Others are served before the next piece.
  asio::post(io_, [written] { written({}, 0); });
}

void Connection::Written(const asio::error_code& error) {
  if (life_.state() == LinkLife::State::kClosed) return;
  if (error) return Break(Broken(peer_, error));
  batch_.Clear();
  life_.Sent(MonotonicNow());
  Write();
  if (batch_.size == 0) Count();
}

void Connection::ArmTimer() {
  if (life_.state() == LinkLife::State::kClosed) return;
  const Time due = life_.NextDue();
  timer_.expires_at(
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due.nanoseconds())));
  timer_.async_wait([self = shared_from_this(), due](const asio::error_code& error) {
    if (!error) self->TimerFired(due);
  });
}

void Connection::TimerFired(Time due) {
  const Time now = MonotonicNow();
  switch (life_.state()) {
    case LinkLife::State::kClosed:
      return;
    case LinkLife::State::kClosing:
      return Break(life_.why());
    case LinkLife::State::kGreeting:
      if (now < life_.NextDue()) break;
      return Close(absl::DeadlineExceededError(
                       absl::StrFormat("no hello and welcome with %s within %s", peer_,
                                       absl::FormatDuration(options_.hello_timeout))),
                   "protocol");
    case LinkLife::State::kOpen:
      life_.Woke(now, due);
      LookAround(now);
      if (!life_.converses()) return;
  }
  ArmTimer();
}

// Of an open link: what the other end owes comes first, and then what this end owes.
void Connection::LookAround(Time now) {
  LOCKSTEP_DCHECK(life_.state() == LinkLife::State::kOpen);
  if (batch_.size > 0 && life_.IsWriteLate(now)) {
    return Break(absl::ResourceExhaustedError(absl::StrFormat(
        "%s has taken nothing for %s, and %d bytes wait for it (write_timeout)", peer_,
        absl::FormatDuration(options_.write_timeout), outbox_.bytes() + batch_.size)));
  }
  if (life_.TakeLook(now) && reader_.Stalled(kProgressBytesMin)) {
    absl::Status stalled = absl::DeadlineExceededError(
        absl::StrFormat("%s began a message and does not go on with it, for %s (message_timeout)",
                        peer_, absl::FormatDuration(options_.message_timeout / 2)));
    // Farewells do not reach who reads nothing.
    if (batch_.size > 0) return Break(std::move(stalled));
    return Close(std::move(stalled), "protocol");
  }
  if (life_.IsSilent(now)) {
    return Close(absl::UnavailableError(
                     absl::StrFormat("nothing heard from %s for %s: stopped, overloaded or cut off",
                                     peer_, absl::FormatDuration(options_.silence_timeout))),
                 "silence");
  }
  if (!life_.IsPingDue(now)) return;
  // While something is being written it is the sign of life itself.
  if (batch_.size == 0) Send({.type = FrameType::kPing});
  life_.Sent(now);
}

void Connection::Break(absl::Status why) {
  LOCKSTEP_DCHECK(!why.ok());
  if (life_.state() == LinkLife::State::kClosed) return;
  life_.End(std::move(why));
  channel_->Close();
  timer_.cancel();
  // Later, so that no caller of ours finds itself gone when we return.
  asio::post(io_, [self = shared_from_this()] {
    const auto events = std::exchange(self->events_, nullptr);
    if (events != nullptr && events->closed) events->closed(self->life_.why());
  });
}

bool ClosedByPeer(const absl::Status& why) { return why.GetPayload(kClosedByPeerUrl).has_value(); }

}  // namespace lockstep::link
