#include "lockstep/stock/xla/requests.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/stock/wire/hex_testing.h"
#include "proto/compat/xla/coordination_service.pb.h"

namespace lockstep::wire::xla {
namespace {

namespace pb = ::xla::coordination;
using stock::FromHex;
using stock::kIncarnationsHex;
using stock::kServiceIncarnation;
using stock::kTaskIncarnation;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr CallId kCall(77);

std::variant<coord::Event, coord::ErrorPtr> DecodeBytes(Method method, const std::string& bytes) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return DecodeRequest(method, &stream,
                       {.call = kCall, .deadline = Time::FromNanoseconds(5), .peer = "ipv4:1"});
}

template <class Event>
Event Decoded(Method method, const std::string& bytes) {
  auto result = DecodeBytes(method, bytes);
  auto* event = std::get_if<coord::Event>(&result);
  if (event == nullptr) {
    ADD_FAILURE() << ToString(*std::get<coord::ErrorPtr>(result));
    return {};
  }
  EXPECT_TRUE(std::holds_alternative<Event>(*event));
  return std::holds_alternative<Event>(*event) ? std::get<Event>(*event) : Event{};
}

template <class Event>
Event DecodedWithIncarnations(Method method, std::string_view hex) {
  Event event = Decoded<Event>(method, FromHex(kIncarnationsHex) + FromHex(hex));
  EXPECT_EQ(event.caller.call, kCall);
  EXPECT_EQ(event.caller.service, ServiceIncarnation(kServiceIncarnation));
  EXPECT_EQ(event.caller.incarnation, Incarnation(kTaskIncarnation));
  return event;
}

coord::ErrorPtr Refused(Method method, const std::string& bytes) {
  auto result = DecodeBytes(method, bytes);
  auto* error = std::get_if<coord::ErrorPtr>(&result);
  return error == nullptr ? nullptr : *error;
}

TEST(GoldenRequests, RegisterTaskOfTask1) {
  auto event = Decoded<coord::RegisterMember>(Method::kRegisterTask,
                                              FromHex("19 08 07 06 05 04 03 02 01 28 01"));
  EXPECT_EQ(event.call, kCall);
  EXPECT_EQ(event.member, MemberIndex(1));
  EXPECT_EQ(event.incarnation, Incarnation(kTaskIncarnation));
  EXPECT_EQ(event.deadline, Time::FromNanoseconds(5));
  EXPECT_EQ(event.peer, "ipv4:1");
}

TEST(GoldenRequests, HeartbeatOfTask1) {
  auto event = DecodedWithIncarnations<coord::Heartbeat>(Method::kHeartbeat,
                                                         "11 08 07 06 05 04 03 02 01 18 01");
  EXPECT_EQ(event.member, MemberIndex(1));
  EXPECT_EQ(event.incarnation, Incarnation(kTaskIncarnation));
}

TEST(GoldenRequests, PollForErrorOfTask1) {
  auto event = DecodedWithIncarnations<coord::PollForError>(Method::kPollForError, "10 01");
  EXPECT_EQ(event.member, MemberIndex(1));
}

TEST(GoldenRequests, GetKeyValueOfK) {
  auto event = DecodedWithIncarnations<coord::GetKey>(Method::kGetKeyValue, "12 01 6b");
  EXPECT_EQ(event.key, "k");
}

TEST(GoldenRequests, InsertKeyValueOfKIsV) {
  auto event =
      DecodedWithIncarnations<coord::SetKey>(Method::kInsertKeyValue, "12 06 0a 01 6b 12 01 76");
  EXPECT_EQ(event.key, "k");
  EXPECT_EQ(event.value, "v");
  EXPECT_FALSE(event.overwrite);
}

TEST(GoldenRequests, BarrierOfTasks0And1From1) {
  auto event = DecodedWithIncarnations<coord::ArriveAtBarrier>(
      Method::kBarrier, "12 01 62 18 e8 07 22 02 00 01 28 01");
  EXPECT_EQ(event.id, "b");
  EXPECT_EQ(event.timeout, absl::Seconds(1));
  EXPECT_THAT(event.members, ElementsAre(MemberIndex(0), MemberIndex(1)));
  EXPECT_EQ(event.member, MemberIndex(1));
  EXPECT_EQ(event.counter, 0);
}

// The contract allows both spellings of a repeated number.
TEST(Requests, BarrierTakesUnpackedTaskIds) {
  auto event = DecodedWithIncarnations<coord::ArriveAtBarrier>(Method::kBarrier,
                                                               "12 01 62 20 00 20 01 28 01 30 02");
  EXPECT_THAT(event.members, ElementsAre(MemberIndex(0), MemberIndex(1)));
  EXPECT_EQ(event.counter, 2);
}

TEST(Requests, BarrierTimeoutInThePastIsOverAtOnce) {
  for (int64_t timeout : {int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    pb::BarrierRequest request;
    request.set_barrier_timeout_in_ms(timeout);
    auto event = Decoded<coord::ArriveAtBarrier>(Method::kBarrier, request.SerializeAsString());
    EXPECT_EQ(event.timeout, absl::ZeroDuration());
  }
}

TEST(Requests, BarrierTimeoutOfTheLargestNumberNeverEnds) {
  pb::BarrierRequest request;
  request.set_barrier_timeout_in_ms(std::numeric_limits<int64_t>::max());
  auto event = Decoded<coord::ArriveAtBarrier>(Method::kBarrier, request.SerializeAsString());
  EXPECT_EQ(Time::FromNanoseconds(1) + event.timeout, Time::Infinite());
}

TEST(Requests, WatchWithoutVersionAndWithMinusOneAskForNow) {
  pb::WatchTasksRequest request;
  EXPECT_EQ(Decoded<coord::WatchMembers>(Method::kWatchTasks, request.SerializeAsString()).version,
            std::nullopt);
  request.set_version_number(-1);
  EXPECT_EQ(Decoded<coord::WatchMembers>(Method::kWatchTasks, request.SerializeAsString()).version,
            std::nullopt);
  request.set_version_number(3);
  EXPECT_EQ(Decoded<coord::WatchMembers>(Method::kWatchTasks, request.SerializeAsString()).version,
            3);
  request.set_version_number(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Decoded<coord::WatchMembers>(Method::kWatchTasks, request.SerializeAsString()).version,
            std::numeric_limits<int64_t>::max());
}

TEST(Requests, CancelWithoutCounterMeansTheOpenInstance) {
  auto event =
      DecodedWithIncarnations<coord::CancelBarrier>(Method::kCancelBarrier, "12 01 62 20 03");
  EXPECT_EQ(event.id, "b");
  EXPECT_EQ(event.member, MemberIndex(3));
  EXPECT_EQ(event.counter, std::nullopt);
  event = DecodedWithIncarnations<coord::CancelBarrier>(Method::kCancelBarrier, "12 01 62 18 05");
  EXPECT_EQ(event.counter, 5);
}

TEST(Requests, ReportedErrorIsAnErrorWhateverItsCode) {
  pb::ReportErrorToServiceRequest request;
  request.set_source_task_id(2);
  request.set_error_message("stuck");
  const auto code_of = [&](int32_t code) {
    request.set_error_code(code);
    return Decoded<coord::ReportError>(Method::kReportErrorToService, request.SerializeAsString())
        .code;
  };
  EXPECT_EQ(code_of(13), absl::StatusCode::kInternal);
  EXPECT_EQ(code_of(16), absl::StatusCode::kUnauthenticated);
  for (int32_t code : {0, -1, 17, 20, std::numeric_limits<int32_t>::max()}) {
    EXPECT_EQ(code_of(code), absl::StatusCode::kUnknown) << code;
  }
}

TEST(Requests, TheOthersCarryTheirFields) {
  EXPECT_EQ(DecodedWithIncarnations<coord::LeaveJob>(Method::kShutdownTask, "10 04").member,
            MemberIndex(4));
  EXPECT_EQ(DecodedWithIncarnations<coord::TryGetKey>(Method::kTryGetKeyValue, "12 01 6b").key,
            "k");
  auto increment =
      DecodedWithIncarnations<coord::IncrementKey>(Method::kIncrementKeyValue, "12 01 6b 18 05");
  EXPECT_EQ(increment.key, "k");
  EXPECT_EQ(increment.increment, 5);
  EXPECT_EQ(DecodedWithIncarnations<coord::ListKeys>(Method::kGetKeyValueDir, "12 01 64").directory,
            "d");
  EXPECT_EQ(
      DecodedWithIncarnations<coord::DeleteKey>(Method::kDeleteKeyValue, "12 01 6b 18 01").key,
      "k");
  auto alive =
      DecodedWithIncarnations<coord::GetAliveMembers>(Method::kGetAliveTasks, "10 01 1a 02 00 01");
  EXPECT_EQ(alive.member, MemberIndex(1));
  EXPECT_THAT(alive.members, ElementsAre(MemberIndex(0), MemberIndex(1)));
  auto set = DecodedWithIncarnations<coord::SetKey>(Method::kInsertKeyValue,
                                                    "12 06 0a 01 6b 12 01 76 18 01");
  EXPECT_TRUE(set.overwrite);
}

TEST(Requests, ACallerWithoutIncarnationsHasNone) {
  auto event = Decoded<coord::GetKey>(Method::kGetKeyValue, FromHex("12 01 6b"));
  EXPECT_EQ(event.caller.service, ServiceIncarnation(0));
  EXPECT_EQ(event.caller.incarnation, Incarnation(0));
}

TEST(BadRequests, BytesThatAreNoMessageAreRefused) {
  const std::string cut = FromHex("12 7f 6b");
  const std::string not_utf8 = FromHex("12 01 ff");
  for (const std::string& bytes : {cut, not_utf8, std::string(20, '\xff')}) {
    coord::ErrorPtr error = Refused(Method::kGetKeyValue, bytes);
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->code, absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(error->reason, coord::Reason::kInvalidArgument);
    EXPECT_THAT(error->message, HasSubstr("GetKeyValue"));
  }
}

TEST(BadRequests, EveryMethodRefusesGarbageWithItsName) {
  for (size_t i = 0; i < MethodNames().size(); ++i) {
    const std::string name(MethodNames()[i]);
    coord::ErrorPtr error = Refused(static_cast<Method>(i), "\x07garbage");
    ASSERT_NE(error, nullptr) << name;
    EXPECT_THAT(error->message, HasSubstr(name));
  }
}

TEST(BadRequests, AListLongerThanAnyJobIsRefusedByTheNameOfItsLimit) {
  pb::BarrierRequest barrier;
  barrier.mutable_task_ids()->Resize(kMembersMax, 0);
  EXPECT_EQ(Refused(Method::kBarrier, barrier.SerializeAsString()), nullptr);
  barrier.add_task_ids(0);
  coord::ErrorPtr error = Refused(Method::kBarrier, barrier.SerializeAsString());
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(error->message, HasSubstr("members_max"));

  pb::GetAliveTasksRequest alive;
  alive.mutable_task_ids()->Resize(kMembersMax + 1, 0);
  error = Refused(Method::kGetAliveTasks, alive.SerializeAsString());
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, absl::StatusCode::kResourceExhausted);
}

TEST(BadRequests, NegativeIndicesPassToTheMachineAsTheyAre) {
  pb::BarrierRequest request;
  request.set_source_task_id(-3);
  request.add_task_ids(-1);
  request.set_counter(-7);
  auto event = Decoded<coord::ArriveAtBarrier>(Method::kBarrier, request.SerializeAsString());
  EXPECT_EQ(event.member, MemberIndex(-3));
  EXPECT_THAT(event.members, ElementsAre(MemberIndex(-1)));
  EXPECT_EQ(event.counter, -7);
}

}  // namespace
}  // namespace lockstep::wire::xla
