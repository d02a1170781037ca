// The shell around a SessionMachine: its link, its clock, and the callers' threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "asio/steady_timer.hpp"
#include "lockstep/client/call.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/client/session_machine.h"
#include "lockstep/platform/link/client_link.h"
#include "lockstep/platform/runtime/address.h"

namespace lockstep::client {

// A request and what a caller gets of it.
struct Request {
  link::RequestKind kind = 0;
  CallType type = CallType::kRead;
  std::string payload;
  uint32_t timeout_field = 0;
  bool hurry_server = true;
  absl::Duration timeout = absl::InfiniteDuration();
  std::string what;
};

// One session of one member or tool.
//
// Threads: thread-safe. Callers leave their calls in a queue, which the loop of this process
// empties into the machine; only the loop touches machine and link. Whoever waits in a blocking
// call drives the loop meanwhile (LoopDriver); answers of asynchronous ones are callbacks.
// Ownership: `Close` before letting go (Member and Session do).
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  using Answer = absl::StatusOr<std::string>;
  using Done = absl::AnyInvocable<void(Answer)>;

  struct Options {
    runtime::Address address;
    std::string who;
    SessionMachine::Options machine;
    link::LinkOptions link;
  };

  // The machine's seed is drawn here.
  static std::shared_ptr<Engine> Start(Options options);

  // Blocks; wakes every 50 ms to ask `interrupted`. `started` is given what cancels it.
  Answer Call(Request request, const Interrupted& interrupted,
              const std::function<void(Pending)>& started = nullptr);
  // `done` comes on a thread of the library.
  Pending CallAsync(Request request, Done done);
  void Cancel(Ticket ticket);

  void Progress(int64_t step, std::string_view phase);

  // Calls back, on a thread of the library, once, with the failure of the attempt or the loss of
  // the server; at once when it is known.
  void OnFailed(std::function<void(absl::Status)> callback);

  // Completes what is open with CANCELLED, ends the session, and waits until the callbacks that are
  // due have returned (those in whose midst it is called excepted). From then on every call fails.
  void Close();

  // False in a forked child: nothing here may be touched there.
  bool here() const;
  const std::string& server() const { return server_; }
  const std::string& job() const { return job_; }

  // Of calls in a forked child.
  absl::Status Forked() const;

  // Runs it on a thread of the library; for calls on what is gone.
  static void CallBackWithoutEngine(absl::AnyInvocable<void()> function);
  static bool InCallback();

 private:
  struct Submission {
    Ticket ticket = 0;
    Request request;
    Time deadline;
    Done done;
    bool direct = false;  // may be called on the loop: it only wakes somebody
    bool cancel = false;  // cancels the ticket instead
  };
  struct Waiting {
    Done done;
    bool direct = false;
  };
  class Caller;

  explicit Engine(Options options);

  Pending PendingOf(Ticket ticket);
  // `on_loop`: the caller does what follows on the loop (`Drain`) himself.
  absl::StatusOr<Ticket> Submit(Request request, Done& done, bool direct, bool on_loop = false);
  void PostDrain();  // with the mutex held
  // On the loop.
  void Drain();
  void Carry(SessionMachine::Effects effects);
  void Dial();
  void ArmTimer();
  void Callback(absl::AnyInvocable<void()> function);
  void Finish(CompletedCall completed);
  void Failed(const absl::Status& why);

  const uint64_t generation_;
  const runtime::Address address_;
  const std::string server_;
  const std::string job_;
  const std::string who_;
  const link::LinkOptions link_options_;
  LoopDriver& loop_;

  std::mutex mutex_;  // covers what follows
  std::condition_variable changed_;
  std::vector<Submission> queue_;
  bool posted_ = false;  // `Drain` is on its way
  Ticket last_ticket_ = 0;
  bool closed_ = false;  // nothing more is taken
  bool ended_ = false;   // the loop has done with us
  bool progress_dirty_ = false;
  int64_t step_ = -1;
  std::string phase_;
  std::optional<absl::Status> failed_;
  std::function<void(absl::Status)> on_failed_;
  size_t callbacks_ = 0;  // queued or running

  // The loop's.
  SessionMachine machine_;
  std::shared_ptr<link::ClientLink> link_;
  absl::flat_hash_map<Ticket, Waiting> waiting_;
  asio::steady_timer timer_;
  Time armed_ = Time::Infinite();
};

}  // namespace lockstep::client
