#include "lockstep/server/http_door.h"

#include <deque>
#include <list>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/acceptor.h"
#include "lockstep/platform/runtime/work_thread.h"
#include "lockstep/server/http_connection.h"
#include "lockstep/server/http_pages.h"
#include "lockstep/server/http_request.h"
#include "lockstep/wire/native/error_reply.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

using wire::native::WatchEventsReply;

// The door's loop for those who may outlive the door. Thread-safe, by its mutex.
class Inbox {
 public:
  explicit Inbox(runtime::Loop& loop) : loop_(&loop) {}
  // Dropped when the door is gone.
  void Post(runtime::Loop::Function function) {
    const MutexLock lock(mutex_);
    if (loop_ != nullptr) loop_->Post(std::move(function));
  }
  void Close() {
    const MutexLock lock(mutex_);
    loop_ = nullptr;
  }

 private:
  Mutex mutex_;
  runtime::Loop* loop_ ABSL_GUARDED_BY(mutex_);
};

// Calls back with what was asked for; on the server's loop, perhaps many turns later.
template <class T>
using Told = absl::AnyInvocable<void(absl::StatusOr<T>)>;
template <class T>
using Looker = std::function<void(Told<T>)>;

// What is left to do before the page can be written, on the writer's thread.
template <class T>
absl::Status Prepare(T& /*value*/) {
  return absl::OkStatus();
}
absl::Status Prepare(ServerView& view) {
  return view.encoded_status == nullptr ? absl::OkStatus() : view.DecodeStatus();
}

absl::Status NeverDurable() {
  return wire::native::WithReason(
      absl::UnavailableError(
          "the server cannot write its state and is shutting down; retry when it is back"),
      "service_stopped");
}

}  // namespace

class HttpDoor::Impl {
 public:
  Impl(runtime::Loop& loop, Options options, HttpSource source)
      : server_loop_(loop),
        options_(std::move(options)),
        source_(std::make_shared<HttpSource>(std::move(source))),
        memory_(options_.memory),
        inbox_(std::make_shared<Inbox>(loop_)),
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
            [](std::string text) { spdlog::warn("http: {}", text); }) {}

  ~Impl() {
    inbox_->Close();
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
  using Connection = std::shared_ptr<HttpConnection>;
  // As other threads carry it: what it stands for lives and dies on the door's loop.
  using Ticket = std::weak_ptr<HttpConnection>;

  // Asks that wait for one of a few copies of the state. Those that wait for the disk have a lane
  // of their own, so that they hold up nobody else while it hangs.
  struct Lane {
    std::deque<absl::AnyInvocable<bool()>> turns;  // whether it took one
    size_t views = 0;
  };
  Lane& LaneOf(bool durable) { return durable ? durable_lane_ : lane_; }

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
    std::visit([&](auto ask) { Ask(connection, std::move(ask)); }, FindPage(*target));
  }

  void Ask(const Connection& connection, HttpAnswer answer) {
    connection->Answer(std::move(answer));
  }

  void Ask(const Connection& connection, AskForLife) {
    const std::string late = Late(false);
    connection->AnswerAfter(options_.patience, TextPage(503, late + "\n"));
    server_loop_.Post([inbox = inbox_, ticket = Ticket(connection)] {
      inbox->Post([ticket] {
        if (const Connection waiting = ticket.lock()) waiting->Answer(TextPage(200, "ok\n"));
      });
    });
  }

  void Ask(const Connection& connection, AskForView ask) {
    const bool durable = ask.durable;
    AskInTurn<ServerView>(
        connection, durable,
        [source = source_, job = std::move(ask.job)](Told<ServerView> told) {
          source->view(job, std::move(told));
        },
        std::move(ask.page));
  }

  void Ask(const Connection& connection, AskForReadiness) {
    using Reasons = std::vector<std::string>;
    AskInTurn<Reasons>(
        connection, false, [source = source_](Told<Reasons> told) { told(source->not_ready()); },
        ReadyPage);
  }

  void Ask(const Connection& connection, AskForEvents ask) {
    AskInTurn<WatchEventsReply>(
        connection, true,
        [source = source_, request = std::move(ask.request)](Told<WatchEventsReply> told) {
          told(source->events(request));
        },
        EventsPage);
  }

  std::string Late(bool durable) const {
    return absl::StrCat(
        durable ? "the server, or the disk that the answer depends on, did not respond within "
                : "the server's loop did not answer within ",
        absl::FormatDuration(options_.patience));
  }

  // A copy of the server's state may be large: a few at a time, the others wait for theirs.
  template <class T>
  void AskInTurn(const Connection& connection, bool durable, Looker<T> look,
                 std::function<HttpAnswer(const T&)> page) {
    connection->AnswerAfter(options_.patience, RefusalOf(absl::UnavailableError(Late(durable))));
    Lane& lane = LaneOf(durable);
    lane.turns.push_back([this, ticket = Ticket(connection), durable, look = std::move(look),
                          page = std::move(page)]() mutable {
      // One that was answered for meanwhile, or has gone, needs none any more.
      const Connection waiting = ticket.lock();
      if (waiting == nullptr || !waiting->waits()) return false;
      Look<T>(std::move(ticket), durable, std::move(look), std::move(page));
      return true;
    });
    TakeTurns(lane);
  }

  void TakeTurns(Lane& lane) {
    while (lane.views < kViewsMax && !lane.turns.empty()) {
      auto turn = std::move(lane.turns.front());
      lane.turns.pop_front();
      if (turn()) ++lane.views;
    }
  }

  template <class T>
  void Look(Ticket ticket, bool durable, Looker<T> look, std::function<HttpAnswer(const T&)> page) {
    Told<T> seen = [this, inbox = inbox_, ticket = std::move(ticket), durable,
                    page = std::move(page)](absl::StatusOr<T> value) mutable {
      inbox->Post([this, ticket = std::move(ticket), durable, page = std::move(page),
                   value = std::make_shared<absl::StatusOr<T>>(std::move(value))]() mutable {
        WritePage<T>(std::move(ticket), durable, std::move(page), std::move(value));
      });
    };
    server_loop_.Post([source = source_, durable, look = std::move(look),
                       seen = std::move(seen)]() mutable {
      if (!durable) return look(std::move(seen));
      look([source, seen = std::move(seen)](absl::StatusOr<T> value) mutable {
        source->when_durable([seen = std::move(seen), value = std::move(value)](bool kept) mutable {
          seen(kept ? std::move(value) : NeverDurable());
        });
      });
    });
  }

  template <class T>
  void WritePage(Ticket ticket, bool durable, std::function<HttpAnswer(const T&)> page,
                 std::shared_ptr<absl::StatusOr<T>> value) {
    writer_.Push([this, ticket = std::move(ticket), durable, page = std::move(page),
                  value = std::move(value)]() mutable {
      const absl::Status status = value->ok() ? Prepare(**value) : value->status();
      HttpAnswer answer = status.ok() ? page(**value) : RefusalOf(status);
      value = nullptr;
      inbox_->Post(
          [this, ticket = std::move(ticket), durable, answer = std::move(answer)]() mutable {
            Lane& lane = LaneOf(durable);
            --lane.views;
            if (const Connection waiting = ticket.lock()) waiting->Answer(std::move(answer));
            TakeTurns(lane);
          });
    });
  }

  runtime::Loop& server_loop_;
  const Options options_;
  const std::shared_ptr<HttpSource> source_;
  HttpAnswerMemory memory_;  // outlives connections, the last of which go with the loop
  runtime::Loop loop_;       // the door's own
  const std::shared_ptr<Inbox> inbox_;
  const HttpConnection::Events events_;
  // On the door's loop from here on.
  runtime::Acceptor acceptor_;
  std::list<Connection> connections_;  // the oldest first
  Lane lane_;
  Lane durable_lane_;
  std::thread thread_;
  runtime::WorkThread writer_;  // of pages; the first to go
};

absl::StatusOr<std::unique_ptr<HttpDoor>> HttpDoor::Listen(runtime::Loop& loop, Options options,
                                                           HttpSource source) {
  auto impl = std::make_unique<Impl>(loop, std::move(options), std::move(source));
  if (absl::Status status = impl->Listen(); !status.ok()) return status;
  return std::unique_ptr<HttpDoor>(new HttpDoor(std::move(impl)));
}

HttpDoor::HttpDoor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpDoor::~HttpDoor() = default;
std::string HttpDoor::address() const { return impl_->address(); }

}  // namespace lockstep::server
