// What native clients do in tests, and how a coordinator dies in them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/print_effects.h"

namespace lockstep::testing {

coord::Caller CoordinatorHarness::NewNativeCaller(const Native& who) {
  const uint64_t number = who.retried ? *who.retried : ++numbers_[who.session];
  const CallId call = NewCall();
  native_calls_[who.session].push_back(call);
  return {.call = call, .session = who.session, .number = number, .standing = who.standing};
}

CallId CoordinatorHarness::Open(const Native& who, bool resume) {
  const CallId call = NewCall();
  Handle(coord::OpenSession{.call = call,
                            .session = who.session,
                            .resume = resume,
                            .who = absl::StrCat("client ", who.session.low),
                            .peer = absl::StrCat("10.0.1.", who.session.low, ":4712")});
  return call;
}

CallId CoordinatorHarness::Join(const Native& who, uint64_t incarnation, JoinAs as) {
  return Ask(who, coord::JoinJob{.role = std::move(as.role),
                                 .index = as.index,
                                 .incarnation = Incarnation(incarnation),
                                 .deadline = now_ + as.patience,
                                 .host = std::move(as.host),
                                 .pid = as.pid,
                                 .labels = std::move(as.labels),
                                 .attempt = as.attempt});
}

void CoordinatorHarness::JoinAll(uint64_t first) {
  std::vector<CallId> calls;
  for (int member = 0; member < size(); ++member) {
    const Native client(static_cast<uint64_t>(member) + 1);
    Open(client);
    calls.push_back(Join(client, first + client.session.low, {.index = member}));
  }
  for (CallId call : calls) {
    ASSERT_FALSE(Pending(call));
    ASSERT_EQ(Reply(call).error, nullptr) << coord::ToString(*Reply(call).error);
  }
}

void CoordinatorHarness::BreakLink(const Native& who, bool silent) {
  for (CallId call : std::exchange(native_calls_[who.session], {})) {
    if (Pending(call)) Hangup(call);
  }
  Handle(coord::SessionBroke{.session = who.session, .silent = silent});
}

void CoordinatorHarness::AnsweredThrough(const Native& who, uint64_t number) {
  Handle(coord::AnsweredThrough{.session = who.session, .number = number});
}

std::unique_ptr<coord::Coordinator> CoordinatorHarness::MakeFrom(
    const std::vector<coord::TimedRecord>& records) const {
  auto made = std::make_unique<coord::Coordinator>(options_);
  for (const coord::TimedRecord& record : records) {
    const absl::Status applied = made->Apply(record.at, record.record);
    EXPECT_TRUE(applied.ok()) << applied.ToString() << ": " << PrintRecord(record.record);
  }
  return made;
}

void CoordinatorHarness::Restart(bool from_snapshot) {
  std::vector<coord::TimedRecord> from = from_snapshot ? coordinator_->Snapshot() : records_;
  for (auto& [call, state] : states_) {
    if (state == CallState::kPending) state = CallState::kLeft;
  }
  native_calls_.clear();
  coordinator_ = MakeFrom(from);
  const size_t step = steps_.size();
  Handle(coord::Restored{});
  steps_[step].restarted_from = from;
  records_ = std::move(from);
}

}  // namespace lockstep::testing
