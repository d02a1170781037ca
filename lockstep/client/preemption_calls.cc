#include "lockstep/client/preemption_calls.h"

#include <utility>

namespace lockstep::client {

namespace native = wire::native;

std::shared_ptr<PreemptionWatch> MakePreemptionWatch(std::weak_ptr<Engine> engine, bool answers) {
  return std::make_shared<PreemptionWatch>(
      std::move(engine), 0,
      [answers](int64_t after, absl::Duration timeout) {
        return MakeTyped<native::PreemptionState>(
            native::WatchPreemption{.after = after, .answers = answers}, CallType::kWatch, timeout,
            "news of preemptions",
            [](native::WatchPreemptionReply reply) { return std::move(reply.state); });
      },
      [](const native::PreemptionState& state) { return state.version; });
}

Typed<bool> NoticeCall(const native::NotifyPreemption& notice, absl::Duration timeout) {
  return MakeTyped<bool>(notice, CallType::kRead, timeout, "giving a preemption notice",
                         [](const auto&) { return true; });
}

PreemptionNotice ToNotice(const native::PreemptionState& state, absl::Duration since,
                          std::optional<int32_t> member) {
  PreemptionNotice notice = {
      .id = state.id,
      .open = state.id != 0 && state.phase != native::PreemptionPhase::kEnded,
      .phase = std::string(native::NameOf(state.phase)),
      .outcome = std::string(native::NameOf(state.outcome)),
      .text = state.text,
      .step = state.sync_step,
      .withdrawn = state.withdrawn,
      .attempt = state.attempt};
  bool everybody = false;
  for (const native::PreemptionNotice& each : state.notices) {
    notice.sources.push_back(each.source);
    everybody |= each.subjects.empty();
    for (const int32_t subject : each.subjects) {
      notice.concerns_me |= subject == member;
      notice.subjects.push_back(subject);
    }
  }
  if (everybody) {
    notice.concerns_me = member.has_value();
    notice.subjects.clear();
  }
  if (state.death_in_us) notice.left = absl::Microseconds(*state.death_in_us) - since;
  return notice;
}

}  // namespace lockstep::client
