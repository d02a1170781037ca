// A job whose members take part in preemptions, through the coordinator. Tests only.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::testing {

// Members 0, 1, ... of sessions 1, 2, ..., the first `listeners` of which listen; and a tool.
class PreemptionHarness : public ::testing::Test {
 protected:
  PreemptionHarness() : PreemptionHarness(coord::CoordinatorOptions{.size = 3}) {}
  explicit PreemptionHarness(coord::CoordinatorOptions options)
      : PreemptionHarness(options, options.size) {}
  PreemptionHarness(coord::CoordinatorOptions options, int listeners) : h(std::move(options)) {
    h.JoinAll();
    h.Open(kTool);
    for (int member = 0; member < h.size(); ++member) {
      h.Ask(Of(member), coord::PollForError{});
      if (member < listeners) Listen(member);
    }
  }

  static Native Of(int member) { return Native(static_cast<uint64_t>(member) + 1); }

  void Listen(int member) {
    h.Ask(Of(member), coord::WatchPreemption{
                          .after = h.View().preemption ? h.View().preemption->state.version : 0,
                          .answers = true});
  }
  CallId Notify(std::vector<int> subjects, std::optional<absl::Duration> left = absl::Seconds(30),
                std::string source = "operator", std::string event = "") {
    return h.Ask(kTool, Notice(std::move(subjects), left, std::move(source), std::move(event)));
  }
  static coord::NotifyPreemption Notice(
      std::vector<int> subjects, std::optional<absl::Duration> left, std::string source,
      std::string event, coord::NotifyPreemption::Act act = coord::NotifyPreemption::Act::kNotify) {
    coord::NotifyPreemption notice{
        .act = act, .source = std::move(source), .event = std::move(event)};
    for (int subject : subjects) notice.subjects.emplace_back(subject);
    notice.left = left;
    return notice;
  }
  void Answer(int member, std::optional<int64_t> first, int64_t stride = 1,
              absl::Duration step_time = {}, std::optional<int64_t> last_step = {}) {
    EXPECT_THAT(h.Reply(h.Ask(Of(member), coord::AnswerHold{.preemption = State().id,
                                                            .first = first,
                                                            .stride = stride,
                                                            .last_step = last_step,
                                                            .step_time = step_time})),
                Succeeded());
  }
  void Report(int member, coord::SyncState state, int64_t step = 0, std::string text = "") {
    EXPECT_THAT(h.Reply(h.Ask(Of(member), coord::ReportSave{.preemption = State().id,
                                                            .state = state,
                                                            .step = step,
                                                            .text = std::move(text)})),
                Succeeded());
  }
  // Time passes, and all are heard of.
  void Work(absl::Duration duration) {
    const Time until = h.now() + duration;
    while (h.now() < until) {
      h.Advance(std::min(until - h.now(), absl::Duration(absl::Seconds(20))));
      for (int member = 0; member < h.size(); ++member) h.Ask(Of(member), coord::ReportProgress{});
    }
  }
  void SaveAll(int64_t step) {
    for (int member = 0; member < h.size(); ++member)
      Report(member, coord::SyncState::kSaved, step);
  }

  coord::PreemptionState State() const {
    const coord::CoordinatorView view = h.View();
    return view.preemption ? view.preemption->state : coord::PreemptionState{};
  }
  coord::PreemptionPhase Phase() const { return State().phase; }
  coord::PreemptionOutcome Outcome() const { return State().outcome; }
  std::optional<int64_t> SyncStep() const { return State().sync_step; }
  std::vector<coord::SyncState> Members() const {
    std::vector<coord::SyncState> states;
    const coord::CoordinatorView view = h.View();
    for (const coord::SyncMember& member : view.preemption->members) states.push_back(member.state);
    return states;
  }

  static inline const Native kTool{99};
  CoordinatorHarness h;
};

}  // namespace lockstep::testing
