#include "lockstep/platform/link/server.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/platform/link/connection.h"
#include "lockstep/platform/link/link_places.h"
#include "lockstep/platform/link/refused_connections.h"
#include "lockstep/platform/runtime/acceptor.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/link_messages.h"

namespace lockstep::link {

using wire::native::Hello;
using wire::native::Refused;
using wire::native::Welcome;

namespace {

Payload Failure(const absl::Status& status) {
  return {.failed = true,
          .bytes = wire::native::Encode(wire::native::ToErrorReply(status)),
          .shared = nullptr};
}

Message Refusal(std::string reason, std::string text, std::string leader = "") {
  return {
      .type = FrameType::kRefused,
      .payload = wire::native::Encode(Refused{
          .reason = std::move(reason), .message = std::move(text), .leader = std::move(leader)})};
}

std::string NotLeaderText(const std::string& leader) {
  return absl::StrCat("this server stands by and does not lead: ",
                      leader.empty() ? "no server that leads is known; try again"
                                     : absl::StrCat("the one at ", leader, " does"));
}

// Links are looked at for one that is quiet so often while it becomes so, at most.
constexpr int kLooksInIdleTimeout = 8;

// Answers from here on are not sent when there is no memory for them.
constexpr size_t kLongAnswerBytes = size_t{64} << 10;
// Refusals are sent without asking for memory, also those that say that there is none.
static_assert(kErrorTextBytesMax < kLongAnswerBytes);

absl::Status MemoryMax(runtime::MemoryAccount& memory, size_t bytes) {
  return wire::native::WithReason(absl::ResourceExhaustedError(memory.Refusal(bytes)),
                                  "memory_max");
}

// This one has 16 million addresses.
asio::ip::address HostOf(const asio::ip::address& address) {
  return address.is_loopback() ? asio::ip::address(asio::ip::address_v4::loopback()) : address;
}

absl::Status LimitExceeded(std::string text) {
  return wire::native::WithReason(absl::ResourceExhaustedError(std::move(text)), "limit_exceeded");
}

}  // namespace

Responder::~Responder() {
  if (owed_) Fail(absl::InternalError("the server gave up this request without an answer"));
}

void Responder::Fail(const absl::Status& status) {
  LOCKSTEP_CHECK(!status.ok());
  Send(Failure(status));
}

void Responder::Send(Payload payload) {
  LOCKSTEP_CHECK(std::exchange(owed_, false));
  if (auto sink = sink_.lock()) sink->Answer(link_, kind_, id_, std::move(payload));
}

void Responder::SendForAll(Payload payload, std::vector<Responder> others) {
  payload.also.reserve(others.size());
  for (Responder& other : others) {
    LOCKSTEP_CHECK(other.link_ == link_ && std::exchange(other.owed_, false));
    payload.also.push_back(other.id_);
  }
  Send(std::move(payload));
}

class Server::Impl : public Responder::Sink, public std::enable_shared_from_this<Server::Impl> {
 public:
  Impl(runtime::Loop& loop, Options options, ServerEvents events)
      : loop_(loop),
        options_(std::move(options)),
        events_(std::move(events)),
        acceptor_(
            loop,
            {.connections_max = 0,
             .pause = options_.accept_retry,
             .goodbye = EncodeMessage(Refusal("connection_limit",
                                              "the server has no file descriptor left: raise its "
                                              "limit of open files (ulimit -n)")),
             .make_room = [this] { return DropOldestGreeting(); },
             .allowed = options_.allowed,
             .goodbye_to_strangers =
                 EncodeMessage(Refusal("not_allowed", runtime::StrangersText(options_.allowed)))},
            [this](int fd) { Add(fd); },
            [this](std::string text) { Log("link: " + std::move(text)); }),
        refused_(loop.io(), options_.link, options_.accept_secure, options_.refusals_max),
        places_({.connections_max = options_.connections_max,
                 .connections_per_host_max = options_.connections_per_host_max,
                 .reserved = options_.connections_reserved,
                 .greetings_max = options_.greetings_max,
                 .first_request_timeout = options_.first_request_timeout,
                 .hello_timeout = options_.link.hello_timeout}),
        reservations_timer_(loop) {}

  absl::Status Listen(const runtime::Address& at);
  void Answer(LinkId id, RequestKind kind, uint64_t request, Payload payload) override;
  void Admit(LinkId id, Verdict verdict);
  void Send(LinkId id, Message frame);
  void Close(LinkId id, absl::Status why, std::string_view farewell_reason);
  void Drain(std::function<void()> done);
  void End();

  const std::string& address() const { return address_; }
  size_t welcomed() const { return places_.welcomed(); }

 private:
  // kAwaited: it has said hello, and nobody has said yet what it may.
  enum class Stage { kGreeting, kAwaited, kRefused, kWelcomed, kAsked };

  struct Link {
    std::shared_ptr<Connection> connection;
    Stage stage = Stage::kGreeting;
    std::string who;
    Rights rights;
    Time quiet_since;                         // of one that has asked: it waits for no answer
    absl::flat_hash_set<uint64_t> in_flight;  // requests that are not answered
  };

  void Add(int fd);
  void Refuse(asio::ip::tcp::socket socket, const std::string& text);
  // False: there is none.
  bool DropOldestGreeting();
  // The oldest link, of a host or (null) of the host with most of them, that has asked for nothing
  // since its welcome gives its place to one that comes, unless it is too young for that.
  bool DropIdle(const asio::ip::address* of);
  // So does the one that has been quiet for longest, of a host or (null) of all, if it is long
  // enough. Looks at all links, but not again at once if there was none.
  void DropQuiet(const asio::ip::address* of);
  // Who took one of the last places and has not asked for anything by now.
  void EndReservations();
  void ArmReservations();
  void Drop(LinkId id, const std::string& why);
  // A link with one of the last places asked first for something; false: it is sent away.
  bool MayStay(const Link& link, const Request& request);
  void Remove(LinkId id, const absl::Status& why);
  void Take(LinkId id, Message&& message);
  void Greet(LinkId id, Link& link, const Message& message);
  void TakeOpen(LinkId id, Link& link, Message&& message);
  void TakeRequest(LinkId id, Link& link, Message&& message);
  void TakeAnswered(LinkId id, Link& link, const Message& message);
  void Log(std::string text) const {
    if (options_.log) options_.log(std::move(text));
  }

  runtime::Loop& loop_;
  const Options options_;
  ServerEvents events_;
  runtime::Acceptor acceptor_;
  std::string address_;
  absl::flat_hash_map<LinkId, std::unique_ptr<Link>> links_;
  RefusedConnections refused_;
  LinkPlaces places_;  // one for each of `links_`
  runtime::Timer reservations_timer_;
  struct {
    Time of_all;
    Time of_host;
  } next_look_;
  uint64_t last_link_ = 0;
  std::function<void()> drained_;
};

absl::Status Server::Impl::Listen(const runtime::Address& at) {
  if (absl::Status status = acceptor_.Listen(at); !status.ok()) return status;
  address_ = runtime::ToString(acceptor_.address());
  acceptor_.Start();
  return absl::OkStatus();
}

bool Server::Impl::DropOldestGreeting() {
  const std::optional<LinkId> oldest = places_.OldestGreeting();
  if (!oldest) return false;
  places_.Leave(*oldest);
  const auto node = links_.extract(*oldest);
  if (node.mapped()->stage == Stage::kAwaited) options_.left(*oldest);
  node.mapped()->connection->Abandon();
  return true;
}

bool Server::Impl::DropIdle(const asio::ip::address* of) {
  const std::optional<LinkId> oldest = places_.OldestIdle(runtime::MonotonicNow(), of);
  if (!oldest) return false;
  Drop(*oldest, "it asked for nothing, and its place was needed (first_request_timeout)");
  return true;
}

void Server::Impl::DropQuiet(const asio::ip::address* of) {
  const Time now = runtime::MonotonicNow();
  Time& next_look = of != nullptr ? next_look_.of_host : next_look_.of_all;
  if (now < next_look) return;
  LinkId quietest;
  Time since = now;
  for (const auto& [id, link] : links_) {
    if (link->stage != Stage::kAsked || !link->in_flight.empty()) continue;
    if (now - link->quiet_since < options_.idle_timeout) continue;
    if (of != nullptr && places_.HostOf(id) != *of) continue;
    if (quietest != LinkId() && link->quiet_since >= since) continue;
    if (events_.holds && events_.holds(id)) continue;
    quietest = id;
    since = link->quiet_since;
  }
  if (quietest == LinkId()) {
    next_look = now + options_.idle_timeout / kLooksInIdleTimeout;
    return;
  }
  Drop(quietest, "it has asked for nothing for long, and its place was needed (idle_timeout)");
}

void Server::Impl::EndReservations() {
  const Time now = runtime::MonotonicNow();
  while (const std::optional<LinkId> id = places_.EndReservation(now)) {
    Drop(*id,
         "it took a place that is for sessions that go on, and asked for nothing "
         "(hello_timeout)");
  }
  ArmReservations();
}

void Server::Impl::ArmReservations() {
  reservations_timer_.Arm(places_.NextReservationEnd(), [this] { EndReservations(); });
}

void Server::Impl::Drop(LinkId id, const std::string& why) {
  LOCKSTEP_DCHECK(links_.contains(id));
  places_.Leave(id);
  const auto node = links_.extract(id);
  if (events_.ended) events_.ended(id, /*by_peer=*/false);
  node.mapped()->connection->Close(absl::ResourceExhaustedError(why), "connection_limit");
}

void Server::Impl::Refuse(asio::ip::tcp::socket socket, const std::string& text) {
  const std::string peer = refused_.Add(std::move(socket), Refusal("connection_limit", text), text);
  if (!peer.empty()) Log(absl::StrCat("link: refused ", peer, ": ", text));
}

void Server::Impl::Add(int fd) {
  asio::ip::tcp::socket socket(loop_.io());
  asio::error_code error;
  socket.assign(acceptor_.address().protocol(), fd, error);
  if (error) {
    ::close(fd);
    return Log(absl::StrCat("link: a new connection is lost: ", error.message()));
  }
  const asio::ip::address host = HostOf(socket.remote_endpoint(error).address());
  if (error) return;  // it has gone already
  if (places_.HostIsFull(host)) {
    if (!DropIdle(&host)) DropQuiet(&host);
  } else if (places_.Crowded()) {
    if (!DropIdle(nullptr)) DropQuiet(nullptr);
  }
  if (const std::string limit = places_.LimitReached(host); !limit.empty()) {
    return Refuse(std::move(socket), limit);
  }
  if (places_.GreetingsAreFull()) DropOldestGreeting();
  const LinkId id(++last_link_);
  auto link = std::make_unique<Link>();
  auto channel = std::make_shared<Channel>(std::move(socket), options_.accept_secure);
  link->connection = Connection::Start(loop_.io(), std::move(channel), options_.link,
                                       {.message =
                                            [weak = weak_from_this(), id](Message&& message) {
                                              if (auto self = weak.lock())
                                                self->Take(id, std::move(message));
                                            },
                                        .closed =
                                            [weak = weak_from_this(), id](const absl::Status& why) {
                                              if (auto self = weak.lock()) self->Remove(id, why);
                                            }},
                                       options_.memory);
  links_.emplace(id, std::move(link));
  places_.Add(id, host);
}

void Server::Impl::Remove(LinkId id, const absl::Status& why) {
  const auto node = links_.extract(id);
  if (node.empty()) return;
  const Link& link = *node.mapped();
  places_.Leave(id);
  // A client that goes is no news; one that breaks the rules is.
  if (!absl::IsUnavailable(why)) {
    Log(absl::StrCat("link: closed ", link.connection->peer(),
                     link.who.empty() ? "" : absl::StrCat(" (", link.who, ")"), ": ",
                     std::string(why.message())));
  }
  if (link.stage == Stage::kAwaited) options_.left(id);
  if (link.stage >= Stage::kWelcomed && events_.ended) events_.ended(id, ClosedByPeer(why));
  if (links_.empty() && drained_) std::exchange(drained_, nullptr)();
}

void Server::Impl::Take(LinkId id, Message&& message) {
  const auto it = links_.find(id);
  if (it == links_.end()) return;
  Link& link = *it->second;
  if (link.stage >= Stage::kWelcomed) return TakeOpen(id, link, std::move(message));
  if (message.type == FrameType::kHello && link.stage == Stage::kGreeting) {
    return Greet(id, link, message);
  }
  link.connection->Close(
      absl::InvalidArgumentError(absl::StrFormat(
          "frame of type %d where %s was due", static_cast<int>(message.type),
          link.stage == Stage::kGreeting ? "a hello" : "nothing before the welcome")),
      "protocol");
}

void Server::Impl::TakeOpen(LinkId id, Link& link, Message&& message) {
  switch (message.type) {
    case FrameType::kRequest:
      return TakeRequest(id, link, std::move(message));
    case FrameType::kAnswered:
      return TakeAnswered(id, link, message);
    case FrameType::kCancel:
      // What was answered meanwhile is answered.
      if (events_.cancelled && link.in_flight.contains(message.id)) {
        events_.cancelled(id, message.id);
      }
      return;
    default:
      if (IsOfTunnel(message.type) && events_.tunnel) {
        return events_.tunnel(id, std::move(message));
      }
      link.connection->Close(
          absl::InvalidArgumentError(absl::StrFormat("frame of type %d where a request was due",
                                                     static_cast<int>(message.type))),
          "protocol");
  }
}

void Server::Impl::TakeAnswered(LinkId id, Link& link, const Message& message) {
  auto answered = wire::native::Decode<wire::native::Answered>(message.payload);
  if (!answered.ok()) return link.connection->Close(answered.status(), "protocol");
  if (events_.answered) events_.answered(id, answered->through);
}

void Server::Impl::Greet(LinkId id, Link& link, const Message& message) {
  LOCKSTEP_DCHECK(link.stage == Stage::kGreeting);
  auto hello = wire::native::Decode<Hello>(message.payload);
  if (!hello.ok()) return link.connection->Close(hello.status(), "protocol");
  link.who = hello->who;
  if (hello->version_min > kLinkVersion || hello->version_max < kLinkVersion) {
    const std::string text = absl::StrFormat(
        "this server speaks version %d of the link, the client %d to %d: update the older of the "
        "two",
        kLinkVersion, hello->version_min, hello->version_max);
    return link.connection->Close(
        {.type = FrameType::kRefused,
         .payload = wire::native::Encode(Refused{.reason = "version", .message = text})},
        absl::FailedPreconditionError(text));
  }
  if (!options_.allows_plain && !link.connection->channel().secure()) {
    const std::string text =
        "this server speaks TLS only: use its join string, lockstep://HOST:PORT#sha256=..., from "
        "its log or ready file";
    return link.connection->Close(Refusal("tls_required", text),
                                  absl::FailedPreconditionError(text));
  }
  link.stage = Stage::kAwaited;
  if (!options_.admit) return Admit(id, Rights());
  auto verdict = options_.admit(id, {.token = hello->token,
                                     .secure = link.connection->channel().secure(),
                                     .local = acceptor_.address().address().is_loopback(),
                                     .uris = link.connection->channel().peer_uris(),
                                     .host = places_.HostOf(id).to_string()});
  if (verdict) Admit(id, *std::move(verdict));
}

void Server::Impl::Admit(LinkId id, Verdict verdict) {
  const auto it = links_.find(id);
  if (it == links_.end()) return;
  Link& link = *it->second;
  // One that is being closed is not welcomed any more.
  if (link.stage != Stage::kAwaited || drained_) return;
  if (!verdict.ok()) {
    link.stage = Stage::kRefused;
    return link.connection->Close(
        Refusal(wire::native::ReasonOf(verdict.status()), std::string(verdict.status().message())),
        verdict.status());
  }
  Leadership leadership = events_.leadership ? events_.leadership() : Leadership();
  if (!leadership.leads) {
    if (leadership.leader.size() > wire::native::kAddressBytes.max) leadership.leader.clear();
    const std::string text = NotLeaderText(leadership.leader);
    link.stage = Stage::kRefused;
    // As one that goes: a search of any client is no news.
    return link.connection->Close(Refusal("not_leader", text, std::move(leadership.leader)),
                                  absl::UnavailableError(text));
  }
  link.rights = *std::move(verdict);
  link.stage = Stage::kWelcomed;
  if (places_.Welcome(runtime::MonotonicNow(), id)) ArmReservations();
  link.connection->SetName(link.who);
  link.connection->Welcomed();
  link.connection->Send(
      {.type = FrameType::kWelcome,
       .payload = wire::native::Encode(Welcome{
           .version = kLinkVersion,
           .service_instance = options_.service_instance,
           .message_bytes_max = options_.link.message_bytes_max,
           .requests_in_flight_max = static_cast<uint32_t>(options_.link.requests_in_flight_max),
           .epoch = leadership.epoch})});
}

void Server::Impl::TakeRequest(LinkId id, Link& link, Message&& message) {
  if (!link.in_flight.insert(message.id).second) {
    return link.connection->Close(
        absl::InvalidArgumentError(absl::StrFormat(
            "request %d came twice before its answer: numbers must not be used again", message.id)),
        "protocol");
  }
  if (link.in_flight.size() > options_.link.requests_in_flight_max) {
    return Answer(
        id, message.kind, message.id,
        Failure(LimitExceeded(absl::StrFormat("more than %d requests of this link wait for answers "
                                              "(requests_in_flight_max); wait for some",
                                              options_.link.requests_in_flight_max))));
  }
  if (message.dropped) {
    return Answer(id, message.kind, message.id, Failure(MemoryMax(*options_.memory, 0)));
  }
  if (absl::Status may = CheckRights(link.rights, message.kind, message.payload); !may.ok()) {
    return Answer(id, message.kind, message.id, Failure(may));
  }
  Request request = {.link = id,
                     .id = message.id,
                     .kind = message.kind,
                     .payload = std::move(message.payload),
                     .who = link.who,
                     .peer = link.connection->peer(),
                     .rights = link.rights};
  const bool is_first = std::exchange(link.stage, Stage::kAsked) != Stage::kAsked;
  if (is_first && places_.Ask(id) && !MayStay(link, request)) return;
  events_.request(std::move(request), Responder(weak_from_this(), id, message.kind, message.id));
}

bool Server::Impl::MayStay(const Link& link, const Request& request) {
  if (events_.resumes && events_.resumes(request)) return true;
  const std::string text = absl::StrFormat(
      "%d connections are open, and the last %d of %d are for sessions that go on "
      "(connections_max)",
      links_.size(), options_.connections_reserved, options_.connections_max);
  link.connection->Close(Refusal("connection_limit", text), absl::ResourceExhaustedError(text));
  return false;
}

void Server::Impl::Answer(LinkId id, RequestKind kind, uint64_t request, Payload payload) {
  const auto it = links_.find(id);
  if (it == links_.end() || it->second->in_flight.erase(request) == 0) return;
  for (const uint64_t other : payload.also) it->second->in_flight.erase(other);
  if (it->second->in_flight.empty()) it->second->quiet_since = runtime::MonotonicNow();
  std::string also;  // encoded; empty: nobody else is answered
  if (!payload.also.empty()) {
    also = wire::native::Encode(wire::native::AlsoAnswered{.requests = std::move(payload.also)});
  }
  const size_t bytes = payload.shared != nullptr ? payload.shared->size() : payload.bytes.size();
  if (bytes > options_.link.message_bytes_max) {
    payload = Failure(LimitExceeded(
        absl::StrFormat("the answer has %d bytes, %d are allowed (message_bytes_max); ask for less",
                        bytes, options_.link.message_bytes_max)));
  } else if (bytes > kLongAnswerBytes &&
             !it->second->connection->HasRoom(bytes + also.size() + kFrameHeaderBytes)) {
    // One link carries the answers of many callers where it is an agent's: those that fit go.
    payload = Failure(LimitExceeded(absl::StrFormat(
        "the answer has %d bytes, and too many wait to be read on this connection already "
        "(write_queue_bytes_max %d); ask again",
        bytes, options_.link.write_queue_bytes_max)));
  } else if (bytes > kLongAnswerBytes && options_.memory != nullptr &&
             !options_.memory->Holds(bytes)) {
    payload = Failure(MemoryMax(*options_.memory, bytes));
  }
  if (!also.empty()) {
    // Sent first: a message of one frame is never overtaken by a later one.
    it->second->connection->Send({.type = FrameType::kAlsoAnswered,
                                  .must_understand = true,
                                  .id = request,
                                  .payload = std::move(also)});
  }
  Message message = {
      .type = payload.failed ? FrameType::kError : FrameType::kAnswer, .kind = kind, .id = request};
  if (payload.shared != nullptr) {
    it->second->connection->Send(std::move(message), std::move(payload.shared));
  } else {
    message.payload = std::move(payload.bytes);
    it->second->connection->Send(std::move(message));
  }
}

void Server::Impl::Send(LinkId id, Message frame) {
  const auto it = links_.find(id);
  if (it != links_.end()) it->second->connection->Send(std::move(frame));
}

void Server::Impl::Close(LinkId id, absl::Status why, std::string_view farewell_reason) {
  const auto it = links_.find(id);
  if (it != links_.end()) it->second->connection->Close(std::move(why), farewell_reason);
}

void Server::Impl::Drain(std::function<void()> done) {
  acceptor_.Stop();
  reservations_timer_.Cancel();  // all links go
  if (links_.empty()) return loop_.Post(std::move(done));
  LOCKSTEP_DCHECK(drained_ == nullptr);  // the first `done` would be lost
  drained_ = std::move(done);
  for (auto& [id, link] : links_) {
    link->connection->Close(absl::UnavailableError("the server is shutting down"), "shutting_down");
  }
}

void Server::Impl::End() {
  acceptor_.Stop();
  for (auto& [id, link] : links_) link->connection->Abandon();
  links_.clear();
  refused_.Abandon();
  reservations_timer_.Cancel();
  events_ = {};
  drained_ = nullptr;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(runtime::Loop& loop, Options options,
                                                       ServerEvents events) {
  auto address = runtime::ParseAddress(options.listen);
  if (!address.ok()) return address.status();
  auto impl = std::make_shared<Impl>(loop, std::move(options), std::move(events));
  if (absl::Status status = impl->Listen(*address); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { impl_->End(); }
const std::string& Server::address() const { return impl_->address(); }
size_t Server::connections() const { return impl_->welcomed(); }
void Server::Drain(std::function<void()> done) { impl_->Drain(std::move(done)); }
void Server::Admit(LinkId link, Verdict verdict) { impl_->Admit(link, std::move(verdict)); }
void Server::Send(LinkId link, Message frame) { impl_->Send(link, std::move(frame)); }
void Server::Close(LinkId link, absl::Status why, std::string_view farewell_reason) {
  impl_->Close(link, std::move(why), farewell_reason);
}

}  // namespace lockstep::link
