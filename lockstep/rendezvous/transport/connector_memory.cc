// How two members of one host come to share memory.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/rendezvous/transport/connector.h"
#include "lockstep/rendezvous/transport/pass_descriptors.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::transport {
namespace {

using wire::native::LinkPurpose;
using wire::native::PeerHello;
using wire::native::PeerWelcome;

// Of those that another attempt does not mend.
bool IsForGood(const absl::Status& why) {
  return why.code() == absl::StatusCode::kPermissionDenied ||
         why.code() == absl::StatusCode::kUnimplemented ||
         why.code() == absl::StatusCode::kFailedPrecondition;
}

}  // namespace

// --- Reaching others ---

absl::Status Connector::Dial(MemberIndex member, Peer& peer) {
  // Of two members the one with the smaller index dials.
  LOCKSTEP_DCHECK(options_.self < member);
  peer.state = State::kDialing;
  auto rings = SharedStream::MakeRings();
  if (!rings.ok()) return rings.status();
  auto socket = UnixSocket::Connect(io_, peer.card.unix_address);
  if (!socket.ok()) return socket.status();
  peer.parts.rings = *std::move(rings);
  peer.parts.socket = *std::move(socket);
  const int fds[] = {peer.parts.rings->fd(), bell_};
  const std::string hello = wire::native::Encode(
      HelloFor(member, peer.card, LinkPurpose::kConversation, card_, options_));
  if (absl::Status sent = peer.parts.socket->Send(hello, fds); !sent.ok()) return sent;
  runtime::FaultPoint("memory/dialed");
  peer.parts.socket->OnReadable([weak = weak_from_this(), member] {
    if (const auto self = weak.lock()) self->TakeWelcome(member);
  });
  return absl::OkStatus();
}

absl::Status Connector::Knock(MemberIndex member, Peer& peer) {
  LOCKSTEP_DCHECK(member < options_.self);
  peer.state = State::kKnocking;
  auto socket = UnixSocket::Connect(io_, peer.card.unix_address);
  if (!socket.ok()) return socket.status();
  // Told and gone: it dials.
  const PeerHello hello = HelloFor(member, peer.card, LinkPurpose::kKnock, card_, options_);
  const absl::Status sent = (*socket)->Send(wire::native::Encode(hello), {});
  runtime::FaultPoint("memory/knocked");
  return sent;
}

void Connector::TakeWelcome(MemberIndex member) {
  Peer& peer = peers_[member];
  if (peer.state != State::kDialing || peer.parts.socket == nullptr) return;
  auto message = peer.parts.socket->Receive();
  if (message.ok() && !message->has_value()) return;
  const absl::Status status =
      message.ok() ? FinishDial(member, peer, **std::move(message)) : message.status();
  if (!status.ok()) Failed(member, status);
}

absl::Status Connector::FinishDial(MemberIndex member, Peer& peer, UnixSocket::Message message) {
  const auto welcome = wire::native::Decode<PeerWelcome>(message.bytes);
  if (!welcome.ok()) return welcome.status();
  if (welcome->version != kPeerVersion || message.fds.size() != 1) {
    return absl::InvalidArgumentError("it answered our hello with what is no welcome");
  }
  peer.parts.bell = std::move(message.fds[0]);
  const PeerWelcome confirmation = {.version = kPeerVersion};
  const std::string bytes = wire::native::Encode(confirmation);
  if (absl::Status sent = peer.parts.socket->Send(bytes, {}); !sent.ok()) return sent;
  runtime::FaultPoint("memory/confirmed");
  return StartShared(member, peer, /*first=*/true);
}

absl::Status Connector::StartShared(MemberIndex member, Peer& peer, bool first) {
  LOCKSTEP_DCHECK(peer.parts.socket != nullptr && peer.parts.rings != nullptr);
  auto stream = SharedStream::Start(std::exchange(peer.parts, {}), first, mutex_,
                                    events_.stream_events(member, peer.incarnation));
  if (!stream.ok()) return stream.status();
  peer.state = State::kUp;
  peer.timer = nullptr;
  events_.connected(member, peer.incarnation, *std::move(stream), "");
  return absl::OkStatus();
}

void Connector::DialTimedOut(MemberIndex member) {
  const State state = peers_[member].state;
  if (state != State::kDialing && state != State::kKnocking) return;
  Failed(member, absl::DeadlineExceededError(absl::StrFormat(
                     "it did not answer our hello within %s: stopped, or overloaded",
                     absl::FormatDuration(options_.hello_timeout))));
}

void Connector::Peer::GiveUp() {
  timer = nullptr;
  if (parts.socket) parts.socket->Close();
  parts = {};
}

void Connector::Failed(MemberIndex member, const absl::Status& why) {
  Peer& peer = peers_[member];
  peer.GiveUp();
  peer.state = State::kFinding;
  if (IsForGood(why) || ++peer.failures >= options_.memory_attempts_max) {
    peer.why_not_shared = std::string(why.message());
  }
  const absl::Duration pause =
      std::min(options_.retry_last, options_.retry_first * (1 << std::min(peer.failures, 16)));
  ArmTimer(member, pause, &Connector::Find);
}

// --- Being reached ---

absl::Status Connector::Greet(const UnixHellos::Socket& socket, UnixSocket::Message message) {
  const auto process = PeerCredentials(socket->fd());
  if (!process.ok()) return process.status();
  if (process->uid != card_.uid) return absl::PermissionDeniedError("another user");
  const auto hello = wire::native::Decode<PeerHello>(message.bytes);
  if (!hello.ok()) return hello.status();
  if (absl::Status status = CheckHello(*hello, card_, options_); !status.ok()) return status;
  const bool dials = hello->purpose == LinkPurpose::kConversation;
  if (dials != (hello->from < hello->to)) {
    return absl::InvalidArgumentError("of two members the one with the smaller index dials");
  }
  const MemberIndex from(hello->from);
  if (absl::Status heeded = Heed(from, hello->from_incarnation); !heeded.ok()) return heeded;
  if (dials) return Welcome(socket, from, std::move(message));
  socket->Close();
  // It waits for our dial: with the timer, if a dial of ours is under way.
  Connect(from);
  return absl::OkStatus();
}

absl::Status Connector::Welcome(const UnixHellos::Socket& socket, MemberIndex from,
                                UnixSocket::Message message) {
  Peer& peer = peers_[from];
  if (peer.state == State::kUp) return absl::AlreadyExistsError("there is a stream");
  if (message.fds.size() != 2) return absl::InvalidArgumentError("a hello without memory");
  auto rings = SharedStream::MapRings(std::move(message.fds[0]));
  if (!rings.ok()) return rings.status();
  const int fds[] = {bell_};
  const PeerWelcome welcome = {.version = kPeerVersion, .transports = card_.transports};
  if (absl::Status sent = socket->Send(wire::native::Encode(welcome), fds); !sent.ok()) return sent;
  runtime::FaultPoint("memory/welcomed");
  peer.GiveUp();
  peer.state = State::kWelcomed;
  peer.parts = {.socket = socket, .rings = *std::move(rings), .bell = std::move(message.fds[1])};
  socket->OnReadable([weak = weak_from_this(), from] {
    if (const auto self = weak.lock()) self->TakeConfirmation(from);
  });
  return absl::OkStatus();
}

// Until it comes, or the socket ends, it is for the one that dialed to say what is.
void Connector::TakeConfirmation(MemberIndex member) {
  Peer& peer = peers_[member];
  if (peer.state != State::kWelcomed || peer.parts.socket == nullptr) return;
  auto message = peer.parts.socket->Receive();
  if (message.ok() && !message->has_value()) return;
  const absl::Status status =
      message.ok() ? StartShared(member, peer, /*first=*/false) : message.status();
  if (!status.ok()) Failed(member, status);
}

}  // namespace lockstep::transport
