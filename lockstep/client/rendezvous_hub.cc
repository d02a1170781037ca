#include "lockstep/client/rendezvous_hub.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/client/engine.h"
#include "lockstep/client/threads.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/rendezvous/transport/spin.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

using rendezvous::Effects;
using rendezvous::ErrorPtr;
using rendezvous::LeaseId;
using rendezvous::PeerMessage;
using rendezvous::Reason;
using rendezvous::StepId;
using rendezvous::Value;
using runtime::MonotonicNow;
using wire::native::WithReason;
namespace native = wire::native;

constexpr auto kInterruptedEvery = std::chrono::milliseconds(50);
constexpr absl::Duration kOpenTimeout = absl::Minutes(1);

absl::Status ClosedStatus() {
  return WithReason(absl::CancelledError("the rendezvous was closed"), "rendezvous_closed");
}

absl::Status ForkedStatus() {
  return WithReason(absl::FailedPreconditionError(
                        "this process was forked off; the rendezvous stays its parent's"),
                    "forked");
}

}  // namespace

// --- Beginning and end ---

uint64_t RendezvousHub::IncarnationOf(const std::string& name) {
  uint64_t incarnation = 0;
  const size_t mark = name.find('#');
  if (mark == name.npos || !absl::SimpleAtoi(name.substr(mark + 1), &incarnation)) return 0;
  return incarnation;
}

absl::StatusOr<std::shared_ptr<RendezvousHub>> RendezvousHub::Start(
    Member& member, const RendezvousOptions& options) {
  auto watch = member.WatchJob();
  const auto job = watch->Next({.timeout = kOpenTimeout, .interrupted = options.interrupted});
  if (!job.ok()) return job.status();
  std::vector<std::string> names(static_cast<size_t>(member.size()));
  for (const MemberInfo& each : job->members) {
    const auto index = static_cast<size_t>(each.member);
    if (index < names.size()) names[index] = each.name.substr(0, each.name.find('#'));
  }
  std::shared_ptr<RendezvousHub> hub(new RendezvousHub(member, options, std::move(names)));
  if (absl::Status status = hub->Begin(member, options); !status.ok()) {
    hub->Close();
    return status;
  }
  return hub;
}

RendezvousHub::RendezvousHub(Member& member, const RendezvousOptions& options,
                             std::vector<std::string> names)
    : generation_(runtime::ForkGeneration()),
      loop_(ProcessLoop()),
      self_(member.member()),
      watch_(member.WatchJob()),
      cards_(member.keys(), self_, loop_),
      values_({.arena_bytes_max = options.arena_bytes_max,
               .inline_bytes_max = rendezvous::Options().inline_bytes_max,
               .shares_memory = options.shared_memory}),
      calls_(std::make_shared<RendezvousCalls>(loop_)),
      machine_({.self = self_,
                .names = names,
                .first_lease =
                    options.first_lease != 0 ? options.first_lease : runtime::RandomNumber() >> 2,
                .quota_bytes = options.quota_bytes,
                .quota_values = options.quota_values}),
      peers_(values_.arena(), std::move(names), rendezvous::Options().inline_bytes_max),
      streams_(values_.arena(), mutex_),
      departed_(loop_.io()),
      timer_(loop_.io()),
      bell_(loop_.io()) {}

RendezvousHub::~RendezvousHub() = default;

bool RendezvousHub::here() const { return generation_ == runtime::ForkGeneration(); }

absl::Status RendezvousHub::Begin(Member& member, const RendezvousOptions& options) {
  bulk_ = std::make_shared<RendezvousBulk>(values_.arena(), BulkEvents());
  const auto coordinator = runtime::ParseAddress(member.coordinator());
  if (!coordinator.ok()) return coordinator.status();
  const auto host = transport::LocalHostTowards(*coordinator);
  if (!host.ok()) return host.status();
  const auto bell = Bell::Make();
  if (!bell.ok()) return bell.status();

  std::promise<absl::StatusOr<transport::Card>> listening;
  loop_.Post([&, self = shared_from_this()] {
    bell_.Start(*bell);
    listening.set_value(Listen({.job = member.job(),
                                .attempt = member.attempt(),
                                .self = self_,
                                .incarnation = IncarnationOf(member.name()),
                                .names = peers_.names(),
                                .shared_memory = options.shared_memory,
                                .process_memory = options.process_memory,
                                .host = *host}));
  });
  const auto card = listening.get_future().get();
  if (!card.ok()) return card.status();

  if (absl::Status published = cards_.Publish(*card, kOpenTimeout, options.interrupted);
      !published.ok()) {
    return published;
  }
  WatchJob();
  look_ = std::make_unique<RendezvousLook>(member.keys(), self_.value(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    return self != nullptr && self->here() ? self->Report() : native::RendezvousReport();
  });
  return absl::OkStatus();
}

absl::StatusOr<transport::Card> RendezvousHub::Listen(transport::Connector::Options options) {
  auto bulk_address = bulk_->Listen(loop_.io(), options.host);
  if (!bulk_address.ok()) return bulk_address.status();
  options.bulk_address = *std::move(bulk_address);
  auto connector = transport::Connector::Start(loop_.io(), mutex_, bell_.fd(), std::move(options),
                                               ConnectorEvents());
  if (!connector.ok()) return connector.status();
  connector_ = *std::move(connector);
  bulk_->Begin(connector_->card(), connector_->options());
  bell_.Hear(weak_from_this());
  loop_.AddPoller(this, transport::SpinBudget());
  return connector_->card();
}

native::RendezvousReport RendezvousHub::Report() {
  constexpr size_t kRows = 32;
  const transport::ArenaStats arena = values_.arena().stats();
  native::RendezvousReport report = {.member = self_.value(),
                                     .name = peers_.NameOf(self_),
                                     .arena_reserved_bytes = arena.bytes_reserved,
                                     .arena_used_bytes = arena.bytes_in_use};
  const MutexLock lock(mutex_);
  AddView(machine_.GetView(MonotonicNow(), kRows), peers_.names(), report);
  peers_.AddTransports(report);
  return report;
}

void RendezvousHub::Close() {
  if (!here()) return;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(closed_, true)) return;
    Effects effects;
    CloseMachine(
        {.error = rendezvous::MakeError(absl::StatusCode::kCancelled, Reason::kRendezvousClosed,
                                        "the rendezvous was closed"),
         .status = ClosedStatus()},
        effects);
    Carry(effects);
  }
  watch_->Stop();
  look_ = nullptr;
  cards_.Withdraw();
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  loop_.Post([&, self = shared_from_this()] {
    Poll();
    loop_.RemovePoller(this);
    timer_.Cancel();
    departed_.Stop();  // what is still looked at stays until the arena goes
    if (connector_) connector_->Close();
    if (bulk_) bulk_->StopListening();
    {
      const MutexLock lock(mutex_);
      peers_.Close();
    }
    streams_.Clear();
    bell_.Close();
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
  if (bulk_) bulk_->Close();
  // A completion may wait for the loop of long values.
  if (LoopDriver::InCallback() || (bulk_ && bulk_->InLoop())) return;
  calls_->WaitForCallbacks();
}

void RendezvousHub::CloseMachine(Ending ending, Effects& effects) {
  ending_ = std::move(ending);
  machine_.Close(ending_.error, effects);
  for (Value& value : effects.dropped) values_.Keep(value);
}

// --- Callers ---

bool RendezvousHub::Unlocking(After& after) {
  after = calls_->TakeAfter();
  return timer_.RingsTooLate(machine_.NextDeadline());
}

void RendezvousHub::ArmSoon(bool on_loop) {
  if (on_loop) return ArmTimer();
  loop_.Post([self = shared_from_this()] { self->ArmTimer(); });
}

template <class Act>
absl::StatusOr<rendezvous::Completed> RendezvousHub::Wait(const Act& act,
                                                          const Interrupted& interrupted,
                                                          std::byte* into) {
  OpId op;
  std::shared_ptr<RendezvousCalls::Caller> caller;
  std::optional<rendezvous::Completed> completed;
  After after;
  bool arm = false;
  {
    const MutexLock lock(mutex_);
    op = calls_->NewOp();
    Effects effects;
    act(op, effects);
    // Often there is nothing to wait for.
    if (!effects.completed.empty() && effects.completed.back().op == op) {
      completed = std::move(effects.completed.back());
      effects.completed.pop_back();
    } else {
      caller = std::make_shared<RendezvousCalls::Caller>(loop_);
      calls_->Await(op, {.caller = caller, .done = nullptr, .into = into});
    }
    Carry(effects);
    arm = Unlocking(after);
  }
  if (completed.has_value()) {
    calls_->Settle(std::move(after), /*on_loop=*/false);
    if (arm) ArmSoon(/*on_loop=*/false);
    return *std::move(completed);
  }
  LoopDriver::Turn turn(loop_, *caller);
  calls_->Settle(std::move(after), turn.drives());
  if (arm) ArmSoon(turn.drives());
  if (!interrupted) {
    turn.Wait();
    return std::move(caller->completed);
  }
  while (!turn.WaitUntil(std::chrono::steady_clock::now() + kInterruptedEvery)) {
    if (!here()) return ForkedStatus();
    if (absl::Status status = interrupted(); !status.ok()) {
      Do([&](Effects& effects) { machine_.Cancel(MonotonicNow(), op, effects); });
      turn.Wait();
      return status;
    }
  }
  return std::move(caller->completed);
}

template <class Act>
Pending RendezvousHub::StartAsync(const Act& act, RendezvousCalls::Done done) {
  OpId op;
  Do([&](Effects& effects) {
    op = calls_->NewOp();
    calls_->Await(op, {.caller = nullptr, .done = std::move(done)});
    act(op, effects);
  });
  return Pending([weak = weak_from_this(), op] {
    const auto self = weak.lock();
    if (self == nullptr || !self->here()) return;
    self->Do([&](Effects& effects) { self->machine_.Cancel(MonotonicNow(), op, effects); });
  });
}

absl::Status RendezvousHub::OpenStep(int64_t step) {
  if (!here()) return ForkedStatus();
  ErrorPtr error;
  {
    const MutexLock lock(mutex_);
    error = machine_.OpenStep(MonotonicNow(), StepId(step));
  }
  return ToStatus(error);
}

void RendezvousHub::CloseStep(int64_t step) {
  if (!here()) return;
  Do([&](Effects& effects) { machine_.CloseStep(MonotonicNow(), StepId(step), effects); });
}

absl::Status RendezvousHub::Abort(int64_t step, const absl::Status& why) {
  if (!here()) return ForkedStatus();
  if (why.ok()) {
    return WithReason(absl::InvalidArgumentError("a step is aborted with an error, not with OK"),
                      rendezvous::ReasonName(Reason::kInvalidArgument));
  }
  Do([&](Effects& effects) {
    machine_.Abort(
        MonotonicNow(), StepId(step),
        rendezvous::MakeError(why.code(), Reason::kStepAborted, std::string(why.message())),
        effects);
  });
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<transport::Block>> RendezvousHub::Allocate(uint64_t bytes) {
  if (!here()) return ForkedStatus();
  return values_.Allocate(bytes);
}

std::vector<PeerTransport> RendezvousHub::Transports() {
  if (!here()) return {};
  const MutexLock lock(mutex_);
  return peers_.Transports();
}

RendezvousCounters RendezvousHub::Counters() {
  if (!here()) return {};
  const transport::ArenaStats arena = values_.arena().stats();
  const MutexLock lock(mutex_);
  const rendezvous::View view = machine_.GetView(MonotonicNow(), /*rows_max=*/1);
  RendezvousCounters counters = peers_.traffic();
  counters.waits = view.waits;
  if (!view.waiting.empty()) counters.oldest_wait = view.waiting.front().age;
  counters.held_values = view.held_values;
  counters.held_bytes = view.held_bytes;
  counters.arena_reserved_bytes = arena.bytes_reserved;
  counters.arena_used_bytes = arena.bytes_in_use;
  return counters;
}

// Outside of the mutex, by the one who sends. Who fetches it over the network may do so from where
// it lies.
absl::Status RendezvousHub::Prepare(int32_t to, Value& value) {
  if (absl::Status wrong = SharedValues::Check(value); !wrong.ok()) return wrong;
  const MemberIndex receiver(to);
  if (receiver == self_ || !values_.NeedsCopy(value)) return absl::OkStatus();
  {
    const MutexLock lock(mutex_);
    if (!peers_.MaySeeMemory(receiver)) return absl::OkStatus();
  }
  return values_.Copy(value);
}

absl::Status RendezvousHub::Send(int64_t step, std::string_view name, int32_t to, Value value,
                                 const SendOptions& options) {
  if (!here()) return ForkedStatus();
  if (absl::Status status = Prepare(to, value); !status.ok()) return status;
  rendezvous::Post post = {.step = StepId(step),
                           .to = MemberIndex(to),
                           .name = std::string(name),
                           .value = std::move(value)};
  if (options.wait_for_room <= absl::ZeroDuration()) {
    ErrorPtr error;
    Do([&](Effects& effects) { error = machine_.Send(MonotonicNow(), std::move(post), effects); });
    return ToStatus(error);
  }
  const Time deadline = MonotonicNow() + options.wait_for_room;
  const auto completed = Wait(
      [&](OpId op, Effects& effects) {
        machine_.SendWhenRoom(MonotonicNow(), std::move(post), op, deadline, effects);
      },
      options.interrupted);
  if (!completed.ok()) return completed.status();
  return ToStatus(completed->error);
}

void RendezvousHub::SendAcked(rendezvous::Post post, OpId op, Time deadline, Effects& effects) {
  ErrorPtr error = machine_.Send(MonotonicNow(), std::move(post), op, deadline, effects);
  if (error) effects.Fail(op, std::move(error));
}

absl::Status RendezvousHub::SendAcked(int64_t step, std::string_view name, int32_t to, Value value,
                                      const CallOptions& options) {
  if (!here()) return ForkedStatus();
  if (absl::Status status = Prepare(to, value); !status.ok()) return status;
  const Time deadline = MonotonicNow() + options.timeout;
  const auto completed = Wait(
      [&](OpId op, Effects& effects) {
        SendAcked({.step = StepId(step),
                   .to = MemberIndex(to),
                   .name = std::string(name),
                   .value = std::move(value)},
                  op, deadline, effects);
      },
      options.interrupted);
  if (!completed.ok()) return completed.status();
  return ToStatus(completed->error);
}

Pending RendezvousHub::SendAckedAsync(int64_t step, std::string_view name, int32_t to, Value value,
                                      const CallOptions& options, Completion<void> done) {
  if (!here()) {
    Engine::CallBackWithoutEngine([done = std::move(done)]() mutable { done(ForkedStatus()); });
    return Pending();
  }
  if (absl::Status refused = Prepare(to, value); !refused.ok()) {
    calls_->CallBack([done = std::move(done), refused]() mutable { done(refused); });
    return Pending();
  }
  const Time deadline = MonotonicNow() + options.timeout;
  return StartAsync(
      [&](OpId op, Effects& effects) {
        SendAcked({.step = StepId(step),
                   .to = MemberIndex(to),
                   .name = std::string(name),
                   .value = std::move(value)},
                  op, deadline, effects);
      },
      [self = shared_from_this(),
       done = std::move(done)](absl::StatusOr<rendezvous::Completed> completed) mutable {
        done(completed.ok() ? self->ToStatus(completed->error) : completed.status());
      });
}

absl::StatusOr<Received> RendezvousHub::Receive(int64_t step, std::string_view name, int32_t from,
                                                std::optional<std::span<std::byte>> into,
                                                const CallOptions& options) {
  if (!here()) return ForkedStatus();
  const Time now = MonotonicNow();
  std::optional<uint64_t> into_bytes;
  if (into.has_value()) into_bytes = into->size();
  auto completed = Wait(
      [&](OpId op, Effects& effects) {
        machine_.Receive(now,
                         {.op = op,
                          .step = StepId(step),
                          .from = MemberIndex(from),
                          .name = std::string(name),
                          .into_bytes = into_bytes,
                          .deadline = now + options.timeout},
                         effects);
      },
      options.interrupted, into.has_value() ? into->data() : nullptr);
  if (!completed.ok()) return completed.status();
  return ToReceived(*std::move(completed));
}

Pending RendezvousHub::ReceiveAsync(int64_t step, std::string_view name, int32_t from,
                                    const CallOptions& options, Completion<Received> done) {
  if (!here()) {
    Engine::CallBackWithoutEngine([done = std::move(done)]() mutable { done(ForkedStatus()); });
    return Pending();
  }
  const Time now = MonotonicNow();
  return StartAsync(
      [&](OpId op, Effects& effects) {
        machine_.Receive(now,
                         {.op = op,
                          .step = StepId(step),
                          .from = MemberIndex(from),
                          .name = std::string(name),
                          .deadline = now + options.timeout},
                         effects);
      },
      [self = shared_from_this(),
       done = std::move(done)](absl::StatusOr<rendezvous::Completed> completed) mutable {
        if (!completed.ok()) return done(completed.status());
        done(self->ToReceived(*std::move(completed)));
      });
}

absl::StatusOr<Received> RendezvousHub::ToReceived(rendezvous::Completed completed) {
  if (completed.error) return ToStatus(completed.error);
  Received received = {.dead = completed.value.dead, .why_dead = completed.value.why_dead};
  rendezvous::MemoryPtr memory = completed.value.memory;
  if (completed.place != nullptr) {
    const auto& remote = *static_cast<const RendezvousPeers::RemotePlace*>(completed.place.get());
    const auto release = [weak = weak_from_this(), from = completed.from, lease = completed.lease] {
      const auto self = weak.lock();
      if (self == nullptr || !self->here()) return;
      self->Do([&](Effects& effects) { self->machine_.Release(from, lease, effects); });
    };
    absl::StatusOr<rendezvous::MemoryPtr> view;
    {
      const MutexLock lock(mutex_);
      view = remote.stream->View(remote.place, release);
    }
    if (!view.ok()) {
      release();
      const bool lies = !absl::IsResourceExhausted(view.status());
      return WithReason(
          absl::Status(lies ? absl::StatusCode::kInternal : view.status().code(),
                       absl::StrCat("a value of ", peers_.NameOf(completed.from),
                                    " cannot be seen here: ", view.status().message())),
          rendezvous::ReasonName(lies ? Reason::kProtocol : Reason::kQuotaExceeded));
    }
    memory = *std::move(view);
    runtime::FaultPoint("rendezvous/lease_taken");
  }
  received.tensor = Tensor(std::move(completed.value.about), std::move(memory));
  return received;
}

absl::Status RendezvousHub::ToStatus(const ErrorPtr& error) {
  if (!error) return absl::OkStatus();
  {
    const MutexLock lock(mutex_);
    if (error == ending_.error) return ending_.status;
  }
  absl::Status status =
      WithReason(absl::Status(error->code, error->message), rendezvous::ReasonName(error->reason));
  if (!error->origin.has_value()) return status;
  return native::WithDetail(std::move(status), "origin", absl::StrCat(error->origin->value()));
}

}  // namespace lockstep::client
