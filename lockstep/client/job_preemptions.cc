#include "lockstep/client/job_preemptions.h"

#include "lockstep/client/preemption_calls.h"

namespace lockstep {

namespace native = wire::native;
using native::NoticeAct;

namespace {

native::NotifyPreemption ToWire(NoticeAct act, DeathNotice notice) {
  native::NotifyPreemption wire{.act = act,
                                .source = std::move(notice.source),
                                .event = std::move(notice.event),
                                .subjects = std::move(notice.members),
                                .host = std::move(notice.host),
                                .left_us = std::nullopt,
                                .text = std::move(notice.text)};
  if (notice.left) wire.left_us = absl::ToInt64Microseconds(*notice.left);
  return wire;
}

Pending Tell(const std::weak_ptr<client::Engine>& engine, const native::NotifyPreemption& notice,
             const CallOptions& options, Completion<void> done) {
  return client::Start(
      engine.lock(), client::NoticeCall(notice, options.timeout),
      [done = std::move(done)](const absl::StatusOr<bool>& told) mutable { done(told.status()); });
}

}  // namespace

class JobPreemptionWatch::Impl {
 public:
  explicit Impl(std::shared_ptr<client::PreemptionWatch> made) : watch(std::move(made)) {}
  const std::shared_ptr<client::PreemptionWatch> watch;
};

JobPreemptionWatch::JobPreemptionWatch(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
JobPreemptionWatch::~JobPreemptionWatch() { impl_->watch->Stop(); }

absl::Status JobPreemptions::Notify(DeathNotice notice, CallOptions options) const {
  return client::Run(
             engine_.lock(),
             client::NoticeCall(ToWire(NoticeAct::kNotify, std::move(notice)), options.timeout),
             options.interrupted)
      .status();
}

Pending JobPreemptions::NotifyAsync(DeathNotice notice, CallOptions options,
                                    Completion<void> done) const {
  return Tell(engine_, ToWire(NoticeAct::kNotify, std::move(notice)), options, std::move(done));
}
Pending JobPreemptions::MoveAsync(DeathNotice notice, CallOptions options,
                                  Completion<void> done) const {
  return Tell(engine_, ToWire(NoticeAct::kExtend, std::move(notice)), options, std::move(done));
}
Pending JobPreemptions::WithdrawAsync(std::string source, std::string event, CallOptions options,
                                      Completion<void> done) const {
  return Tell(
      engine_,
      ToWire(NoticeAct::kWithdraw, {.source = std::move(source), .event = std::move(event)}),
      options, std::move(done));
}

Pending JobPreemptions::GetAsync(CallOptions options, Completion<PreemptionNotice> done) const {
  // No version is below zero, so this one is answered at once.
  return client::Start(engine_.lock(),
                       client::MakeTyped<PreemptionNotice>(
                           native::WatchPreemption{.after = -1, .answers = false},
                           client::CallType::kRead, options.timeout, "how a preemption stands",
                           [](const native::WatchPreemptionReply& reply) {
                             return client::ToNotice(reply.state, absl::ZeroDuration(),
                                                     std::nullopt);
                           }),
                       std::move(done));
}

std::unique_ptr<JobPreemptionWatch> JobPreemptions::Watch(
    std::function<void(absl::StatusOr<PreemptionNotice>)> changed) const {
  auto watch = client::MakePreemptionWatch(engine_, /*answers=*/false);
  watch->CallBack(
      [changed = std::move(changed)](const absl::StatusOr<native::PreemptionState>& state) {
        if (!state.ok()) return changed(state.status());
        changed(client::ToNotice(*state, absl::ZeroDuration(), std::nullopt));
      });
  return std::unique_ptr<JobPreemptionWatch>(
      new JobPreemptionWatch(std::make_shared<JobPreemptionWatch::Impl>(std::move(watch))));
}

}  // namespace lockstep
