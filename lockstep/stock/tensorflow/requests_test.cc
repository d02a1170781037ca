#include "lockstep/stock/tensorflow/requests.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/stock/wire/hex_testing.h"
#include "proto/compat/tensorflow/coordination_service.pb.h"

namespace lockstep::wire::tensorflow {
namespace {

namespace pb = ::tensorflow;
using stock::FromHex;
using stock::kTaskIncarnation;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Roles kPlain;
const Roles kJobs({{"worker", 2}, {"ps", 1}});

stock::Decoded DecodedAny(Method method, const std::string& bytes, const Roles& roles = kPlain) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return DecodeRequest(method, roles, &stream,
                       {.call = CallId(7), .deadline = Time::FromNanoseconds(5), .peer = "ipv4:1"});
}

template <class Event>
Event DecodedAs(Method method, const std::string& bytes, const Roles& roles = kPlain) {
  stock::Decoded decoded = DecodedAny(method, bytes, roles);
  auto* event = std::get_if<coord::Event>(&decoded.event);
  EXPECT_NE(event, nullptr) << "refused";
  if (event == nullptr) return {};
  auto* wanted = std::get_if<Event>(event);
  EXPECT_NE(wanted, nullptr) << "another event";
  return wanted ? *wanted : Event();
}

coord::ErrorPtr Refused(Method method, const std::string& bytes, const Roles& roles = kPlain) {
  stock::Decoded decoded = DecodedAny(method, bytes, roles);
  auto* error = std::get_if<coord::ErrorPtr>(&decoded.event);
  return error ? *error : nullptr;
}

pb::CoordinatedTask Task(const std::string& job, int32_t id) {
  pb::CoordinatedTask task;
  task.set_job_name(job);
  task.set_task_id(id);
  return task;
}

TEST(GoldenTensorflowRequests, RegisterTaskOfJaxlib090) {
  auto event = DecodedAs<coord::RegisterMember>(
      Method::kRegisterTask,
      FromHex("19 08 07 06 05 04 03 02 01 2a 0e 0a 0a 6a 61 78 5f 77 6f 72 6b 65 72 10 01"));
  EXPECT_EQ(event.call, CallId(7));
  EXPECT_EQ(event.member, MemberIndex(1));
  EXPECT_EQ(event.incarnation, Incarnation(kTaskIncarnation));
  EXPECT_EQ(event.deadline, Time::FromNanoseconds(5));
  EXPECT_EQ(event.peer, "ipv4:1");
  EXPECT_EQ(event.role, "jax_worker");
  EXPECT_FALSE(event.recoverable);
}

TEST(GoldenTensorflowRequests, RegisterTaskOfJaxlib092NamesNoRole) {
  auto event = DecodedAs<coord::RegisterMember>(Method::kRegisterTask,
                                                FromHex("19 08 07 06 05 04 03 02 01 2a 00"));
  EXPECT_EQ(event.member, MemberIndex(0));
  EXPECT_EQ(event.role, "");
}

TEST(GoldenTensorflowRequests, BarrierOfTasks0And1From1) {
  auto event = DecodedAs<coord::ArriveAtBarrier>(
      Method::kBarrier,
      FromHex("0a 01 62 10 e8 07 1a 0c 0a 0a 6a 61 78 5f 77 6f 72 6b 65 72 1a 0e 0a 0a 6a 61 78 5f "
              "77 6f 72 6b 65 72 10 01 22 0e 0a 0a 6a 61 78 5f 77 6f 72 6b 65 72 10 01"));
  EXPECT_EQ(event.id, "b");
  EXPECT_EQ(event.timeout, absl::Seconds(1));
  EXPECT_THAT(event.members, ElementsAre(MemberIndex(0), MemberIndex(1)));
  EXPECT_EQ(event.member, MemberIndex(1));
  EXPECT_EQ(event.counter, 0);
  EXPECT_FALSE(event.once);
}

TEST(TensorflowRequests, TasksAreFoundByTheirRoles) {
  pb::RegisterTaskRequest request;
  *request.mutable_source_task() = Task("ps", 0);
  request.mutable_source_task()->set_recoverable(true);
  auto event =
      DecodedAs<coord::RegisterMember>(Method::kRegisterTask, request.SerializeAsString(), kJobs);
  EXPECT_EQ(event.member, MemberIndex(2));
  EXPECT_EQ(event.role, "ps");
  EXPECT_TRUE(event.recoverable);

  *request.mutable_source_task() = Task("evaluator", 0);
  coord::ErrorPtr error = Refused(Method::kRegisterTask, request.SerializeAsString(), kJobs);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->reason, coord::Reason::kUnknownRole);
}

TEST(TensorflowRequests, StrangersInListsAreLeftToTheMachine) {
  pb::BarrierRequest request;
  *request.mutable_source_task() = Task("ps", 0);
  *request.add_tasks() = Task("worker", 1);
  *request.add_tasks() = Task("evaluator", 0);
  *request.add_tasks() = Task("ps", 5);
  auto event =
      DecodedAs<coord::ArriveAtBarrier>(Method::kBarrier, request.SerializeAsString(), kJobs);
  EXPECT_THAT(event.members, ElementsAre(MemberIndex(1), MemberIndex(-1), MemberIndex(-1)));
}

TEST(TensorflowRequests, HeartbeatTellsWhichLifeAsks) {
  pb::HeartbeatRequest request;
  *request.mutable_source_task() = Task("", 1);
  request.set_incarnation(9);
  auto event = DecodedAs<coord::Heartbeat>(Method::kHeartbeat, request.SerializeAsString());
  EXPECT_EQ(event.member, MemberIndex(1));
  EXPECT_EQ(event.incarnation, Incarnation(9));
  EXPECT_EQ(event.caller.incarnation, Incarnation(9));
}

TEST(TensorflowRequests, DevicesPassAsBytesInEitherGenerationsField) {
  pb::WaitForAllTasksRequest request;
  *request.mutable_source_task() = Task("", 1);
  request.set_device_info("later");
  std::string bytes = request.SerializeAsString();
  auto event = DecodedAs<coord::ArriveAtBarrier>(Method::kWaitForAllTasks, bytes);
  EXPECT_EQ(event.value, "later");
  EXPECT_TRUE(event.once);
  EXPECT_EQ(event.timeout, absl::Hours(1));
  EXPECT_THAT(event.members, ElementsAre());
  EXPECT_FALSE(DecodedAny(Method::kWaitForAllTasks, bytes).asked->first_generation);

  request.clear_device_info();
  request.set_local_device_info("first");
  bytes = request.SerializeAsString();
  EXPECT_EQ(DecodedAs<coord::ArriveAtBarrier>(Method::kWaitForAllTasks, bytes).value, "first");
  EXPECT_TRUE(DecodedAny(Method::kWaitForAllTasks, bytes).asked->first_generation);

  request.clear_local_device_info();
  bytes = request.SerializeAsString();
  EXPECT_EQ(DecodedAs<coord::ArriveAtBarrier>(Method::kWaitForAllTasks, bytes).value, "");
}

TEST(TensorflowRequests, TheAttemptIsFilledIn) {
  stock::Decoded decoded = DecodedAny(Method::kGetKeyValue, FromHex("0a 01 6b"));
  auto& event = std::get<coord::Event>(decoded.event);
  SetAttempt(ServiceIncarnation(12), event, decoded.asked.get());
  EXPECT_EQ(std::get<coord::GetKey>(event).caller.service, ServiceIncarnation(12));
  EXPECT_EQ(decoded.asked->service, ServiceIncarnation(12));

  decoded = DecodedAny(Method::kWaitForAllTasks, FromHex("2a 00"));
  auto& wait = std::get<coord::Event>(decoded.event);
  SetAttempt(ServiceIncarnation(12), wait, decoded.asked.get());
  EXPECT_EQ(std::get<coord::ArriveAtBarrier>(wait).id, "WaitForAllTasks::12");

  decoded = DecodedAny(Method::kRegisterTask, FromHex("2a 00"));
  auto& registration = std::get<coord::Event>(decoded.event);
  SetAttempt(ServiceIncarnation(12), registration, decoded.asked.get());
  EXPECT_TRUE(std::holds_alternative<coord::RegisterMember>(registration));
}

TEST(TensorflowRequests, WatchWithoutVersionAndWithMinusOneAskForNow) {
  pb::WatchJobStateRequest request;
  request.set_job_name("ps");
  const auto version = [&] {
    return DecodedAs<coord::WatchMembers>(Method::kWatchJobState, request.SerializeAsString())
        .version;
  };
  EXPECT_EQ(version(), std::nullopt);
  request.set_version_number(-1);
  EXPECT_EQ(version(), std::nullopt);
  request.set_version_number(3);
  EXPECT_EQ(version(), 3);
  EXPECT_EQ(DecodedAny(Method::kWatchJobState, request.SerializeAsString()).asked->role, "ps");
}

TEST(TensorflowRequests, StatesAreAskedOfKnownTasksOnly) {
  pb::GetTaskStateRequest request;
  *request.add_source_task() = Task("ps", 0);
  *request.add_source_task() = Task("worker", 0);
  auto event =
      DecodedAs<coord::GetMemberStates>(Method::kGetTaskState, request.SerializeAsString(), kJobs);
  EXPECT_THAT(event.members, ElementsAre(MemberIndex(2), MemberIndex(0)));
  *request.add_source_task() = Task("evaluator", 0);
  EXPECT_NE(Refused(Method::kGetTaskState, request.SerializeAsString(), kJobs), nullptr);
}

TEST(TensorflowRequests, TheOthersCarryTheirFields) {
  EXPECT_EQ(DecodedAs<coord::LeaveJob>(Method::kShutdownTask, FromHex("0a 02 10 04")).member,
            MemberIndex(4));
  EXPECT_EQ(DecodedAs<coord::ResetMember>(Method::kResetTask, FromHex("0a 02 10 04")).member,
            MemberIndex(4));
  EXPECT_EQ(DecodedAs<coord::PollForError>(Method::kPollForError, FromHex("0a 02 10 04")).member,
            MemberIndex(4));
  auto report = DecodedAs<coord::ReportError>(Method::kReportErrorToService,
                                              FromHex("08 0d 12 02 6e 6f 2a 02 10 03"));
  EXPECT_EQ(report.member, MemberIndex(3));
  EXPECT_EQ(report.code, absl::StatusCode::kInternal);
  EXPECT_EQ(report.message, "no");
  auto set =
      DecodedAs<coord::SetKey>(Method::kInsertKeyValue, FromHex("0a 06 0a 01 6b 12 01 76 10 01"));
  EXPECT_EQ(set.key, "k");
  EXPECT_EQ(set.value, "v");
  EXPECT_TRUE(set.overwrite);
  EXPECT_EQ(DecodedAs<coord::TryGetKey>(Method::kTryGetKeyValue, FromHex("0a 01 6b")).key, "k");
  auto increment =
      DecodedAs<coord::IncrementKey>(Method::kIncrementKeyValue, FromHex("0a 01 6b 10 05"));
  EXPECT_EQ(increment.increment, 5);
  EXPECT_EQ(DecodedAs<coord::ListKeys>(Method::kGetKeyValueDir, FromHex("0a 01 64")).directory,
            "d");
  EXPECT_EQ(DecodedAny(Method::kGetKeyValueDir, FromHex("0a 01 64")).asked->directory, "d");
  EXPECT_EQ(DecodedAs<coord::DeleteKey>(Method::kDeleteKeyValue, FromHex("0a 01 6b 10 01")).key,
            "k");
  auto cancel =
      DecodedAs<coord::CancelBarrier>(Method::kCancelBarrier, FromHex("0a 01 62 12 02 10 01"));
  EXPECT_EQ(cancel.id, "b");
  EXPECT_EQ(cancel.member, MemberIndex(1));
  EXPECT_EQ(cancel.counter, std::nullopt);
  auto alive = DecodedAs<coord::GetAliveMembers>(Method::kGetAliveTasks,
                                                 FromHex("0a 02 10 01 12 00 12 02 10 01"));
  EXPECT_EQ(alive.member, MemberIndex(1));
  EXPECT_THAT(alive.members, ElementsAre(MemberIndex(0), MemberIndex(1)));
}

TEST(BadTensorflowRequests, WhatTasksServeIsNotServedHere) {
  coord::ErrorPtr error = Refused(Method::kReportErrorToTask, "");
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, absl::StatusCode::kUnimplemented);
  EXPECT_THAT(error->message, HasSubstr("ReportErrorToService"));
}

TEST(BadTensorflowRequests, EveryMethodRefusesGarbageWithItsName) {
  for (size_t i = 0; i < MethodNames().size(); ++i) {
    const std::string name(MethodNames()[i]);
    coord::ErrorPtr error = Refused(static_cast<Method>(i), "\x07garbage");
    ASSERT_NE(error, nullptr) << name;
    EXPECT_EQ(error->code, absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(error->message, HasSubstr(name));
  }
}

TEST(BadTensorflowRequests, AListLongerThanAnyJobIsRefusedByTheNameOfItsLimit) {
  pb::GetTaskStateRequest states;
  pb::GetAliveTasksRequest alive;
  pb::BarrierRequest barrier;
  for (int i = 0; i <= kMembersMax; ++i) {
    states.add_source_task();
    alive.add_tasks();
    barrier.add_tasks();
  }
  for (const coord::ErrorPtr& error : {Refused(Method::kGetTaskState, states.SerializeAsString()),
                                       Refused(Method::kGetAliveTasks, alive.SerializeAsString()),
                                       Refused(Method::kBarrier, barrier.SerializeAsString())}) {
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->code, absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(error->message, HasSubstr("members_max"));
  }
}

}  // namespace
}  // namespace lockstep::wire::tensorflow
