#include "lockstep/testing/print_effects.h"

#include "gtest/gtest.h"

namespace lockstep::testing {
namespace {

TEST(PrintEffects, PrintsRepliesThenNoticesALineEach) {
  coord::Effects effects;
  effects.Tell(coord::Severity::kWarning, "task/1 is silent");
  effects.Succeed(CallId(3), coord::BarrierPassed{.counter = 2});
  effects.Fail(CallId(4), coord::MakeError({.code = absl::StatusCode::kInternal,
                                            .reason = coord::Reason::kBarrierMemberLeft,
                                            .message = "task/1 left",
                                            .origin = MemberIndex(1),
                                            .barrier = coord::BarrierRef{"a", 2}}));

  EXPECT_EQ(PrintEffects(effects),
            "call 3: OK barrier passed 2\n"
            "call 4: INTERNAL barrier_member_left \"task/1 left\" origin=1 barrier=\"a\"::2\n"
            "warning: task/1 is silent\n");
}

TEST(PrintEffects, PrintsRecordsFirst) {
  coord::Effects effects;
  effects.Succeed(CallId(3), coord::KeyWritten{.revision = 7});
  effects.records.push_back(coord::record::AnswerKept{
      .session = {.high = 255, .low = 1}, .number = 4, .revision = 7, .key = "a"});

  EXPECT_EQ(PrintEffects(effects),
            "record: AnswerKept session=ff-1 number=4 key=\"a\" revision=7 deleted=none "
            "result=none swapped=0 through=0\n"
            "call 3: OK written at 7\n");
}

TEST(PrintEffects, TellsApartWhatOnlyTheMarksTellApart) {
  coord::Effects marked;
  coord::Effects unmarked;
  const coord::Error error{.code = absl::StatusCode::kCancelled, .message = "x"};
  coord::Error plain = error;
  plain.from_service = false;
  marked.Fail(CallId(1), coord::MakeError(error));
  unmarked.Fail(CallId(1), coord::MakeError(plain));

  EXPECT_NE(PrintEffects(marked), PrintEffects(unmarked));
}

TEST(PrintEvent, NamesTheEventAndItsFields) {
  EXPECT_EQ(PrintEvent(coord::Stop{}), "Stop");
  EXPECT_EQ(PrintEvent(coord::ProcessEnded{.member = MemberIndex(2), .pid = 7, .signal = 9}),
            "ProcessEnded member=2 pid=7 exit_code=0 signal=9");
  EXPECT_EQ(PrintEvent(
                coord::CancelBarrier{.caller = {CallId(1), ServiceIncarnation(5), Incarnation(100)},
                                     .member = MemberIndex(0),
                                     .id = "a"}),
            "CancelBarrier call=1 service=5 incarnation=100 member=0 id=\"a\" counter=none");
}

}  // namespace
}  // namespace lockstep::testing
