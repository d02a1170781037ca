// What an HTTP source decides: what to ask next, and what the answer means. Pure.
//
// The shell (http_watch.h) asks, waits, and brings the answer back.
#pragma once

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lockstep/preempt/http_message.h"
#include "lockstep/preempt/notice.h"

namespace lockstep::preempt {

// Threads: thread-compatible; the shell serialises.
class HttpMachine {
 public:
  HttpMachine() = default;
  HttpMachine(const HttpMachine&) = delete;
  HttpMachine& operator=(const HttpMachine&) = delete;
  virtual ~HttpMachine() = default;

  // What to ask now. The next call comes after `Take`, or when the request was broken off.
  virtual HttpRequest Ask(const Now& now) = 0;
  // The answer to it, or why there is none. `next` of what it returns is when to ask again; zero:
  // at once, since this was one of several steps.
  virtual Sight Take(const Now& now, const absl::StatusOr<HttpMessage>& answer) = 0;
  // All is saved. True when there is something to send at once.
  virtual bool Acknowledge(const std::string& /*id*/) { return false; }
};

// Waits longer from failure to failure, so that a broken service is not hammered; not for long,
// since a notice may give half a minute.
class Backoff {
 public:
  static constexpr absl::Duration kLongest = absl::Seconds(10);  // between two tries

  explicit Backoff(absl::Duration first) : first_(first), next_(first) {}
  void Reset() { next_ = first_; }  // after a success: the next wait is the first again
  // How long to wait now; the wait after it is twice as long, kLongest at most.
  absl::Duration Next() {
    const absl::Duration wait = next_;
    next_ = std::max(first_, std::min(next_ * 2, kLongest));
    return wait;
  }

 private:
  const absl::Duration first_;
  absl::Duration next_;
};

// "GET /x: status 500": never what the answer said, which may repeat what was sent. UNAVAILABLE,
// whatever the status: the next look may find it well.
inline absl::Status UnexpectedStatus(const HttpRequest& request, int status) {
  return absl::UnavailableError(
      absl::StrCat(request.method, " ", request.target, ": status ", status));
}
// DATA_LOSS: the answer came, and is not what this service says.
inline absl::Status Unintelligible(const HttpRequest& request, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(request.method, " ", request.target, ": ", what));
}
// With the request in front of why there is no answer to it.
inline absl::Status AboutRequest(const HttpRequest& request, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(request.method, " ", request.target, ": ",
                                                  std::string(status.message())));
}

}  // namespace lockstep::preempt
