#include "lockstep/server/http_listener.h"

#include <list>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/platform/runtime/acceptor.h"
#include "lockstep/server/http_connection.h"
#include "lockstep/server/http_pages.h"
#include "lockstep/server/http_request.h"
#include "lockstep/server/page_queries.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {

// The connections of the listener, on a loop and a thread of its own.
class HttpListener::Impl {
 public:
  Impl(runtime::Loop& loop, Options options, HttpSource source)
      : options_(std::move(options)),
        memory_(options_.memory),
        events_(
            {.request = [this](const auto& connection, auto request) { Take(connection, request); },
             .ended = [this](HttpConnection& connection) { Forget(connection); }}),
        acceptor_(
            loop_,
            {.connections_max = 0,
             .make_room = [this] { return EndOne(); },
             .allowed = options_.allowed,
             .goodbye_to_strangers =
                 Encode(HttpRefusal(403, "not_allowed", runtime::StrangersText(options_.allowed)),
                        /*head=*/false)},
            [this](int fd) { Accept(fd); },
            [](std::string text) { spdlog::warn("http: {}", text); }),
        queries_(loop, loop_, std::move(source), options_.patience) {}

  ~Impl() {
    queries_.Close();
    if (!thread_.joinable()) return;
    loop_.Post([this] {
      acceptor_.Stop();
      while (!connections_.empty()) {
        const std::shared_ptr<HttpConnection> each = connections_.front();
        each->End();
      }
      loop_.Stop();
    });
    thread_.join();
  }

  absl::Status Listen() {
    if (absl::Status status = acceptor_.Listen(options_.listen); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(std::string(status.message()),
                                                      "; --http HOST:0 lets the system choose a "
                                                      "port"));
    }
    acceptor_.Start();
    thread_ = std::thread([this] { loop_.Run(); });
    return absl::OkStatus();
  }

  std::string address() const {
    return runtime::ToString({.host = options_.listen.host, .port = acceptor_.address().port()});
  }

 private:
  using Connection = PageQueries::Connection;

  // --- Connections ---

  void Accept(int fd) {
    if (connections_.size() >= kConnectionsMax) EndOne();
    asio::ip::tcp::socket socket(loop_.io());
    asio::error_code error;
    socket.assign(acceptor_.address().protocol(), fd, error);
    if (error) return;
    auto connection = std::make_shared<HttpConnection>(loop_, std::move(socket), events_, memory_);
    connections_.push_back(connection);
    connection->Start();
  }

  // The oldest that has not said what it wants; else the oldest.
  bool EndOne() {
    if (connections_.empty()) return false;
    for (const Connection& each : connections_) {
      if (!each->reading()) continue;
      const Connection slow = each;
      slow->End();
      return true;
    }
    const Connection oldest = connections_.front();
    oldest->End();
    return true;
  }

  void Forget(const HttpConnection& connection) {
    connections_.remove_if([&](const Connection& each) { return each.get() == &connection; });
  }

  // --- Requests ---

  void Take(const Connection& connection, const HttpConnection::Request& request) {
    if (request.method != "GET" && request.method != "HEAD") {
      return connection->Answer(
          HttpRefusal(405, "method_not_allowed", "only GET and HEAD are allowed"));
    }
    const std::string host = request.header("host");
    if (!HostIsOurs(host, options_.names)) {
      return connection->Answer(
          HttpRefusal(421, "host_refused",
                      absl::StrCat("this server does not answer to the name '", host.substr(0, 256),
                                   "', which a web page may have pointed here; use the server's "
                                   "address, or start it with --http-host NAME")));
    }
    const auto target = ParseHttpTarget(request.target);
    if (!target.ok()) return connection->Answer(RefusalOf(target.status()));
    std::visit([&](auto ask) { queries_.Ask(connection, std::move(ask)); }, FindPage(*target));
  }

  const Options options_;
  HttpAnswerMemory memory_;  // outlives connections, the last of which go with the loop
  runtime::Loop loop_;       // the listener's own
  const HttpConnection::Events events_;
  // On the listener's loop from here on.
  runtime::Acceptor acceptor_;
  std::list<Connection> connections_;  // the oldest first
  std::thread thread_;
  PageQueries queries_;  // the first to go, with the thread that writes pages
};

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Listen(runtime::Loop& loop,
                                                                   Options options,
                                                                   HttpSource source) {
  auto impl = std::make_unique<Impl>(loop, std::move(options), std::move(source));
  if (absl::Status status = impl->Listen(); !status.ok()) return status;
  return std::unique_ptr<HttpListener>(new HttpListener(std::move(impl)));
}

HttpListener::HttpListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpListener::~HttpListener() = default;
std::string HttpListener::address() const { return impl_->address(); }

}  // namespace lockstep::server
