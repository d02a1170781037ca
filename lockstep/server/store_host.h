// The stores of one job as a server runs them: one for torch's clients in each attempt.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/net/torch_store_door.h"
#include "lockstep/observe/log_limiter.h"
#include "lockstep/runtime/loop.h"
#include "lockstep/tcpstore/options.h"
#include "lockstep/tcpstore/store.h"
#include "lockstep/tcpstore/view.h"

namespace lockstep::server {

struct StoreHostOptions {
  // No job has a store.
  bool none = false;
  tcpstore::StoreOptions store;
  net::TorchStoreDoorOptions door;
};

// Feeds the store of the current attempt what its clients ask, and sends what it answers. An
// attempt begins when somebody asks for it: a fresh store on a port of its own, and the connections
// of the one before are closed, so that a process which outlived its attempt reaches nothing of the
// next.
//
// A store that everybody has left begins anew, since who comes then is of another attempt that was
// started by hand.
//
// Threads: loop-confined, but everything may be called while the loop does not run.
class StoreHost {
 public:
  struct Tellers {
    using Tell = std::function<void(std::string)>;
    Tell notice;  // what an operator should know: an attempt begins
    // Somebody gave up waiting, and for whose key, when that is known.
    std::function<void(std::string, std::optional<int32_t> rank)> given_up;
    Tell foreign;  // what was wrong with a client that was sent away
  };

  StoreHost(runtime::Loop& loop, const StoreHostOptions& options, int32_t ranks, Tellers tell);

  // Takes a port of `host` for the first attempt; the later ones have theirs there, too.
  absl::Status Listen(const std::string& host);
  void Start();

  // Begins the attempt, unless it is the current one; 0: gives the current one.
  // FAILED_PRECONDITION (`attempt_over`): a later one has begun.
  absl::Status Open(int64_t attempt);

  // Closes the connections, and takes no more.
  void Stop();

  int64_t attempt() const { return attempt_; }
  // HOST:PORT; empty: there is none.
  std::string address() const;
  size_t connections() const { return space_ ? space_->store.connections() : 0; }
  tcpstore::StoreView View() const;

 private:
  // The keys of one attempt, and where they are had.
  struct Space {
    Space(StoreHost& host, runtime::Loop& loop, const StoreHostOptions& options);

    tcpstore::Store store;
    tcpstore::Effects effects;  // of the command that is handled; here for its memory
    net::TorchStoreDoor door;
  };

  absl::StatusOr<std::unique_ptr<Space>> MakeSpace();
  void Command(tcpstore::ConnectionId from, const tcpstore::Command& command);
  void Left(tcpstore::ConnectionId connection);
  void Complain(std::string text);
  void TellGivenUp(Time now, const tcpstore::GivenUp& given_up);

  runtime::Loop& loop_;
  const StoreHostOptions& options_;
  const int32_t ranks_;  // of the job
  const Tellers tell_;
  observe::LogLimiter complaints_;
  observe::LogLimiter given_up_;
  std::string host_;
  std::unique_ptr<Space> space_;  // null: the job has no store
  int64_t attempt_ = 1;
  bool started_ = false;
};

}  // namespace lockstep::server
