#include "lockstep/server/http_listener.h"

#include <algorithm>
#include <list>
#include <map>
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
      while (!places_.empty()) {
        const Connection each = places_.front().connection;
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

  bool secure() const { return !options_.access.allows_plain; }

 private:
  using Connection = PageQueries::Connection;
  struct Place {
    asio::ip::address host;
    Connection connection;
  };

  // --- Connections ---

  void Accept(int fd) {
    if (places_.size() >= kConnectionsMax) EndOne();
    asio::ip::tcp::socket socket(loop_.io());
    asio::error_code error;
    socket.assign(acceptor_.address().protocol(), fd, error);
    if (error) return;
    const asio::ip::address host = socket.remote_endpoint(error).address();
    auto channel =
        std::make_shared<link::Channel>(std::move(socket), options_.access.accept_secure);
    auto connection = std::make_shared<HttpConnection>(loop_, std::move(channel), events_, memory_);
    places_.push_back({host, connection});
    connection->Start();
  }

  // Of the host with most connections, so that a flood takes its own places: one that has its
  // answer, else one that has not said what it wants, else any; the oldest of those.
  bool EndOne() {
    if (places_.empty()) return false;
    std::map<asio::ip::address, size_t> from;
    for (const Place& each : places_) ++from[each.host];
    const auto cost = [&](const Place& each) {
      const int state = each.connection->answered() ? 2 : each.connection->reading() ? 1 : 0;
      return std::pair(from.at(each.host), state);
    };
    const Connection ended =
        std::max_element(places_.begin(), places_.end(), [&](const Place& a, const Place& b) {
          return cost(a) < cost(b);
        })->connection;
    ended->End();
    return true;
  }

  void Forget(const HttpConnection& connection) {
    places_.remove_if([&](const Place& each) { return each.connection.get() == &connection; });
  }

  // --- Requests ---

  void Take(const Connection& connection, const HttpConnection::Request& request) {
    if (!connection->secure() && !options_.access.allows_plain) {
      return connection->Answer(NeedsTls(request));
    }
    if (request.method != "GET" && request.method != "HEAD") {
      return connection->Answer(
          HttpRefusal(405, "method_not_allowed", "only GET and HEAD are allowed"));
    }
    const std::string host = request.header("host");
    // Over TLS a browser has found the name that it calls in the server's certificate.
    if (!connection->secure() && !HostIsOurs(host, options_.names)) {
      return connection->Answer(
          HttpRefusal(421, "host_refused",
                      absl::StrCat("this server does not answer to the name '", host.substr(0, 256),
                                   "', which a web page may have pointed here; use the server's "
                                   "address, or start it with --http-host NAME")));
    }
    const auto target = ParseHttpTarget(request.target);
    if (!target.ok()) return connection->Answer(RefusalOf(target.status()));
    HttpAsk ask = FindPage(*target);
    if (absl::Status allowed = Check(connection, request, ask); !allowed.ok()) {
      if (!std::holds_alternative<AskForReadiness>(ask)) {
        return connection->Answer(RefusalOf(allowed));
      }
      ask = AskForReadiness{.reasons = false};
    }
    std::visit([&](auto page) { queries_.Ask(connection, std::move(page)); }, std::move(ask));
  }

  // Whether the caller may see that page.
  absl::Status Check(const Connection& connection, const HttpConnection::Request& request,
                     const HttpAsk& ask) const {
    if (options_.access.admit == nullptr || std::holds_alternative<AskForLife>(ask)) {
      return absl::OkStatus();
    }
    const std::string authorization = request.header("authorization");
    const auto rights = options_.access.admit({.token = BearerToken(authorization),
                                               .secure = connection->secure(),
                                               .certified = connection->certified(),
                                               .local = acceptor_.address().address().is_loopback(),
                                               .uris = connection->peer_uris()});
    return rights.ok() ? CheckRights(*rights, ask) : rights.status();
  }

  // To a caller whose words others can read.
  static HttpAnswer NeedsTls(const HttpConnection::Request& request) {
    if (request.header("authorization").empty()) {
      return HttpRefusal(400, "tls_required", "this address speaks TLS 1.3 only: use https://");
    }
    return HttpRefusal(400, "token_in_clear", kTokenInClear);
  }

  const Options options_;
  HttpAnswerMemory memory_;  // outlives connections, the last of which go with the loop
  runtime::Loop loop_;       // the listener's own
  const HttpConnection::Events events_;
  // On the listener's loop from here on.
  runtime::Acceptor acceptor_;
  std::list<Place> places_;  // the oldest first
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
bool HttpListener::secure() const { return impl_->secure(); }

}  // namespace lockstep::server
