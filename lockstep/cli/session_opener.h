// Opens a client session without holding up whoever wants it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "lockstep/client/session.h"

namespace lockstep::cli {

// Waits for the server on a thread of its own, until the session is open, has failed to open, or
// this is destroyed.
//
// Threads: constructed and destroyed on one thread. Bounds: one thread, one session.
class SessionOpener {
 public:
  using Opened = std::function<void(absl::StatusOr<std::unique_ptr<Session>>)>;

  // Begins at once; this sets `options.interrupted`. Calls `opened` on the thread, once, with the
  // session or the error of `Session::Open`; not at all once the destructor has begun.
  SessionOpener(SessionOptions options, Opened opened);
  // Gives up if the session is not open yet, and waits for `opened` if that runs.
  ~SessionOpener();
  SessionOpener(const SessionOpener&) = delete;
  SessionOpener& operator=(const SessionOpener&) = delete;

 private:
  std::atomic<bool> stopping_ = false;
  std::thread thread_;  // last: it reads `stopping_`
};

}  // namespace lockstep::cli
