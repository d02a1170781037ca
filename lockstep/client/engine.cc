#include "lockstep/client/engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/client/threads.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

using runtime::MonotonicNow;
using wire::native::WithReason;

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
  void Answered(Answer&& with) {
    answer = std::move(with);
    Wake();
  }
  Answer answer = absl::UnknownError("no answer yet");
};

std::shared_ptr<Engine> Engine::Start(Options options) {
  options.machine.seed = runtime::RandomNumber();
  options.machine.id_seeds = {runtime::RandomNumber(), runtime::RandomNumber()};
  options.machine.server = options.servers->text();
  std::shared_ptr<Engine> engine(new Engine(std::move(options)));
  engine->shell_.loop().Post([engine] {
    SessionMachine::Effects effects;
    engine->machine_.Start(MonotonicNow(), effects);
    engine->Carry(std::move(effects));
  });
  return engine;
}

Engine::Engine(Options options)
    : options_(std::move(options)),
      shell_(absl::StrCat("a member of job '", options_.machine.job,
                          "', which stays its parent's; join from here if this process shall be "
                          "one")),
      machine_(options_.machine) {}

// --- Callers ---

Pending Engine::PendingOf(Ticket ticket) {
  return Pending([weak = weak_from_this(), ticket] {
    if (const auto self = weak.lock()) self->Cancel(ticket);
  });
}

Engine::Answer Engine::Call(Request request, const Interrupted& interrupted,
                            const std::function<void(Pending)>& started) {
  if (!here()) return Forked();
  const auto caller = std::make_shared<Caller>(shell_.loop());
  LoopDriver::Turn turn(shell_.loop(), *caller);
  Done done = [caller](Answer&& answer) { caller->Answered(std::move(answer)); };
  const auto ticket = Submit(std::move(request), done, /*direct=*/true, turn.drives());
  if (!ticket.ok()) return ticket.status();
  if (turn.drives()) Drain();
  if (started) started(PendingOf(*ticket));
  absl::Status status = shell_.Wait(turn, Time::Infinite(), interrupted);
  if (status.ok()) return std::move(caller->answer);
  Cancel(*ticket);
  return status;
}

Pending Engine::CallAsync(Request request, Done done, bool direct) {
  absl::Status refused = here() ? absl::OkStatus() : Forked();
  if (refused.ok()) {
    const auto ticket = Submit(std::move(request), done, direct);
    if (ticket.ok()) return PendingOf(*ticket);
    refused = ticket.status();
  }
  CallBackWithoutEngine(
      [done = std::move(done), refused = std::move(refused)]() mutable { done(refused); });
  return Pending();
}

absl::StatusOr<Ticket> Engine::Submit(Request&& request, Done& done, bool direct, bool on_loop) {
  const Time deadline = MonotonicNow() + request.timeout;
  const MutexLock lock(mutex_);
  if (closed_) return ClosedStatus();
  if (!direct) shell_.ExpectCallback();
  const Ticket ticket = ++last_ticket_;
  queue_.emplace_back(std::in_place_type<Submission>,
                      Submission{.call = {.ticket = ticket,
                                          .kind = request.kind,
                                          .type = request.type,
                                          .payload = std::move(request.payload),
                                          .timeout_field = request.timeout_field,
                                          .leave_server_a_margin = request.leave_server_a_margin,
                                          .deadline = deadline,
                                          .what = std::move(request.what)},
                                 .waiting = {.done = std::move(done), .direct = direct}});
  if (!on_loop) PostDrain();
  return ticket;
}

void Engine::Cancel(Ticket ticket) {
  if (!here()) return;
  const MutexLock lock(mutex_);
  if (closed_) return;
  queue_.push_back(Cancellation{ticket});
  PostDrain();
}

void Engine::Progress(int64_t step, std::string_view phase) {
  if (!here()) return;
  const MutexLock lock(mutex_);
  if (closed_) return;
  if (!progress_) PostDrain();
  ProgressNote& note = progress_ ? *progress_ : progress_.emplace();
  if (step >= 0) note.step = step;
  if (!phase.empty()) note.phase.assign(phase);
}

void Engine::PostDrain() {
  if (std::exchange(posted_, true)) return;
  shell_.loop().Post([self = shared_from_this()] { self->Drain(); });
}

void Engine::OnFailed(std::function<void(absl::Status)> callback) {
  if (!here()) return;
  FailureNotice::Run run;
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    run = failure_.SetCallback(std::move(callback));
    if (run != nullptr) shell_.ExpectCallback();
  }
  if (run != nullptr) shell_.Callback(std::move(run));
}

void Engine::CallBackWithoutEngine(absl::AnyInvocable<void()> function) {
  ProcessLoop().Callback(std::move(function));
}

bool Engine::InCallback() { return LoopDriver::InCallback(); }

void Engine::Close() {
  if (!here()) return;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
  }
  // A second one waits, too: from its return on nothing runs.
  shell_.RunOnLoop([this] {
    Drain();
    SessionMachine::Effects effects;
    machine_.Close(MonotonicNow(), effects);
    Carry(std::move(effects));
    shell_.CancelTimer();
    const MutexLock lock(mutex_);
    failure_.SetCallback(nullptr);
  });
  shell_.WaitForCallbacks();
}

// --- The loop ---

void Engine::Drain() {
  std::vector<std::variant<Submission, Cancellation>> queue;
  std::optional<ProgressNote> progress;
  {
    const MutexLock lock(mutex_);
    posted_ = false;
    queue.swap(queue_);
    progress = std::exchange(progress_, std::nullopt);
  }
  const Time now = MonotonicNow();
  SessionMachine::Effects effects;
  for (auto& each : queue) {
    if (const auto* cancellation = std::get_if<Cancellation>(&each)) {
      machine_.Cancel(now, cancellation->ticket, effects);
      continue;
    }
    auto& [call, waiting] = std::get<Submission>(each);
    LOCKSTEP_DCHECK(!waiting_.contains(call.ticket));
    waiting_.try_emplace(call.ticket, std::move(waiting));
    machine_.Submit(now, std::move(call), effects);
  }
  if (progress) machine_.Progress(now, progress->step, progress->phase, effects);
  Carry(std::move(effects));
}

void Engine::Carry(SessionMachine::Effects&& effects) {
  if (link_ != nullptr) {
    if (!effects.send.empty()) link_->SendNow(std::move(effects.send));
    if (effects.farewell) std::exchange(link_, nullptr)->Farewell();
  }
  if (effects.drop_link && link_ != nullptr) std::exchange(link_, nullptr)->Abandon();
  if (effects.dial) Dial();
  if (!effects.server_news.empty() && options_.server_news) {
    options_.server_news(std::move(effects.server_news));
  }
  for (CompletedCall& completed : effects.completed) Finish(std::move(completed));
  if (effects.failed.has_value()) Fail(*std::move(effects.failed));
  shell_.ArmTimer(machine_.NextDeadline(), weak_from_this(), [](Engine& self) {
    SessionMachine::Effects rung;
    self.machine_.ReachDeadline(MonotonicNow(), rung);
    self.Carry(std::move(rung));
  });
}

void Engine::Dial() {
  LOCKSTEP_DCHECK(link_ == nullptr);
  const auto with_machine = [weak = weak_from_this()](auto&& step) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    SessionMachine::Effects effects;
    step(*self, effects);
    self->Carry(std::move(effects));
  };
  link_ = link::ClientLink::Dial(
      shell_.loop().io(), options_.servers, kDialTimeout, options_.who, options_.link,
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
           [with_machine](link::Message&& message) {
             with_machine([&](Engine& self, auto& effects) {
               self.machine_.Take(MonotonicNow(), std::move(message), effects);
             });
           }});
}

void Engine::Finish(CompletedCall&& completed) {
  auto node = waiting_.extract(completed.ticket);
  LOCKSTEP_CHECK(!node.empty());
  Waiting& waiting = node.mapped();
  if (waiting.direct) return waiting.done(std::move(completed.answer));
  shell_.Callback([done = std::move(waiting.done), answer = std::move(completed.answer)]() mutable {
    done(std::move(answer));
  });
}

void Engine::Fail(absl::Status why) {
  FailureNotice::Run run;
  {
    const MutexLock lock(mutex_);
    run = failure_.Fail(std::move(why));
    if (run != nullptr) shell_.ExpectCallback();
  }
  if (run != nullptr) shell_.Callback(std::move(run));
}

}  // namespace lockstep::client

namespace lockstep {

void Pending::Cancel() const {
  if (cancel_) cancel_();
}

}  // namespace lockstep
