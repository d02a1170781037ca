#include "lockstep/client/engine.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/client/threads.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

using runtime::MonotonicNow;
using wire::native::WithReason;

// How often a blocked caller looks whether it is interrupted.
constexpr auto kInterruptedEvery = std::chrono::milliseconds(50);
// One attempt to connect.
constexpr absl::Duration kDialTimeout = absl::Seconds(5);

absl::Status ClosedStatus() {
  return WithReason(absl::FailedPreconditionError("the member or session was destroyed"),
                    "session_closed");
}

}  // namespace

// A blocked caller, and the answer that it gets.
class Engine::Caller : public LoopDriver::Waiter {
 public:
  using Waiter::Waiter;
  void Answered(Answer with) {
    answer = std::move(with);
    Wake();
  }
  Answer answer = absl::UnknownError("no answer yet");
};

std::shared_ptr<Engine> Engine::Start(Options options) {
  options.machine.seed = runtime::RandomNumber();
  options.machine.server = runtime::ToString(options.address);
  std::shared_ptr<Engine> engine(new Engine(std::move(options)));
  engine->loop_.Post([engine] {
    SessionMachine::Effects effects;
    engine->machine_.Start(MonotonicNow(), effects);
    engine->Carry(std::move(effects));
  });
  return engine;
}

Engine::Engine(Options options)
    : generation_(runtime::ForkGeneration()),
      address_(options.address),
      server_(runtime::ToString(options.address)),
      job_(options.machine.job),
      who_(options.who),
      link_options_(options.link),
      loop_(ProcessLoop()),
      machine_(std::move(options.machine)),
      timer_(loop_.io()) {}

bool Engine::here() const { return generation_ == runtime::ForkGeneration(); }

absl::Status Engine::Forked() const {
  return WithReason(
      absl::FailedPreconditionError(
          absl::StrCat("this process (pid ", ::getpid(), ") was forked off a member of job '", job_,
                       "', which stays its parent's; join from here if this process shall be one")),
      "forked");
}

// --- Callers ---

Pending Engine::PendingOf(Ticket ticket) {
  return Pending([weak = weak_from_this(), ticket] {
    if (const auto self = weak.lock()) self->Cancel(ticket);
  });
}

Engine::Answer Engine::Call(Request request, const Interrupted& interrupted,
                            const std::function<void(Pending)>& started) {
  if (!here()) return Forked();
  const auto caller = std::make_shared<Caller>(loop_);
  LoopDriver::Turn turn(loop_, *caller);
  Done done = [caller](Answer answer) { caller->Answered(std::move(answer)); };
  const auto ticket = Submit(std::move(request), done, /*direct=*/true, turn.drives());
  if (!ticket.ok()) return ticket.status();
  if (turn.drives()) Drain();
  if (started) started(PendingOf(*ticket));
  if (!interrupted) {
    turn.Wait();
    return std::move(caller->answer);
  }
  while (!turn.WaitUntil(std::chrono::steady_clock::now() + kInterruptedEvery)) {
    absl::Status status = interrupted();
    if (!here()) return status.ok() ? Forked() : status;
    if (!status.ok()) {
      Cancel(*ticket);
      return status;
    }
  }
  return std::move(caller->answer);
}

Pending Engine::CallAsync(Request request, Done done) {
  absl::Status refused = here() ? absl::OkStatus() : Forked();
  if (refused.ok()) {
    const auto ticket = Submit(std::move(request), done, /*direct=*/false);
    if (ticket.ok()) return PendingOf(*ticket);
    refused = ticket.status();
  }
  CallBackWithoutEngine(
      [done = std::move(done), refused = std::move(refused)]() mutable { done(refused); });
  return Pending();
}

absl::StatusOr<Ticket> Engine::Submit(Request request, Done& done, bool direct, bool on_loop) {
  const Time deadline = MonotonicNow() + request.timeout;
  const std::lock_guard lock(mutex_);
  if (closed_) return ClosedStatus();
  if (!direct) ++callbacks_;
  const Ticket ticket = ++last_ticket_;
  queue_.push_back({.ticket = ticket,
                    .request = std::move(request),
                    .deadline = deadline,
                    .done = std::move(done),
                    .direct = direct});
  if (!on_loop) PostDrain();
  return ticket;
}

void Engine::Cancel(Ticket ticket) {
  if (!here()) return;
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  queue_.push_back({.ticket = ticket, .cancel = true});
  PostDrain();
}

void Engine::Progress(int64_t step, std::string_view phase) {
  if (!here()) return;
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  if (step >= 0) step_ = step;
  if (!phase.empty()) phase_.assign(phase);
  if (!std::exchange(progress_dirty_, true)) PostDrain();
}

void Engine::PostDrain() {
  if (std::exchange(posted_, true)) return;
  loop_.Post([self = shared_from_this()] { self->Drain(); });
}

void Engine::OnFailed(std::function<void(absl::Status)> callback) {
  if (!here()) return;
  std::optional<absl::Status> failed;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    on_failed_ = callback;
    failed = failed_;
    if (!failed.has_value() || callback == nullptr) return;
    ++callbacks_;
  }
  Callback([callback = std::move(callback), failed = *std::move(failed)] { callback(failed); });
}

// `callbacks_` was counted up by whoever decided that there is one.
void Engine::Callback(absl::AnyInvocable<void()> function) {
  loop_.Callback([self = shared_from_this(), function = std::move(function)]() mutable {
    function();
    function = nullptr;
    const std::lock_guard lock(self->mutex_);
    if (--self->callbacks_ == 0) self->changed_.notify_all();
  });
}

void Engine::CallBackWithoutEngine(absl::AnyInvocable<void()> function) {
  ProcessLoop().Callback(std::move(function));
}

bool Engine::InCallback() { return LoopDriver::InCallback(); }

void Engine::Close() {
  if (!here()) return;
  std::unique_lock lock(mutex_);
  if (!std::exchange(closed_, true)) PostDrain();
  changed_.wait(lock, [this] { return ended_; });
  if (!LoopDriver::InCallback()) changed_.wait(lock, [this] { return callbacks_ == 0; });
}

// --- The loop ---

void Engine::Drain() {
  std::vector<Submission> queue;
  bool progress = false;
  bool close = false;
  int64_t step = -1;
  std::string phase;
  {
    const std::lock_guard lock(mutex_);
    posted_ = false;
    queue.swap(queue_);
    progress = std::exchange(progress_dirty_, false);
    if (progress) {
      step = step_;
      phase = phase_;
    }
    close = closed_;
  }
  const Time now = MonotonicNow();
  SessionMachine::Effects effects;
  for (Submission& submission : queue) {
    if (submission.cancel) {
      machine_.Cancel(now, submission.ticket, effects);
      continue;
    }
    Request& request = submission.request;
    waiting_[submission.ticket] = {std::move(submission.done), submission.direct};
    machine_.Submit(now,
                    {.ticket = submission.ticket,
                     .kind = request.kind,
                     .type = request.type,
                     .payload = std::move(request.payload),
                     .timeout_field = request.timeout_field,
                     .hurry_server = request.hurry_server,
                     .deadline = submission.deadline,
                     .what = std::move(request.what)},
                    effects);
  }
  if (progress) machine_.Progress(now, step, phase, effects);
  if (close) machine_.Close(now, effects);
  Carry(std::move(effects));
  if (!close) return;
  timer_.cancel();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  on_failed_ = nullptr;
  changed_.notify_all();
}

void Engine::Carry(SessionMachine::Effects effects) {
  if (link_ != nullptr) {
    if (!effects.send.empty()) link_->SendNow(std::move(effects.send));
    if (effects.farewell) std::exchange(link_, nullptr)->Farewell();
  }
  if (effects.drop_link && link_ != nullptr) std::exchange(link_, nullptr)->Abandon();
  if (effects.dial) Dial();
  for (CompletedCall& completed : effects.completed) Finish(std::move(completed));
  if (effects.failed.has_value()) Failed(*effects.failed);
  ArmTimer();
}

void Engine::Dial() {
  const auto with_machine = [weak = weak_from_this()](auto&& step) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    SessionMachine::Effects effects;
    step(*self, effects);
    self->Carry(std::move(effects));
  };
  link_ = link::ClientLink::Dial(
      loop_.io(), address_, kDialTimeout, who_, link_options_,
      {.ready =
           [with_machine](const wire::native::Welcome& welcome) {
             with_machine([&](Engine& self, auto& effects) {
               self.machine_.LinkReady(MonotonicNow(), welcome.requests_in_flight_max,
                                       welcome.message_bytes_max, effects);
             });
           },
       .closed =
           [with_machine](const absl::Status& why) {
             with_machine([&](Engine& self, auto& effects) {
               self.link_ = nullptr;
               self.machine_.LinkLost(MonotonicNow(), why, effects);
             });
           },
       .message =
           [with_machine](link::Message message) {
             with_machine([&](Engine& self, auto& effects) {
               self.machine_.Take(MonotonicNow(), std::move(message), effects);
             });
           }});
}

void Engine::ArmTimer() {
  const Time due = machine_.NextDeadline();
  // One that rings too early does no harm, and most deadlines are never reached.
  if (due >= armed_) return;
  armed_ = due;
  timer_.expires_at(
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due.nanoseconds())));
  timer_.async_wait([weak = weak_from_this(), due](const asio::error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr || self->armed_ != due) return;
    self->armed_ = Time::Infinite();
    SessionMachine::Effects effects;
    self->machine_.ReachDeadline(MonotonicNow(), effects);
    self->Carry(std::move(effects));
  });
}

void Engine::Finish(CompletedCall completed) {
  auto node = waiting_.extract(completed.ticket);
  LOCKSTEP_CHECK(!node.empty());
  Waiting& waiting = node.mapped();
  if (waiting.direct) return waiting.done(std::move(completed.answer));
  Callback([done = std::move(waiting.done), answer = std::move(completed.answer)]() mutable {
    done(std::move(answer));
  });
}

void Engine::Failed(const absl::Status& why) {
  std::function<void(absl::Status)> callback;
  {
    const std::lock_guard lock(mutex_);
    failed_ = why;
    callback = on_failed_;
    if (callback == nullptr) return;
    ++callbacks_;
  }
  Callback([callback = std::move(callback), why] { callback(why); });
}

}  // namespace lockstep::client

namespace lockstep {

void Pending::Cancel() const {
  if (cancel_) cancel_();
}

}  // namespace lockstep
