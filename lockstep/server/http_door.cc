#include "lockstep/server/http_door.h"

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "httplib.h"
#include "lockstep/observe/status_text.h"
#include "lockstep/observe/tables.h"
#include "lockstep/observe/why.h"
#include "lockstep/server/metrics.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::server {
namespace {

using wire::native::Json;
using wire::native::StatusReply;
using wire::native::WatchEvents;

constexpr size_t kRequestBytesMax = 8 << 10;
constexpr time_t kSocketSeconds = 5;
constexpr std::chrono::milliseconds kSlice{20};
constexpr const char* kJson = "application/json";
constexpr const char* kText = "text/plain; charset=utf-8";

// A fixed number of threads and a queue with an end: who accepts waits until there is room.
class BoundedThreads final : public httplib::TaskQueue {
 public:
  BoundedThreads(size_t threads, size_t waiting_max) : waiting_max_(waiting_max) {
    for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  }

  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.size() < waiting_max_ || ending_; });
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Work() {
    for (;;) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !tasks_.empty() || ending_; });
        // What waits is still answered: a task owns a connection, and has to close it.
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
        changed_.notify_all();
      }
      task();
    }
  }

  const size_t waiting_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

int HttpCodeOf(const absl::Status& status) {
  if (absl::IsNotFound(status)) return 404;
  if (absl::IsInvalidArgument(status)) return 400;
  return 503;
}

void Refuse(const absl::Status& status, httplib::Response& response) {
  response.status = HttpCodeOf(status);
  const Json json = {{"reason", wire::native::ReasonOf(status)},
                     {"message", std::string(status.message())}};
  response.set_content(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", kJson);
}

}  // namespace

class HttpDoor::Impl {
 public:
  Impl(runtime::Loop& loop, HttpSource source, absl::Duration patience)
      : loop_(loop), source_(std::make_shared<HttpSource>(std::move(source))), patience_(patience) {
    server_.new_task_queue = [] { return new BoundedThreads(kThreads, kWaitingMax); };
    server_.set_read_timeout(kSocketSeconds);
    server_.set_write_timeout(kSocketSeconds);
    server_.set_keep_alive_timeout(1);  // what an idle connection may hold up the end
    server_.set_payload_max_length(kRequestBytesMax);
    // The library's own choice, SO_REUSEPORT, would let two servers believe to have the address.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    AddRoutes();
  }

  ~Impl() {
    ending_ = true;
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen(const runtime::Address& at) {
    const int port = at.port == 0 ? server_.bind_to_any_port(at.host.c_str())
                     : server_.bind_to_port(at.host.c_str(), at.port) ? at.port
                                                                      : -1;
    if (port < 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen at ", runtime::ToString(at),
          ": is another program listening there? --http HOST:0 lets the system choose a port"));
    }
    address_ = {.host = at.host, .port = static_cast<uint16_t>(port)};
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      ended_ = true;
    });
    // `stop` before the thread accepts would be lost.
    while (!server_.is_running() && !ended_) std::this_thread::yield();
    return absl::OkStatus();
  }

  std::string address() const { return runtime::ToString(address_); }

 private:
  // Asks on the loop and waits for the answer; with `durable` also until nothing that it tells of
  // can be lost any more.
  template <class T>
  absl::StatusOr<T> OnLoop(bool durable, std::function<absl::StatusOr<T>()> ask) {
    return Await<T>(durable, [ask = std::move(ask)](Told<T> told) { told(ask()); });
  }

  template <class T>
  using Told = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  // The same of something that takes the loop several turns.
  template <class T>
  absl::StatusOr<T> Await(bool durable, std::function<void(Told<T>)> ask) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();
    std::future<absl::StatusOr<T>> answer = promise->get_future();
    loop_.Post([source = source_, durable, promise, ask = std::move(ask)] {
      ask([source, durable, promise](absl::StatusOr<T> value) {
        if (!durable) return promise->set_value(std::move(value));
        source->when_durable([promise, value = std::move(value)](bool is_durable) mutable {
          promise->set_value(is_durable ? std::move(value) : NeverDurable());
        });
      });
    });
    // In slices, since a loop that has ended answers nobody any more.
    const auto give_up = std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(patience_);
    std::future_status status = answer.wait_for(kSlice);
    while (status != std::future_status::ready && !ending_ &&
           std::chrono::steady_clock::now() < give_up) {
      status = answer.wait_for(kSlice);
    }
    if (status != std::future_status::ready) {
      return absl::UnavailableError(absl::StrCat(
          durable
              ? "the server did not answer, or its disk did not keep what it would tell, within "
              : "the server's loop did not answer within ",
          absl::FormatDuration(patience_)));
    }
    return answer.get();
  }

  static absl::Status NeverDurable() {
    return wire::native::WithReason(
        absl::UnavailableError("the server cannot write its state and ends; ask again when it is "
                               "back"),
        "service_stopped");
  }

  absl::StatusOr<ServerView> Look(const std::string& job, bool durable) {
    auto view = Await<ServerView>(durable, [source = source_, job](Told<ServerView> told) {
      source->view(job, std::move(told));
    });
    if (!view.ok() || view->encoded_status == nullptr) return view;
    if (absl::Status status = view->DecodeStatus(); !status.ok()) return status;
    return view;
  }

  using Handler = std::function<void(const httplib::Request&, httplib::Response&)>;
  void Add(const char* path, Handler handler) {
    server_.Get(path, [handler = std::move(handler)](const httplib::Request& request,
                                                     httplib::Response& response) {
      response.set_header("Cache-Control", "no-store");
      handler(request, response);
    });
  }

  // A page that is made of the status of all jobs, or of the one that `?job=` names.
  void AddStatusPage(const char* path, std::function<std::string(const StatusReply&)> text) {
    Add(path, [this, text](const httplib::Request& request, httplib::Response& response) {
      const auto view = Look(request.get_param_value("job"), true);
      if (!view.ok()) return Refuse(view.status(), response);
      response.set_content(text(view->status), kJson);
    });
  }

  // A page about one job, which must be named.
  void AddJobPage(const char* path,
                  std::function<std::string(const wire::native::JobStatus&)> text) {
    Add(path, [this, text](const httplib::Request& request, httplib::Response& response) {
      const std::string job = request.get_param_value("job");
      if (job.empty()) {
        return Refuse(
            wire::native::WithReason(absl::InvalidArgumentError("say which job: ?job=NAME"),
                                     "invalid_argument"),
            response);
      }
      const auto view = Look(job, true);
      if (!view.ok()) return Refuse(view.status(), response);
      response.set_content(text(view->status.jobs.at(0)), kJson);
    });
  }

  void AddRoutes() {
    Add("/healthz", [this](const httplib::Request&, httplib::Response& response) {
      const auto alive = OnLoop<bool>(false, [] { return absl::StatusOr<bool>(true); });
      response.status = alive.ok() ? 200 : 503;
      response.set_content(
          alive.ok() ? "ok\n" : absl::StrCat(std::string(alive.status().message()), "\n"), kText);
    });
    Add("/readyz", [this](const httplib::Request&, httplib::Response& response) {
      const auto looked = OnLoop<std::vector<std::string>>(
          false, [source = source_]() -> absl::StatusOr<std::vector<std::string>> {
            return source->not_ready();
          });
      std::vector<std::string> reasons;
      if (looked.ok()) {
        reasons = *looked;
      } else {
        reasons.emplace_back(looked.status().message());
      }
      response.status = reasons.empty() ? 200 : 503;
      response.set_content(reasons.empty()
                               ? "ready\n"
                               : absl::StrCat("not ready: ", absl::StrJoin(reasons, "; "), "\n"),
                           kText);
    });
    Add("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      const auto view = Look("", false);
      if (!view.ok()) return Refuse(view.status(), response);
      response.set_content(MetricsText(*view), "text/plain; version=0.0.4; charset=utf-8");
    });
    AddStatusPage("/v1/status.json", observe::StatusJson);
    AddStatusPage("/v1/jobs.json", observe::JobsJson);
    AddJobPage("/v1/members.json", observe::MembersJson);
    AddJobPage("/v1/barriers.json", observe::BarriersJson);
    AddJobPage("/v1/why.json",
               [](const wire::native::JobStatus& job) { return observe::WhyJson(job); });
    Add("/v1/events.json", [this](const httplib::Request& request, httplib::Response& response) {
      WatchEvents ask{.job = request.get_param_value("job")};
      const std::string after = request.get_param_value("after");
      const std::string log = request.get_param_value("log");
      if ((!after.empty() && !absl::SimpleAtoi(after, &ask.after)) ||
          (!log.empty() && !absl::SimpleAtoi(log, &ask.log))) {
        return Refuse(
            wire::native::WithReason(absl::InvalidArgumentError("`after` and `log` are numbers"),
                                     "invalid_argument"),
            response);
      }
      const auto reply = OnLoop<wire::native::WatchEventsReply>(
          true, [source = source_, ask] { return source->events(ask); });
      if (!reply.ok()) return Refuse(reply.status(), response);
      response.set_content(
          ToJson(*reply).dump(2, ' ', false, Json::error_handler_t::replace) + "\n", kJson);
    });
  }

  runtime::Loop& loop_;
  const std::shared_ptr<HttpSource> source_;
  const absl::Duration patience_;
  httplib::Server server_;
  runtime::Address address_;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<HttpDoor>> HttpDoor::Listen(runtime::Loop& loop,
                                                           const runtime::Address& at,
                                                           HttpSource source,
                                                           absl::Duration patience) {
  auto impl = std::make_unique<Impl>(loop, std::move(source), patience);
  if (absl::Status status = impl->Listen(at); !status.ok()) return status;
  return std::unique_ptr<HttpDoor>(new HttpDoor(std::move(impl)));
}

HttpDoor::HttpDoor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpDoor::~HttpDoor() = default;
std::string HttpDoor::address() const { return impl_->address(); }

}  // namespace lockstep::server
