#include "lockstep/platform/link/reporter.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/executor_work_guard.hpp"
#include "asio/io_context.hpp"
#include "asio/post.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/link/client_link.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::link {

using wire::native::ProcessReport;

namespace {

// Reports between those who report and the thread that sends. Thread-safe, by its mutex. Bounds:
// `reports_max`, beyond which the oldest is dropped.
class ReportQueue {
 public:
  explicit ReportQueue(size_t reports_max) : reports_max_(reports_max) {}

  void Push(ProcessReport report) {
    const MutexLock lock(mutex_);
    if (waiting_.size() >= reports_max_) {
      waiting_.pop_front();
      ++dropped_;
    }
    waiting_.push_back(std::move(report));
  }
  // The oldest, which is under way until `Sent`; nothing: there is none.
  std::optional<ProcessReport> Take() {
    const MutexLock lock(mutex_);
    if (waiting_.empty()) return std::nullopt;
    std::optional<ProcessReport> report = std::move(waiting_.front());
    waiting_.pop_front();
    under_way_ = true;
    return report;
  }
  void Sent() {
    const MutexLock lock(mutex_);
    under_way_ = false;
    idle_.NotifyAll();
  }
  // How many were dropped since this was last asked.
  size_t TakeDropped() {
    const MutexLock lock(mutex_);
    return std::exchange(dropped_, 0);
  }
  // Whether none waits or is under way any more, within so long.
  bool AwaitIdle(absl::Duration timeout) {
    const MutexLock lock(mutex_);
    const WaitLimit until = WaitLimitAfter(timeout);
    while ((!waiting_.empty() || under_way_) && idle_.WaitUntil(mutex_, until)) {
    }
    return waiting_.empty() && !under_way_;
  }

 private:
  const size_t reports_max_;
  Mutex mutex_;
  CondVar idle_;
  std::deque<ProcessReport> waiting_ ABSL_GUARDED_BY(mutex_);
  bool under_way_ ABSL_GUARDED_BY(mutex_) = false;
  size_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

// Callers fill the queue and the thread empties it; all the rest is the thread's.
class Reporter::Impl {
 public:
  Impl(std::string address, Options options)
      : address_(std::move(address)),
        options_(std::move(options)),
        io_(1),
        keep_running_(io_.get_executor()),
        timer_(io_),
        backoff_(options_.backoff_first),
        queue_(options_.reports_max) {
    // Signals are for the threads of the program around us; a thread inherits its maker's mask.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { io_.run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Impl() {
    io_.stop();
    thread_.join();
    if (link_) link_->Abandon();
  }

  void Report(ProcessReport report) {
    queue_.Push(std::move(report));
    asio::post(io_, [this] { Pump(); });
  }

  bool Flush(absl::Duration timeout) { return queue_.AwaitIdle(timeout); }

 private:
  // Moves things on: connects if there is no link and something to send, or somebody to hear of it;
  // sends if nothing is on its way.
  void Pump() {
    if (waiting_ || dialing_ || in_flight_) return;
    const bool sends = TakeNext();
    if (link_ == nullptr && (sends || lost_)) return Dial();
    if (sends) Send();
  }

  // Whether there is something to send; it is in `sending_` then.
  bool TakeNext() {
    if (const size_t dropped = queue_.TakeDropped(); dropped > 0) {
      Notice(absl::StrCat("dropped the ", dropped, " oldest reports: more than ",
                          options_.reports_max, " waited (reports_max)"));
    }
    if (!sending_.has_value()) sending_ = queue_.Take();
    return sending_.has_value();
  }

  void Dial() {
    dialing_ = true;
    const auto address = runtime::ParseAddress(address_);
    if (!address.ok()) return LinkClosed(address.status());
    link_ = ClientLink::Dial(io_, *address, options_.attempt_timeout, options_.who, options_.link,
                             {.ready = [this](const auto&) { Ready(); },
                              .closed = [this](const absl::Status& why) { LinkClosed(why); }});
  }

  void Ready() {
    dialing_ = false;
    backoff_ = options_.backoff_first;
    if (std::exchange(troubled_, false)) Notice("reports go through again");
    if (std::exchange(lost_, false) && options_.found) options_.found();
    Pump();
  }

  void Send() {
    in_flight_ = true;
    timer_.expires_after(absl::ToChronoNanoseconds(options_.attempt_timeout));
    timer_.async_wait([this](const asio::error_code& error) {
      if (error || !in_flight_) return;
      link_->Abandon();
      LinkClosed(absl::DeadlineExceededError(absl::StrCat(
          address_, " did not answer within ", absl::FormatDuration(options_.attempt_timeout))));
    });
    link_->Call(KindOf<ProcessReport>::kKind, wire::native::Encode(*sending_),
                [this](absl::StatusOr<std::string> answer) { Answered(answer.status()); });
  }

  void Answered(const absl::Status& status) {
    if (link_->closed()) return;  // not an answer; `LinkClosed` follows
    if (!status.ok()) {
      Notice(absl::StrCat("the server did not take a report on member ", sending_->member,
                          " of job '", sending_->job, "': ", status.message()));
    }
    in_flight_ = false;
    timer_.cancel();
    sending_.reset();
    queue_.Sent();
    Pump();
  }

  void LinkClosed(const absl::Status& why) {
    const bool was_up = link_ != nullptr && !dialing_;
    if (was_up && options_.lost) {
      lost_ = options_.found != nullptr;
      options_.lost(std::string(why.message()));
    }
    dialing_ = in_flight_ = false;
    link_ = nullptr;
    if (!std::exchange(troubled_, true)) {
      Notice(absl::StrCat("reports wait: ", why.message(), "; trying again"));
    }
    waiting_ = true;
    timer_.expires_after(absl::ToChronoNanoseconds(backoff_));
    backoff_ = std::min(2 * backoff_, options_.backoff_last);
    timer_.async_wait([this](const asio::error_code& error) {
      if (error) return;
      waiting_ = false;
      Pump();
    });
  }

  void Notice(std::string text) const {
    if (options_.notice) options_.notice(std::move(text));
  }

  const std::string address_;
  const Options options_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> keep_running_;
  asio::steady_timer timer_;  // of the answer, or of the next attempt
  absl::Duration backoff_;

  std::shared_ptr<ClientLink> link_;
  bool dialing_ = false;
  bool in_flight_ = false;
  bool waiting_ = false;   // for the next attempt
  bool troubled_ = false;  // said so already
  bool lost_ = false;      // said so, and not that it is found

  ReportQueue queue_;
  std::optional<ProcessReport> sending_;  // taken from the queue, not answered yet

  std::thread thread_;
};

Reporter::Reporter(std::string address) : Reporter(std::move(address), Options{}) {}

Reporter::Reporter(std::string address, Options options)
    : impl_(std::make_unique<Impl>(std::move(address), std::move(options))) {}

Reporter::~Reporter() = default;

void Reporter::Report(ProcessReport report) { impl_->Report(std::move(report)); }

bool Reporter::Flush(absl::Duration timeout) { return impl_->Flush(timeout); }

}  // namespace lockstep::link
