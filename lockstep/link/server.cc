#include "lockstep/link/server.h"

#include <fcntl.h>

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "asio/ip/tcp.hpp"
#include "asio/post.hpp"
#include "lockstep/base/check.h"
#include "lockstep/link/connection.h"
#include "lockstep/runtime/dial.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/link_messages.h"

namespace lockstep::link {

using wire::native::Hello;
using wire::native::Refused;
using wire::native::Welcome;

Responder::~Responder() {
  if (send_ != nullptr) {
    Fail(absl::InternalError("the server gave up this request without an answer"));
  }
}

void Responder::Answer(std::string payload) {
  LOCKSTEP_CHECK(send_ != nullptr);
  std::exchange(send_, nullptr)(std::move(payload));
}

void Responder::Fail(absl::Status status) {
  LOCKSTEP_CHECK(send_ != nullptr && !status.ok());
  std::exchange(send_, nullptr)(std::move(status));
}

class Server::Impl : public std::enable_shared_from_this<Server::Impl> {
 public:
  Impl(runtime::Loop& loop, Options options, Handler handler, asio::ip::tcp::acceptor acceptor)
      : loop_(loop),
        options_(std::move(options)),
        handler_(std::move(handler)),
        acceptor_(std::move(acceptor)),
        retry_(loop),
        address_(runtime::ToString(acceptor_.local_endpoint())) {}

  void Accept();
  void Drain(std::function<void()> done);
  void End();

  const std::string& address() const { return address_; }
  size_t welcomed() const { return welcomed_; }

 private:
  using LinkId = uint64_t;
  struct Link {
    std::shared_ptr<Connection> connection;
    bool welcomed = false;
    std::string who;
    std::set<uint64_t> in_flight;  // requests that are not answered
  };

  void Accepted(const asio::error_code& error, asio::ip::tcp::socket socket);
  void Add(asio::ip::tcp::socket socket);
  void Remove(LinkId id, const absl::Status& why);
  void Take(LinkId id, Message message);
  void Greet(Link& link, const Message& message);
  void TakeRequest(LinkId id, Link& link, Message message);
  void Answer(LinkId id, const Message& request, absl::StatusOr<std::string> answer);
  void Notice(std::string text) const {
    if (options_.notice) options_.notice(std::move(text));
  }

  runtime::Loop& loop_;
  const Options options_;
  Handler handler_;
  asio::ip::tcp::acceptor acceptor_;
  runtime::Timer retry_;
  const std::string address_;
  std::map<LinkId, Link> links_;
  LinkId last_link_ = 0;
  size_t welcomed_ = 0;
  bool accept_failing_ = false;
  std::function<void()> drained_;
};

void Server::Impl::Accept() {
  acceptor_.async_accept(
      [weak = weak_from_this()](const asio::error_code& error, asio::ip::tcp::socket socket) {
        if (auto self = weak.lock()) self->Accepted(error, std::move(socket));
      });
}

// Whatever goes wrong with one connection, the server accepts the next: at once when only that
// connection was at fault, after a while when the host has run out of something, since the waiting
// connection would fail in the same way for as long.
void Server::Impl::Accepted(const asio::error_code& error, asio::ip::tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  if (!error) {
    accept_failing_ = false;
    Add(std::move(socket));
    return Accept();
  }
  if (error == asio::error::connection_aborted) return Accept();
  if (!std::exchange(accept_failing_, true)) {
    Notice(absl::StrFormat("link: cannot accept connections on %s: %s; trying again every %s",
                           address_, error.message(), absl::FormatDuration(options_.accept_retry)));
  }
  retry_.Arm(runtime::MonotonicNow() + options_.accept_retry, [this] { Accept(); });
}

void Server::Impl::Add(asio::ip::tcp::socket socket) {
  asio::error_code ignored;
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  if (links_.size() >= options_.connections_max) {
    auto connection = Connection::Start(loop_.io(), std::move(socket), options_.link, {});
    const std::string text =
        absl::StrFormat("%d connections are open already (connections_max)", links_.size());
    Notice(absl::StrCat("link: refused ", connection->peer(), ": ", text));
    return connection->CloseWith(
        {.type = FrameType::kRefused,
         .payload = wire::native::Encode(Refused{.reason = "connection_limit", .message = text})},
        absl::ResourceExhaustedError(text));
  }
  const LinkId id = ++last_link_;
  links_[id].connection =
      Connection::Start(loop_.io(), std::move(socket), options_.link,
                        {.message =
                             [weak = weak_from_this(), id](Message message) {
                               if (auto self = weak.lock()) self->Take(id, std::move(message));
                             },
                         .closed =
                             [weak = weak_from_this(), id](const absl::Status& why) {
                               if (auto self = weak.lock()) self->Remove(id, why);
                             }});
}

void Server::Impl::Remove(LinkId id, const absl::Status& why) {
  const auto it = links_.find(id);
  if (it == links_.end()) return;
  // A client that goes is no news; one that breaks the rules is.
  if (!absl::IsUnavailable(why)) {
    const std::string& who = it->second.who;
    Notice(absl::StrCat("link: closed ", it->second.connection->peer(),
                        who.empty() ? "" : absl::StrCat(" (", who, ")"), ": ", why.message()));
  }
  if (it->second.welcomed) --welcomed_;
  links_.erase(it);
  if (links_.empty() && drained_) std::exchange(drained_, nullptr)();
}

void Server::Impl::Take(LinkId id, Message message) {
  const auto it = links_.find(id);
  if (it == links_.end()) return;
  Link& link = it->second;
  if (!link.welcomed && message.type == FrameType::kHello) return Greet(link, message);
  if (link.welcomed && message.type == FrameType::kRequest) {
    return TakeRequest(id, link, std::move(message));
  }
  link.connection->Close(absl::InvalidArgumentError(absl::StrFormat(
                             "frame of type %d where a %s was due", static_cast<int>(message.type),
                             link.welcomed ? "request" : "hello")),
                         "protocol");
}

void Server::Impl::Greet(Link& link, const Message& message) {
  auto hello = wire::native::Decode<Hello>(message.payload);
  if (!hello.ok()) return link.connection->Close(hello.status(), "protocol");
  link.who = hello->who;
  if (hello->version_min > kLinkVersion || hello->version_max < kLinkVersion) {
    const std::string text = absl::StrFormat(
        "this server speaks version %d of the link, the client %d to %d: update the older of the "
        "two",
        kLinkVersion, hello->version_min, hello->version_max);
    return link.connection->CloseWith(
        {.type = FrameType::kRefused,
         .payload = wire::native::Encode(Refused{.reason = "version", .message = text})},
        absl::FailedPreconditionError(text));
  }
  link.welcomed = true;
  ++welcomed_;
  link.connection->Welcomed();
  link.connection->Send(
      {.type = FrameType::kWelcome,
       .payload = wire::native::Encode(Welcome{.version = kLinkVersion,
                                               .service_instance = options_.service_instance,
                                               .message_bytes_max = options_.link.message_bytes_max,
                                               .requests_in_flight_max = static_cast<uint32_t>(
                                                   options_.link.requests_in_flight_max)})});
}

void Server::Impl::TakeRequest(LinkId id, Link& link, Message message) {
  const Message head = {.kind = message.kind, .id = message.id};
  if (!link.in_flight.insert(head.id).second) {
    return link.connection->Close(
        absl::InvalidArgumentError(absl::StrFormat(
            "request %d came twice before its answer: numbers must not be used again", head.id)),
        "protocol");
  }
  if (link.in_flight.size() > options_.link.requests_in_flight_max) {
    return Answer(
        id, head,
        wire::native::WithReason(absl::ResourceExhaustedError(absl::StrFormat(
                                     "more than %d requests of this link wait for answers "
                                     "(requests_in_flight_max); wait for some",
                                     options_.link.requests_in_flight_max)),
                                 "limit_exceeded"));
  }
  Responder responder([weak = weak_from_this(), id, head](absl::StatusOr<std::string> answer) {
    if (auto self = weak.lock()) self->Answer(id, head, std::move(answer));
  });
  handler_({.kind = head.kind,
            .payload = std::move(message.payload),
            .who = link.who,
            .peer = link.connection->peer()},
           std::move(responder));
}

void Server::Impl::Answer(LinkId id, const Message& request, absl::StatusOr<std::string> answer) {
  const auto it = links_.find(id);
  if (it == links_.end() || it->second.in_flight.erase(request.id) == 0) return;
  if (answer.ok() && answer->size() > options_.link.message_bytes_max) {
    answer = wire::native::WithReason(
        absl::ResourceExhaustedError(absl::StrFormat(
            "the answer has %d bytes, %d are allowed (message_bytes_max); ask for less",
            answer->size(), options_.link.message_bytes_max)),
        "limit_exceeded");
  }
  Message message = {.kind = request.kind, .id = request.id};
  if (answer.ok()) {
    message.type = FrameType::kAnswer;
    message.payload = *std::move(answer);
  } else {
    message.type = FrameType::kError;
    message.payload = wire::native::Encode(wire::native::ToErrorReply(answer.status()));
  }
  it->second.connection->Send(std::move(message));
}

void Server::Impl::Drain(std::function<void()> done) {
  asio::error_code ignored;
  acceptor_.close(ignored);
  retry_.Cancel();
  if (links_.empty()) return loop_.Post(std::move(done));
  drained_ = std::move(done);
  for (auto& [id, link] : links_) {
    link.connection->Close(absl::UnavailableError("the server is shutting down"), "shutting_down");
  }
}

void Server::Impl::End() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  retry_.Cancel();
  for (auto& [id, link] : links_) link.connection->Abandon();
  links_.clear();
  handler_ = nullptr;
  drained_ = nullptr;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(runtime::Loop& loop, Options options,
                                                       Handler handler) {
  auto address = runtime::ParseAddress(options.listen);
  if (!address.ok()) return address.status();
  auto acceptor = runtime::Listen(loop.io(), *address);
  if (!acceptor.ok()) return acceptor.status();
  auto impl =
      std::make_shared<Impl>(loop, std::move(options), std::move(handler), *std::move(acceptor));
  impl->Accept();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { impl_->End(); }
const std::string& Server::address() const { return impl_->address(); }
size_t Server::connections() const { return impl_->welcomed(); }
void Server::Drain(std::function<void()> done) { impl_->Drain(std::move(done)); }

}  // namespace lockstep::link
