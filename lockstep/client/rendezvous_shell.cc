#include "lockstep/client/rendezvous_shell.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/rendezvous/transport/spin.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {

using rendezvous::Completed;
using rendezvous::Effects;
using rendezvous::ErrorPtr;
using rendezvous::LeaseId;
using rendezvous::PeerMessage;
using rendezvous::Value;
using runtime::MonotonicNow;

namespace {

constexpr absl::Duration kPublishTimeout = absl::Minutes(1);

}  // namespace

RendezvousShell::RendezvousShell(Member& member, const RendezvousOptions& options,
                                 std::vector<std::string> names)
    : client_("a member of a rendezvous, which stays its parent's"),
      self_(member.member()),
      values_({.arena_bytes_max = options.arena_bytes_max,
               .inline_bytes_max = rendezvous::Options().inline_bytes_max,
               .shares_memory = options.shared_memory}),
      machine_({.self = self_,
                .names = names,
                .first_lease =
                    options.first_lease != 0 ? options.first_lease : runtime::RandomNumber() >> 2,
                .quota_bytes = options.quota_bytes,
                .quota_values = options.quota_values}),
      calls_(client_),
      network_(client_.loop(), mutex_, values_.arena(), self_, std::move(names),
               rendezvous::Options().inline_bytes_max, member.keys(), *this) {}

// --- Beginning and end ---

absl::Status RendezvousShell::Open(transport::Connector::Options options,
                                   const Interrupted& interrupted) {
  const std::shared_ptr<RendezvousNetwork> network(shared_from_this(), &network_);
  absl::Status listens;
  client_.RunOnLoop([&] {
    listens = network->Listen(network, std::move(options));
    if (listens.ok()) client_.loop().AddPoller(this, transport::SpinBudget());
  });
  if (!listens.ok()) return listens;
  return network_.Publish(kPublishTimeout, interrupted);
}

bool RendezvousShell::End(Ending ending) {
  bool ends = false;
  Do([&](Machine& machine, Effects& effects) {
    mutex_.AssertHeld();
    if (ending_.stage >= ending.stage) return;
    ends = true;
    ending_ = std::move(ending);
    machine.Close(ending_.error, effects);
    // What others may look at is not used again.
    for (Value& value : effects.dropped) values_.Keep(value);
  });
  return ends;
}

void RendezvousShell::Join() {
  network_.Withdraw();
  client_.RunOnLoop([this] {
    Poll();
    client_.loop().RemovePoller(this);
    client_.CancelTimer();
    network_.Close();
  });
  network_.CloseBulk();
  // A completion may wait for the loop of long values.
  if (!network_.InBulkLoop()) client_.WaitForCallbacks();
}

absl::Status RendezvousShell::ToStatus(const ErrorPtr& error) {
  if (!error) return absl::OkStatus();
  {
    const MutexLock lock(mutex_);
    if (error == ending_.error) return ending_.status;
  }
  absl::Status status = wire::native::WithReason(absl::Status(error->code, error->message),
                                                 rendezvous::ReasonName(error->reason));
  if (!error->origin.has_value()) return status;
  return wire::native::WithDetail(std::move(status), "origin",
                                  absl::StrCat(error->origin->value()));
}

// --- Callers ---

void RendezvousShell::Do(Act act, bool on_loop) {
  After after;
  bool arm = false;
  {
    const MutexLock lock(mutex_);
    Effects effects;
    act(machine_, effects);
    Carry(effects);
    arm = Unlocking(after);
  }
  Settle(std::move(after), arm, on_loop);
}

absl::StatusOr<Completed> RendezvousShell::Wait(Ask ask, const Interrupted& interrupted,
                                                std::byte* into) {
  OpId op;
  std::shared_ptr<RendezvousCalls::Caller> caller;
  std::optional<Completed> completed;
  After after;
  bool arm = false;
  {
    const MutexLock lock(mutex_);
    op = calls_.NewOp();
    Effects effects;
    ask(machine_, op, effects);
    // Often there is nothing to wait for.
    if (!effects.completed.empty() && effects.completed.back().op == op) {
      completed = std::move(effects.completed.back());
      effects.completed.pop_back();
    } else {
      caller = std::make_shared<RendezvousCalls::Caller>(client_.loop());
      calls_.Await(op, {.caller = caller, .done = nullptr, .into = into});
    }
    Carry(effects);
    arm = Unlocking(after);
  }
  if (completed.has_value()) {
    Settle(std::move(after), arm, /*on_loop=*/false);
    return *std::move(completed);
  }
  LoopDriver::Turn turn(client_.loop(), *caller);
  Settle(std::move(after), arm, turn.drives());
  // The machine ends every wait at its deadline.
  const absl::Status stopped = client_.Wait(turn, Time::Infinite(), interrupted);
  if (stopped.ok()) return std::move(caller->completed);
  if (!client_.here()) return stopped;
  Do([&](Machine& machine, Effects& effects) { machine.Cancel(MonotonicNow(), op, effects); });
  turn.Wait();
  return stopped;
}

Pending RendezvousShell::Start(Ask ask, RendezvousCalls::Done done) {
  OpId op;
  Do([&](Machine& machine, Effects& effects) {
    op = calls_.NewOp();
    calls_.Await(op, {.caller = nullptr, .done = std::move(done)});
    ask(machine, op, effects);
  });
  return Pending([weak = weak_from_this(), op] {
    const auto self = weak.lock();
    if (self == nullptr || !self->client_.here()) return;
    self->Do(
        [&](Machine& machine, Effects& effects) { machine.Cancel(MonotonicNow(), op, effects); });
  });
}

bool RendezvousShell::Unlocking(After& after) {
  after = calls_.TakeAfter();
  return client_.RingsTooLate(machine_.NextDeadline());
}

void RendezvousShell::Settle(After&& after, bool arm, bool on_loop) {
  calls_.Settle(std::move(after), on_loop);
  if (!arm) return;
  if (on_loop) return ArmTimer();
  client_.loop().Post([self = shared_from_this()] { self->ArmTimer(); });
}

// --- The loop ---

bool RendezvousShell::Poll() {
  PolledStreams& streams = network_.streams();
  const bool any = streams.Poll();
  streams.TellOfRemovedSegments();
  if (!calls_.has_after()) return any;
  After after;
  {
    const MutexLock lock(mutex_);
    after = calls_.TakeAfter();
  }
  calls_.Settle(std::move(after), /*on_loop=*/true);
  // Values that were dropped may have been the last of their segments.
  streams.TellOfRemovedSegments();
  ArmTimer();
  return true;
}

bool RendezvousShell::PrepareToSleep() {
  return network_.streams().PrepareToSleep() && !calls_.has_after();
}

void RendezvousShell::Awake() { network_.streams().Awake(); }

void RendezvousShell::ArmTimer() {
  Time due;
  {
    const MutexLock lock(mutex_);
    if (ending_.stage == Ending::Stage::kClosed) return;
    due = machine_.NextDeadline();
  }
  client_.ArmTimer(due, weak_from_this(), [](RendezvousShell& self) {
    self.Do(
        [](Machine& machine, Effects& effects) { machine.ReachDeadline(MonotonicNow(), effects); },
        /*on_loop=*/true);
  });
}

// --- The network ---

void RendezvousShell::Carry(Effects& effects) {
  // Of a rendezvous that was closed the others learn by its card and its streams, which go.
  if (ending_.stage != Ending::Stage::kClosed) {
    for (auto& [to, message] : effects.messages) network_.Send(to, std::move(message));
  }
  for (const rendezvous::Fetch& fetch : effects.fetches) {
    network_.Fetch(fetch, calls_.WhereBytesGo(fetch.op));
  }
  for (const OpId op : effects.stop_fetches) network_.StopFetch(op);
  calls_.Take(effects);
}

void RendezvousShell::TakeMembers(const std::vector<MemberInfo>& members) {
  Do([&](Machine&, Effects&) {
    mutex_.AssertHeld();
    if (ending_.stage == Ending::Stage::kClosed) return;
    for (const MemberInfo& each : members) {
      if (MemberIndex(each.member) != self_) network_.TakeMember(each);
    }
  });
}

void RendezvousShell::Take(MemberIndex from, PeerMessage message) {
  Effects effects;
  machine_.Take(MonotonicNow(), from, std::move(message), effects);
  Carry(effects);
}

std::vector<Value> RendezvousShell::Lose(MemberIndex member, ErrorPtr why, bool sees_memory) {
  Effects effects;
  machine_.PeerLost(MonotonicNow(), member, std::move(why), effects);
  std::vector<Value> lent;
  if (sees_memory) {
    std::move(effects.dropped.begin(), effects.dropped.end(), std::back_inserter(lent));
    effects.dropped.clear();
  }
  Carry(effects);
  return lent;
}

void RendezvousShell::ComesBack(MemberIndex member) { machine_.PeerBack(member); }

std::optional<Value> RendezvousShell::Lent(MemberIndex member, LeaseId lease) {
  const MutexLock lock(mutex_);
  const Value* value = machine_.Lent(member, lease);
  if (value == nullptr) return std::nullopt;
  return *value;
}

void RendezvousShell::Fetched(OpId op, rendezvous::MemoryPtr memory, ErrorPtr error) {
  Do([&](Machine& machine, Effects& effects) {
    if (!error) calls_.SetFetched(op, std::move(memory));
    machine.Fetched(MonotonicNow(), op, std::move(error), effects);
  });
}

}  // namespace lockstep::client
