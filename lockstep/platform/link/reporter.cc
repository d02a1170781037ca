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
#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/link/client_link.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/platform/runtime/signals_blocked.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::link {

using wire::native::ProcessReport;

namespace {

// Reports between those who report and the thread that sends. Thread-safe, by its mutex. Bounds:
// `reports_max`, beyond which the oldest is dropped.
class ReportQueue {
 public:
  explicit ReportQueue(size_t reports_max) : reports_max_(reports_max) {}

  struct Waiting {
    ProcessReport report;
    Time since;
  };

  void Push(ProcessReport report) {
    const MutexLock lock(mutex_);
    if (waiting_.size() >= reports_max_) {
      waiting_.pop_front();
      ++dropped_;
    }
    waiting_.push_back({.report = std::move(report), .since = runtime::MonotonicNow()});
  }
  // The report to send now, which is under way until `Sent`: the one that was, else the oldest;
  // null: there is none. For the sending thread only.
  const Waiting* Next() {
    const MutexLock lock(mutex_);
    if (!under_way_ && !waiting_.empty()) {
      under_way_ = std::move(waiting_.front());
      waiting_.pop_front();
    }
    return under_way_ ? &*under_way_ : nullptr;
  }
  void Sent() {
    const MutexLock lock(mutex_);
    LOCKSTEP_DCHECK(under_way_.has_value());
    under_way_.reset();
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
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<Waiting> under_way_ ABSL_GUARDED_BY(mutex_);
  size_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

// An event loop on a thread of its own, which blocks all signals.
class SignalFreeLoop {
 public:
  SignalFreeLoop() : io_(1), keep_running_(io_.get_executor()) {
    const runtime::AllSignalsBlocked blocked;  // those are for the program around us
    thread_ = std::thread([this] { io_.run(); });
  }
  ~SignalFreeLoop() { Join(); }

  asio::io_context& io() { return io_; }
  // Ends the thread after the function that it runs now. Idempotent.
  void Join() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> keep_running_;
  std::thread thread_;
};

// What the reporter's user hears of trouble with the server: of each that begins and ends, once.
class TroubleTold {
 public:
  explicit TroubleTold(const Reporter::Options& options) : options_(options) {}

  void Say(std::string text) const {
    if (options_.log) options_.log(std::move(text));
  }
  // The link broke, or could not be made; `was_up`: a handshake had succeeded on it.
  void Down(const absl::Status& why, bool was_up) {
    if (was_up && options_.lost) {
      owes_found_ = options_.found != nullptr;
      options_.lost(std::string(why.message()));
    }
    if (!std::exchange(waits_, true)) {
      Say(absl::StrCat("reports wait: ", why.message(), "; trying again"));
    }
  }
  void Up() {
    if (std::exchange(waits_, false)) Say("reports go through again");
    if (std::exchange(owes_found_, false)) options_.found();
  }
  // `lost` was called, and `found` is to follow.
  bool owes_found() const { return owes_found_; }

 private:
  const Reporter::Options& options_;
  bool waits_ = false;  // said so
  bool owes_found_ = false;
};

}  // namespace

// Callers fill the queue and the loop's thread empties it; all the rest is the thread's.
class Reporter::Impl {
 public:
  Impl(std::string address, Options options)
      : address_(std::move(address)),
        options_(std::move(options)),
        trouble_(options_),
        queue_(options_.reports_max),
        backoff_(options_.backoff_first),
        timer_(loop_.io()) {}

  ~Impl() {
    loop_.Join();
    if (link_) link_->Abandon();
  }

  void Report(ProcessReport report) {
    queue_.Push(std::move(report));
    asio::post(loop_.io(), [this] { Pump(); });
  }

  bool Flush(absl::Duration timeout) { return queue_.AwaitIdle(timeout); }

 private:
  enum class Stage {
    kIdle,     // with a link or without
    kDialing,  // until the handshake
    kSending,  // until the answer
    kWaiting,  // for the next attempt to connect
  };

  // Moves things on: connects if there is no link and something to send, or somebody to hear of it;
  // sends if nothing is on its way.
  void Pump() {
    if (stage_ != Stage::kIdle) return;
    if (const size_t dropped = queue_.TakeDropped(); dropped > 0) {
      trouble_.Say(absl::StrCat("dropped the ", dropped, " oldest reports: more than ",
                                options_.reports_max, " waited (reports_max)"));
    }
    const ReportQueue::Waiting* const next = queue_.Next();
    if (link_ == nullptr && (next != nullptr || trouble_.owes_found())) return Dial();
    if (next != nullptr) Send(*next);
  }

  void Dial() {
    LOCKSTEP_DCHECK(stage_ == Stage::kIdle && link_ == nullptr);
    stage_ = Stage::kDialing;
    if (servers_ == nullptr) {
      auto servers = Servers::Read(address_);
      if (!servers.ok()) return LinkClosed(servers.status());
      servers_ = *std::move(servers);
    }
    link_ = ClientLink::Dial(loop_.io(), servers_, options_.attempt_timeout, options_.who,
                             options_.link,
                             {.ready = [this](const auto&) { Ready(); },
                              .closed = [this](const absl::Status& why) { LinkClosed(why); }});
  }

  void Ready() {
    stage_ = Stage::kIdle;
    backoff_ = options_.backoff_first;
    trouble_.Up();
    Pump();
  }

  void Send(const ReportQueue::Waiting& next) {
    LOCKSTEP_DCHECK(stage_ == Stage::kIdle && link_ != nullptr);
    stage_ = Stage::kSending;
    ProcessReport report = next.report;
    report.waited_us = absl::ToInt64Microseconds(runtime::MonotonicNow() - next.since);
    timer_.expires_after(absl::ToChronoNanoseconds(options_.attempt_timeout));
    timer_.async_wait([this](const asio::error_code& error) {
      if (error || stage_ != Stage::kSending) return;
      link_->Abandon();
      LinkClosed(absl::DeadlineExceededError(absl::StrCat(
          runtime::AreServers(address_) ? runtime::ToString(link_->server()) : address_,
          " did not answer within ", absl::FormatDuration(options_.attempt_timeout))));
    });
    link_->Call(KindOf<ProcessReport>::kKind, wire::native::Encode(report),
                [this, &next](absl::StatusOr<std::string> answer) {
                  Answered(next.report, answer.status());
                });
  }

  void Answered(const ProcessReport& report, const absl::Status& status) {
    if (link_->closed()) return;  // not an answer; `LinkClosed` follows
    LOCKSTEP_DCHECK(stage_ == Stage::kSending);
    if (!status.ok()) {
      trouble_.Say(absl::StrCat("the server did not take a report on member ", report.member,
                                " of job '", report.job, "': ", status.message()));
    }
    stage_ = Stage::kIdle;
    timer_.cancel();
    queue_.Sent();
    Pump();
  }

  void LinkClosed(const absl::Status& why) {
    const bool was_up = link_ != nullptr && stage_ != Stage::kDialing;
    link_ = nullptr;
    stage_ = Stage::kWaiting;
    trouble_.Down(why, was_up);
    timer_.expires_after(absl::ToChronoNanoseconds(backoff_));
    backoff_ = std::min(2 * backoff_, options_.backoff_last);
    timer_.async_wait([this](const asio::error_code& error) {
      if (error) return;
      stage_ = Stage::kIdle;
      Pump();
    });
  }

  const std::string address_;
  std::shared_ptr<Servers> servers_;  // null before the first link
  const Options options_;
  TroubleTold trouble_;
  ReportQueue queue_;
  SignalFreeLoop loop_;  // before the link and the timer, which are made on it
  absl::Duration backoff_;
  Stage stage_ = Stage::kIdle;
  std::shared_ptr<ClientLink> link_;
  asio::steady_timer timer_;  // of the answer, or of the next attempt
};

Reporter::Reporter(std::string address) : Reporter(std::move(address), Options{}) {}

Reporter::Reporter(std::string address, Options options)
    : impl_(std::make_unique<Impl>(std::move(address), std::move(options))) {}

Reporter::~Reporter() = default;

void Reporter::Report(ProcessReport report) { impl_->Report(std::move(report)); }

bool Reporter::Flush(absl::Duration timeout) { return impl_->Flush(timeout); }

}  // namespace lockstep::link
