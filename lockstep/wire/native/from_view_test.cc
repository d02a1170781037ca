#include "lockstep/wire/native/from_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::wire::native {
namespace {

const Time kNow = Time::FromNanoseconds(1'000'000'000'000);

Time Ago(absl::Duration duration) { return kNow - duration; }

coord::CoordinatorView View() {
  coord::CoordinatorView view = {.job = "digits", .size = 2, .attempt = 3};
  view.state = coord::AttemptState::kRunning;
  view.service = ServiceIncarnation(0xFFFFFFFFFFFFFFFF);
  view.started = Ago(absl::Seconds(60));
  view.somebody_came = true;
  view.members = {{.member = MemberIndex(0),
                   .name = "task/0#1",
                   .condition = coord::MemberCondition::kConnected,
                   .since = Ago(absl::Seconds(50)),
                   .last_heard = Ago(absl::Milliseconds(1))},
                  {.member = MemberIndex(1),
                   .name = "task/1#2",
                   .condition = coord::MemberCondition::kLost,
                   .since = Ago(absl::Seconds(2)),
                   .why = "killed by signal 9",
                   .peer = "127.0.0.1:5",
                   .host = "h1",
                   .pid = 17}};
  view.keys = 4;
  view.key_bytes = 100;
  view.waits = 5;
  return view;
}

TEST(FromView, TellsTimesAsAgo) {
  const JobStatus status = FromView(kNow, View(), "127.0.0.1:7");

  EXPECT_EQ(status.job, "digits");
  EXPECT_EQ(status.size, 2);
  EXPECT_EQ(status.attempt, 3);
  EXPECT_EQ(status.state, AttemptState::kRunning);
  EXPECT_EQ(status.service_incarnation, 0xFFFFFFFFFFFFFFFF);
  EXPECT_EQ(status.started_ago_us, 60'000'000);
  EXPECT_EQ(status.grpc, "127.0.0.1:7");
  EXPECT_EQ(status.waits, 5);
  EXPECT_EQ(status.members[0].last_heard_ago_us, 1000);
  EXPECT_EQ(status.members[1], (MemberStatus{.index = 1,
                                             .name = "task/1#2",
                                             .condition = MemberCondition::kLost,
                                             .since_ago_us = 2'000'000,
                                             .why = "killed by signal 9",
                                             .peer = "127.0.0.1:5",
                                             .host = "h1",
                                             .pid = 17}));
}

// `Same` in from_view.cc goes by the order of the enumerators; the names tell a wrong one.
template <class Wire, class Coord>
void ExpectSameNames(absl::string_view (*name_of)(Coord)) {
  const auto names = EnumNames(Wire());
  for (size_t i = 1; i < names.size(); ++i) {
    EXPECT_EQ(std::string(names[i].name), name_of(static_cast<Coord>(i - 1)));
  }
}

TEST(FromView, NamesPreemptionsAsTheCoordinatorDoes) {
  ExpectSameNames<PreemptionPhase>(coord::PreemptionPhaseName);
  ExpectSameNames<PreemptionOutcome>(coord::PreemptionOutcomeName);
  ExpectSameNames<SyncState>(coord::SyncStateName);
}

TEST(FromView, LeavesTheStartOutUntilSomebodyHasCome) {
  coord::CoordinatorView view = View();
  view.somebody_came = false;
  EXPECT_EQ(FromView(kNow, view, "").started_ago_us, std::nullopt);
}

TEST(FromView, TellsOfBarriersKeysAndErrors) {
  coord::CoordinatorView view = View();
  view.barriers = {{.barrier = {.id = "b", .counter = 2},
                    .opened = Ago(absl::Seconds(1)),
                    .deadline = kNow + absl::Seconds(9),
                    .waiting = {MemberIndex(0)},
                    .awaited = {MemberIndex(1)}},
                   {.barrier = {.id = "endless"}, .opened = kNow, .deadline = Time::Infinite()}};
  view.key_waits = {
      {.key = "k", .waiters = 2, .since = Ago(absl::Seconds(3)), .members = {MemberIndex(1)}}};
  view.errors = {{.at = Ago(absl::Seconds(4)),
                  .code = absl::StatusCode::kUnavailable,
                  .reason = coord::Reason::kConnectionLost,
                  .message = "gone",
                  .origin = "task/1#2",
                  .consequence = true,
                  .attempt = 3}};

  const JobStatus status = FromView(kNow, view, "");

  EXPECT_EQ(status.barriers[0], (BarrierStatus{.id = "b",
                                               .counter = 2,
                                               .opened_ago_us = 1'000'000,
                                               .deadline_in_us = 9'000'000,
                                               .waiting = {0},
                                               .awaited = {1}}));
  EXPECT_EQ(status.barriers[1].deadline_in_us, std::nullopt);
  EXPECT_EQ(status.key_waits[0],
            (KeyWaitStatus{.key = "k", .waiters = 2, .since_ago_us = 3'000'000, .members = {1}}));
  EXPECT_EQ(status.errors[0], (ErrorStatus{.at_ago_us = 4'000'000,
                                           .code = 14,
                                           .reason = "connection_lost",
                                           .message = "gone",
                                           .origin = "task/1#2",
                                           .consequence = true,
                                           .attempt = 3}));
}

TEST(FromView, MendsTextThatAClientCutInTheMiddleOfACharacter) {
  coord::CoordinatorView view = View();
  view.members[1].why = "Z\xC3";
  const JobStatus status = FromView(kNow, view, "");
  EXPECT_EQ(status.members[1].why, "Z\xEF\xBF\xBD");
  EXPECT_TRUE(DecodeUnbounded<JobStatus>(Encode(status)).ok());
}

}  // namespace
}  // namespace lockstep::wire::native
