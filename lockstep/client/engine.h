// The shell around a SessionMachine: its link, its clock, and the callers' threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/base/time.h"
#include "lockstep/client/call.h"
#include "lockstep/client/client_shell.h"
#include "lockstep/client/failure_notice.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/client/session_machine.h"
#include "lockstep/platform/link/client_link.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/runtime/address.h"

namespace lockstep::client {

// A request and what a caller gets of it.
struct Request {
  link::RequestKind kind = 0;
  CallType type = CallType::kRead;
  std::string payload;
  uint32_t timeout_field = 0;
  bool leave_server_a_margin = true;
  absl::Duration timeout = absl::InfiniteDuration();
  std::string what;
};

// Where a member is. Negative step, empty phase: as before.
struct ProgressNote {
  int64_t step = -1;
  std::string phase;
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
  using Done = absl::AnyInvocable<void(Answer&&)>;

  struct Options {
    std::shared_ptr<link::Servers> servers;
    std::string who;
    SessionMachine::Options machine;
    link::LinkOptions link;
    // Takes the machine's `server_news`, on a thread of the library; null: nobody does. It must not
    // wait, nor call the engine.
    std::function<void(std::string)> server_news = nullptr;
  };

  // The machine's seeds are drawn here.
  static std::shared_ptr<Engine> Start(Options options);

  // Blocks; wakes every 50 ms to ask `interrupted`. `started` is given what cancels it. Returns
  // what SessionMachine::Submit says, or what `interrupted` said, or FAILED_PRECONDITION: after
  // `Close` (session_closed), in a forked child (forked).
  Answer Call(Request request, const Interrupted& interrupted,
              const std::function<void(Pending)>& started = nullptr);
  // `done` comes on a thread of the library, with the same outcomes.
  Pending CallAsync(Request request, Done done) {
    return CallAsync(std::move(request), std::move(done), /*direct=*/false);
  }
  // The same without the switch to a thread for callbacks: `done` comes on the loop, and must not
  // wait nor call the engine.
  Pending CallDirect(Request request, Done done) {
    return CallAsync(std::move(request), std::move(done), /*direct=*/true);
  }
  // Its call gets CANCELLED (cancelled), unless it is completed already. Waits for nothing; nothing
  // after `Close`.
  void Cancel(Ticket ticket);

  // Negative step, empty phase: as before. Waits for nothing: the newest goes with the next turn of
  // the loop. Nothing after `Close`.
  void Progress(int64_t step, std::string_view phase);

  // Calls back, on a thread of the library, once, with the failure of the attempt or the loss of
  // the server; at once when it is known.
  void OnFailed(std::function<void(absl::Status)> callback);

  // Completes what is open with CANCELLED, ends the session, and waits until the callbacks that are
  // due have returned (those in whose midst it is called excepted). From then on every call fails.
  void Close();

  // False in a forked child: nothing here may be touched there.
  bool here() const { return shell_.here(); }
  // For people: one address, or several, or the file that names them.
  const std::string& server() const { return options_.machine.server; }
  // The server that the session's link leads to, or led to last.
  runtime::Address leader() const { return options_.servers->leader(); }
  const std::string& job() const { return options_.machine.job; }

  // FAILED_PRECONDITION (forked): of calls in a forked child.
  absl::Status Forked() const { return shell_.Forked(); }

  // Runs it on a thread of the library; for calls on what is gone.
  static void CallBackWithoutEngine(absl::AnyInvocable<void()> function);
  // As LoopDriver::InCallback.
  static bool InCallback();

 private:
  struct Waiting {
    Done done;
    bool direct = false;  // may be called on the loop: it only wakes somebody
  };
  struct Submission {
    client::Call call;
    Waiting waiting;
  };
  struct Cancellation {
    Ticket ticket = 0;
  };
  class Caller;

  explicit Engine(Options options);

  Pending CallAsync(Request request, Done done, bool direct);
  Pending PendingOf(Ticket ticket);
  // `on_loop`: the caller does what follows on the loop (`Drain`) himself. Else `done` is only
  // taken when there is a ticket.
  absl::StatusOr<Ticket> Submit(Request&& request, Done& done, bool direct, bool on_loop = false);
  void PostDrain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // On the loop.
  void Drain();
  void Carry(SessionMachine::Effects&& effects);
  void Dial();
  void Finish(CompletedCall&& completed);
  void Fail(absl::Status why);

  const Options options_;
  ClientShell shell_;

  Mutex mutex_;
  // In the order in which callers asked: a call that is cancelled makes room for the next.
  std::vector<std::variant<Submission, Cancellation>> queue_ ABSL_GUARDED_BY(mutex_);
  bool posted_ ABSL_GUARDED_BY(mutex_) = false;  // `Drain` is on its way
  Ticket last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;                   // nothing more is taken
  std::optional<ProgressNote> progress_ ABSL_GUARDED_BY(mutex_);  // for the next `Drain`
  FailureNotice failure_ ABSL_GUARDED_BY(mutex_);

  // The loop's.
  SessionMachine machine_;
  std::shared_ptr<link::ClientLink> link_;
  absl::flat_hash_map<Ticket, Waiting> waiting_;
};

}  // namespace lockstep::client
