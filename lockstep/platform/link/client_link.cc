#include "lockstep/platform/link/client_link.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/link/leader_dial.h"
#include "lockstep/platform/link/own_token.h"
#include "lockstep/platform/link/refusals.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::link {
namespace {

using wire::native::ErrorReply;
using wire::native::Hello;
using wire::native::Refused;
using wire::native::Welcome;

// A server that is silent for so long may have been replaced, where there are others: to search
// costs nothing but a new connection.
constexpr absl::Duration kSilenceOfOneOfSeveral = absl::Milliseconds(2500);

// The server takes at most kNameBytes of the whole; programs may call themselves anything.
std::string Short(const std::string& who) {
  constexpr size_t kWhoBytesMax = 128;
  // Behind it come pid and host.
  static_assert(kWhoBytesMax + sizeof(", pid 2147483647 on ") <= wire::native::kNameBytes.max);
  return wire::native::ToUtf8(wire::native::ToUtf8(who).substr(0, kWhoBytesMax));
}

std::string WithPidAndHost(const std::string& who) {
  return wire::native::ToUtf8(
      absl::StrCat(Short(who), ", pid ", ::getpid(), " on ", runtime::HostName()));
}

}  // namespace

// A token is sent only to the server that the fingerprint identifies, and only over TLS. A server
// that accepts plaintext connections from this host knows the user of each.
absl::StatusOr<ClientLink::Identity> ClientLink::IdentityFor(const runtime::Address& address,
                                                             std::optional<std::string> token) {
  Identity identity;
  if (address.fingerprint.empty()) return identity;
  auto layer = runtime::SecureCall(address);
  if (!layer.ok()) return layer.status();
  identity.layer = *std::move(layer);
  if (token.has_value()) {
    identity.token = *std::move(token);
    return identity;
  }
  auto own = OwnToken();
  if (!own.ok()) return own.status();
  identity.token = *std::move(own);
  return identity;
}

std::shared_ptr<ClientLink> ClientLink::Dial(asio::io_context& io, const runtime::Address& address,
                                             absl::Duration timeout, const std::string& who,
                                             const LinkOptions& options, Events events,
                                             std::optional<std::string> token) {
  std::shared_ptr<ClientLink> link(
      new ClientLink(address, runtime::ToString(address), options, std::move(events)));
  runtime::Dial(io, address, timeout,
                [&io, link, address, who,
                 token = std::move(token)](absl::StatusOr<asio::ip::tcp::socket> socket) {
                  if (!socket.ok()) return link->Closed(socket.status());
                  if (link->closed()) return runtime::CloseSocket(*socket);
                  auto identity = IdentityFor(address, token);
                  if (!identity.ok()) {
                    runtime::CloseSocket(*socket);
                    return link->Closed(identity.status());
                  }
                  link->Connected(io, *std::move(socket), *std::move(identity), who);
                });
  return link;
}

std::shared_ptr<ClientLink> ClientLink::Dial(asio::io_context& io,
                                             const std::shared_ptr<Servers>& servers,
                                             absl::Duration timeout, const std::string& who,
                                             const LinkOptions& options, Events events,
                                             std::optional<std::string> token) {
  std::shared_ptr<ClientLink> link(new ClientLink({}, servers->text(), options, std::move(events)));
  LinkOptions found = options;
  if (servers->addresses().size() > 1) {
    found.silence_timeout = std::min(found.silence_timeout, kSilenceOfOneOfSeveral);
  }
  const std::weak_ptr<ClientLink> weak = link;
  link->search_ = std::make_shared<LeaderDial>(
      io, servers,
      LeaderDial::Attempt{.timeout = timeout, .who = who, .link = found, .token = std::move(token)},
      LeaderDial::Events{.found =
                             [weak](ClientLink& leader, const Welcome& welcome) {
                               if (auto self = weak.lock()) self->TakeOver(leader, welcome);
                             },
                         .failed =
                             [weak](const absl::Status& why) {
                               const auto self = weak.lock();
                               if (self == nullptr) return;
                               const auto search = std::exchange(self->search_, nullptr);
                               self->Closed(why);
                             }});
  link->search_->Start();
  return link;
}

absl::Status ClientLink::why_not_found() const {
  return search_ == nullptr ? absl::OkStatus() : search_->why();
}

void ClientLink::TakeOver(ClientLink& leader, const Welcome& welcome) {
  LOCKSTEP_CHECK(connection_ == nullptr && !closed());
  const auto search = std::exchange(search_, nullptr);  // runs now
  address_ = leader.address_;
  server_ = leader.server_;
  local_address_ = leader.local_address_;
  connection_ = std::exchange(leader.connection_, nullptr);
  route_ = std::exchange(leader.route_, nullptr);
  route_->owner = weak_from_this();
  welcomed_ = true;
  leader.Abandon();
  const auto events = events_;
  if (events->ready) events->ready(welcome);
}

void ClientLink::Connected(asio::io_context& io, asio::ip::tcp::socket socket, Identity identity,
                           const std::string& who) {
  LOCKSTEP_DCHECK(connection_ == nullptr && !welcomed_);
  asio::error_code gone;  // then it is closed soon
  local_address_ = socket.local_endpoint(gone).address();
  route_ = std::make_shared<Route>(Route{weak_from_this()});
  connection_ = Connection::Start(
      io, std::make_shared<Channel>(std::move(socket), std::move(identity.layer)), options_,
      {.message =
           [route = route_](Message&& message) {
             if (auto self = route->owner.lock()) self->Take(std::move(message));
           },
       .closed =
           [route = route_](const absl::Status& why) {
             const auto self = route->owner.lock();
             if (self == nullptr) return;
             self->Closed(self->welcomed_ ? why : self->NotWelcomed(why));
           }});
  const Hello hello = {.version_min = kLinkVersion,
                       .version_max = kLinkVersion,
                       .who = WithPidAndHost(who),
                       .token = std::move(identity.token)};
  connection_->Send(
      {.type = FrameType::kHello, .must_understand = true, .payload = wire::native::Encode(hello)});
}

void ClientLink::Take(Message&& message) {
  if (closed()) return;
  if (!welcomed_) return Greeted(message);
  const auto events = events_;  // a handler may let go of this link
  if (events->message) return events->message(std::move(message));
  if (IsOfTunnel(message.type) && events->tunnel) return events->tunnel(std::move(message));
  const bool answers = message.type == FrameType::kAnswer || message.type == FrameType::kError;
  if (!answers) {
    return connection_->Close(
        absl::InvalidArgumentError(absl::StrFormat("frame of type %d where an answer was due",
                                                   static_cast<int>(message.type))),
        "protocol");
  }
  auto node = waiting_.extract(message.id);
  if (node.empty()) return;
  if (message.type == FrameType::kAnswer) return node.mapped()(std::move(message.payload));
  auto error = wire::native::Decode<ErrorReply>(message.payload);
  node.mapped()(error.ok() ? wire::native::ToStatus(*error) : error.status());
}

void ClientLink::Greeted(const Message& message) {
  const auto fail = [this](absl::Status why) {
    connection_->Abandon();
    Closed(why);
  };
  if (message.type == FrameType::kRefused) {
    auto refused = wire::native::Decode<Refused>(message.payload);
    if (!refused.ok()) return fail(refused.status());
    const bool passes = IsUndecided(refused->reason) || refused->reason == "not_leader";
    absl::Status why = wire::native::WithReason(
        absl::Status(
            passes ? absl::StatusCode::kUnavailable : absl::StatusCode::kFailedPrecondition,
            absl::StrCat("the server at ", address_, " refused the link: ", refused->message)),
        refused->reason);
    if (!refused->leader.empty()) {
      why = wire::native::WithDetail(std::move(why), kLeaderDetail, refused->leader);
    }
    return fail(std::move(why));
  }
  auto welcome = wire::native::Decode<Welcome>(message.payload);
  if (message.type != FrameType::kWelcome || !welcome.ok()) {
    return fail(absl::InvalidArgumentError(
        absl::StrFormat("%s answered the hello with a frame of type %d instead of a welcome",
                        address_, static_cast<int>(message.type))));
  }
  welcomed_ = true;
  connection_->Welcomed(welcome->message_bytes_max);
  const auto events = events_;
  if (events->ready) events->ready(*welcome);
}

// Who listens there may be no server of ours: a stock listener, a web server, another program.
absl::Status ClientLink::NotWelcomed(const absl::Status& why) const {
  if (absl::IsUnauthenticated(why)) {
    return wire::native::WithReason(
        absl::UnauthenticatedError(absl::StrCat(
            "the server at ", address_,
            " has no certificate that matches its join string (#sha256=...): another program "
            "answers there, or the server's certificate is new, has expired, or does not name "
            "this host; use the join string in the server's log or ready file (",
            std::string(why.message()), ")")),
        "certificate_refused");
  }
  if (absl::IsPermissionDenied(why)) {
    return wire::native::WithReason(
        absl::PermissionDeniedError(absl::StrCat(
            "the server at ", address_,
            " refused the TLS connection: it requires a certificate of its --client-ca; set "
            "LOCKSTEP_TLS_CERT_FILE and LOCKSTEP_TLS_KEY_FILE (",
            std::string(why.message()), ")")),
        "certificate_required");
  }
  absl::Status status(
      why.code(),
      absl::StrCat("who listens at ", address_, " did not greet us as a lockstep server does (",
                   why.message(),
                   "): is that the address of the server's --listen, and not of a job's stock "
                   "clients or of --http?"));
  why.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { status.SetPayload(url, payload); });
  return status;
}

uint64_t ClientLink::Call(RequestKind kind, std::string payload, Answered answered) {
  const uint64_t id = ++last_id_;
  if (closed()) {
    answered(closed_);
    return id;
  }
  LOCKSTEP_CHECK(welcomed_);
  if (payload.size() > options_.message_bytes_max) {
    answered(absl::ResourceExhaustedError(
        absl::StrFormat("the request has %d bytes, %d are allowed (message_bytes_max)",
                        payload.size(), options_.message_bytes_max)));
    return id;
  }
  waiting_.emplace(id, std::move(answered));
  connection_->Send({.type = FrameType::kRequest,
                     .must_understand = true,
                     .kind = kind,
                     .id = id,
                     .payload = std::move(payload)});
  return id;
}

void ClientLink::Send(Message frame) {
  LOCKSTEP_CHECK(welcomed_);
  if (!closed()) connection_->Send(std::move(frame));
}

void ClientLink::BreakRules(absl::Status why) {
  if (connection_ && !closed()) connection_->Close(std::move(why), "protocol");
}

void ClientLink::SendNow(std::vector<Message> messages) {
  LOCKSTEP_CHECK(welcomed_);
  if (!closed()) connection_->SendNow(std::move(messages));
}

void ClientLink::Farewell() {
  if (search_) std::exchange(search_, nullptr)->Abandon();
  if (welcomed_ && !closed()) connection_->Close(absl::CancelledError("done"), "done");
  if (!closed()) closed_ = absl::CancelledError("the link was closed");
  events_ = nullptr;
  waiting_.clear();
  if (!welcomed_ && connection_) connection_->Abandon();
}

void ClientLink::Abandon() {
  if (search_) std::exchange(search_, nullptr)->Abandon();
  if (!closed()) closed_ = absl::CancelledError("the link was abandoned");
  events_ = nullptr;
  waiting_.clear();
  if (connection_) connection_->Abandon();
}

void ClientLink::Closed(const absl::Status& why) {
  if (closed()) return;
  LOCKSTEP_DCHECK(!why.ok());
  closed_ = why;
  auto waiting = std::exchange(waiting_, {});
  const absl::Status error(why.code(), absl::StrCat(why.message(),
                                                    "; it had a request, which may or may not "
                                                    "have taken effect"));
  for (auto& [id, answered] : waiting) answered(error);
  const auto events = std::exchange(events_, nullptr);  // null: one of those abandoned the link
  if (events != nullptr && events->closed) events->closed(why);
}

}  // namespace lockstep::link
