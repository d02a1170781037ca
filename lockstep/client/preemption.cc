#include "lockstep/client/preemption.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "lockstep/base/mutex.h"
#include "lockstep/client/client_shell.h"
#include "lockstep/client/hold_machine.h"
#include "lockstep/client/member.h"
#include "lockstep/client/member_access.h"
#include "lockstep/client/preemption_calls.h"
#include "lockstep/client/typed.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/field.h"

namespace lockstep {

using client::CallType;
using client::ClientShell;
using client::Engine;
using client::HoldMachine;
using client::MakeTyped;
using runtime::MonotonicNow;
namespace native = wire::native;

namespace {

constexpr absl::Duration kSampleEvery = absl::Seconds(1);
constexpr absl::Duration kInterruptedEvery = absl::Milliseconds(50);

template <class Message>
void Tell(const std::shared_ptr<Engine>& engine, const Message& message, std::string what) {
  // Nobody waits for it: what comes of it, the server's next state says.
  client::Start(engine,
                MakeTyped<bool>(message, CallType::kRead, absl::InfiniteDuration(), std::move(what),
                                [](const auto&) { return true; }),
                [](const absl::StatusOr<bool>&) {});
}

}  // namespace

class Preemption::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<Engine> engine, int32_t member, const PreemptionOptions& options)
      : engine_(engine),
        member_(member),
        watch_(client::MakePreemptionWatch(engine, /*answers=*/true)),
        shell_("a member of a job, to which this preemption belongs"),
        machine_({.stride = options.stride,
                  .last_step = options.last_step,
                  .save_estimate = options.save_estimate,
                  .wait_max = options.wait_max}) {
    shared.hold = HoldMachine::kDown;
  }

  void Begin() {
    watch_->CallBack(
        [self = this->shared_from_this()](absl::StatusOr<native::PreemptionState> state) {
          self->Take(std::move(state));
        });
    shell_.loop().Post([self = this->shared_from_this()] { self->SampleLater(); });
  }

  bool Poll(int64_t step, const Interrupted& interrupted) {
    while (true) {
      {
        const MutexLock lock(mutex_);
        HoldMachine::Effects effects;
        const HoldMachine::Verdict verdict = machine_.Poll(MonotonicNow(), step, effects);
        Settle(std::move(effects));
        if (verdict != HoldMachine::Verdict::kWait) return verdict == HoldMachine::Verdict::kYes;
        WaitLimit limit{std::chrono::nanoseconds(machine_.WaitsUntil().nanoseconds())};
        if (interrupted) limit = std::min(limit, WaitLimitAfter(kInterruptedEvery));
        const uint64_t seen = takes_;
        while (takes_ == seen && taken_.WaitUntil(mutex_, limit)) {
        }
      }
      if (interrupted && !interrupted().ok()) return false;
    }
  }

  template <class Change>
  void Do(const Change& change) {
    if (!Here()) return;
    const MutexLock lock(mutex_);
    HoldMachine::Effects effects;
    change(machine_, effects);
    Settle(std::move(effects));
  }

  void Finish() {
    if (!Here()) return;
    {
      const MutexLock lock(mutex_);
      HoldMachine::Effects effects;
      machine_.Finish(effects);
      Settle(std::move(effects));
      if (!std::exchange(finished_, true)) WakeAll();
      callback_ = nullptr;
    }
    watch_->Stop();
    shell_.loop().Post([self = this->shared_from_this()] { self->shell_.CancelTimer(); });
  }

  PreemptionNotice Notice() const {
    if (!Here()) return {};
    const MutexLock lock(mutex_);
    return NoticeOf(machine_.state());
  }

  void OnNotice(std::function<void(const PreemptionNotice&)> callback) {
    if (!Here()) return;
    const MutexLock lock(mutex_);
    callback_ = std::make_shared<std::function<void(const PreemptionNotice&)>>(std::move(callback));
  }

  absl::Status Notify(const native::NotifyPreemption& notice, const CallOptions& options) {
    return client::Run(engine_.lock(), client::NoticeCall(notice, options.timeout),
                       options.interrupted)
        .status();
  }

  // False in a forked child: nothing here may be touched there.
  bool Here() const { return shell_.here(); }

  Shared shared;

 private:
  // Carries out what the machine wants, and puts the hold where it belongs.
  void Settle(HoldMachine::Effects effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto engine = engine_.lock();
    if (engine != nullptr) {
      if (effects.answer) Tell(engine, *effects.answer, "saying where the hold was met");
      if (effects.report) Tell(engine, *effects.report, "saying what became of a preemption");
    }
    shared.hold.store(machine_.hold(), std::memory_order_seq_cst);
  }

  void WakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++takes_;
    taken_.NotifyAll();
  }

  void Take(absl::StatusOr<native::PreemptionState> state) {
    std::shared_ptr<std::function<void(const PreemptionNotice&)>> callback;
    PreemptionNotice notice;
    const bool goes_on = state.ok();
    {
      const MutexLock lock(mutex_);
      if (finished_) return;
      HoldMachine::Effects effects;
      if (!goes_on) {
        machine_.SessionEnded();
      } else {
        shared.hold.store(HoldMachine::kRaised, std::memory_order_seq_cst);
        const int64_t step = shared.step.load(std::memory_order_seq_cst);
        machine_.Take(MonotonicNow(), *std::move(state), step, effects);
        taken_at_ = MonotonicNow();
      }
      Settle(std::move(effects));
      WakeAll();
      callback = callback_;
      notice = NoticeOf(machine_.state());
    }
    if (goes_on && callback != nullptr && *callback) (*callback)(notice);
  }

  // On the loop.
  void SampleLater() {
    shell_.ArmTimer(MonotonicNow() + kSampleEvery, this->weak_from_this(),
                    [](Impl& self) { self.Sample(); });
  }
  void Sample() {
    const int64_t step = shared.step.load(std::memory_order_relaxed);
    {
      const MutexLock lock(mutex_);
      if (finished_) return;
      machine_.Sample(MonotonicNow(), step);
    }
    const auto engine = engine_.lock();
    if (engine == nullptr) return;
    if (step != HoldMachine::kNoStep) engine->Progress(step, {});
    SampleLater();
  }

  PreemptionNotice NoticeOf(const native::PreemptionState& state) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return client::ToNotice(state, MonotonicNow() - taken_at_, member_);
  }

  const std::weak_ptr<Engine> engine_;
  const int32_t member_;
  const std::shared_ptr<client::PreemptionWatch> watch_;

  ClientShell shell_;

  mutable Mutex mutex_;
  CondVar taken_;
  HoldMachine machine_ ABSL_GUARDED_BY(mutex_);
  uint64_t takes_ ABSL_GUARDED_BY(mutex_) = 0;  // how often something new was taken
  Time taken_at_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<std::function<void(const PreemptionNotice&)>> callback_ ABSL_GUARDED_BY(mutex_);
};

std::unique_ptr<Preemption> Preemption::Open(Member& member, PreemptionOptions options) {
  auto impl = std::make_shared<Impl>(client::EngineOf(member), member.member(), options);
  impl->Begin();
  return std::unique_ptr<Preemption>(new Preemption(std::move(impl)));
}

Preemption::Preemption(std::shared_ptr<Impl> impl)
    : impl_(std::move(impl)), shared_(&impl_->shared) {}

Preemption::~Preemption() {
  if (!impl_->Here()) {
    // In a forked child nothing of it may be touched, not even to destroy it.
    new std::shared_ptr<Impl>(std::move(impl_));
    return;
  }
  impl_->Finish();
}

bool Preemption::ReachedSlowly(int64_t step, const Interrupted& interrupted) {
  return impl_->Here() && impl_->Poll(step, interrupted);
}

void Preemption::Saved(int64_t step, std::string path) {
  impl_->Do([&](HoldMachine& machine, HoldMachine::Effects& out) {
    machine.Saved(MonotonicNow(), step, std::move(path), out);
  });
}
void Preemption::FailedToSave(int64_t step, std::string why) {
  impl_->Do([&](HoldMachine& machine, HoldMachine::Effects& out) {
    machine.FailedToSave(step, std::move(why), out);
  });
}
void Preemption::Finish() { impl_->Finish(); }

PreemptionNotice Preemption::notice() const { return impl_->Notice(); }
void Preemption::OnNotice(std::function<void(const PreemptionNotice&)> callback) {
  impl_->OnNotice(std::move(callback));
}

absl::Status Preemption::Notify(std::string_view source, std::string event,
                                std::optional<absl::Duration> left, std::string text,
                                CallOptions options) {
  native::NotifyPreemption notice{.act = native::NoticeAct::kNotify,
                                  .source = std::string(source),
                                  .event = std::move(event),
                                  .subjects = {},
                                  .host = {},
                                  .left_us = std::nullopt,
                                  .text = std::move(text)};
  if (left) notice.left_us = absl::ToInt64Microseconds(*left);
  return impl_->Notify(std::move(notice), options);
}
absl::Status Preemption::Withdraw(std::string_view source, std::string event, CallOptions options) {
  return impl_->Notify({.act = native::NoticeAct::kWithdraw,
                        .source = std::string(source),
                        .event = std::move(event),
                        .subjects = {},
                        .host = {},
                        .left_us = std::nullopt,
                        .text = {}},
                       options);
}

}  // namespace lockstep
