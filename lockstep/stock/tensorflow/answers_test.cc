#include "lockstep/stock/tensorflow/answers.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/stock/wire/hex_testing.h"
#include "proto/compat/stock/error_payloads.pb.h"
#include "proto/compat/tensorflow/coordination_service.pb.h"

namespace lockstep::wire::tensorflow {
namespace {

namespace pb = ::tensorflow;
using stock::FromHex;
using stock::kServiceIncarnation;

const Roles kPlain;
const Roles kJobs({{"chief", 1}, {"worker", 2}});

std::string Bytes(Method method, const coord::Answer& answer, const stock::Asked& asked = {},
                  const Roles& roles = kPlain) {
  stock::EncodedAnswer encoded = EncodeAnswer(method, roles, answer, asked);
  return encoded.tail ? encoded.head + *encoded.tail : encoded.head;
}

template <class Message>
Message Parsed(const std::string& bytes) {
  Message message;
  EXPECT_TRUE(message.ParseFromString(bytes));
  return message;
}

std::string ServicePayload(const coord::Error& error, const Roles& roles,
                           const stock::Asked& asked) {
  ::tensorflow::distributed_runtime::GrpcPayloadContainer container;
  EXPECT_TRUE(container.ParseFromString(EncodeError(roles, error, asked).details));
  return container.payloads().at(std::string(stock::kServiceErrorUrl));
}

coord::MemberValues Values(std::vector<std::string> brought) {
  auto values = std::make_shared<std::vector<coord::MemberValue>>();
  for (std::string& value : brought) {
    values->push_back({MemberIndex(static_cast<int32_t>(values->size())), std::move(value)});
  }
  return values;
}

TEST(GoldenTensorflowAnswers, RegisterTaskResponse) {
  EXPECT_EQ(
      Bytes(Method::kRegisterTask, coord::Registered{ServiceIncarnation(kServiceIncarnation)}),
      FromHex("09 18 17 16 15 14 13 12 11"));
}

TEST(GoldenTensorflowErrors, ReportedErrorOfJaxWorker2) {
  EXPECT_EQ(
      ServicePayload({.origin = MemberIndex(2), .reported = true}, kPlain, {.role = "jax_worker"}),
      FromHex("18 01 22 0e 0a 0a 6a 61 78 5f 77 6f 72 6b 65 72 10 02"));
}

TEST(TensorflowErrors, TheOriginIsNamedByItsRole) {
  auto payload = Parsed<pb::CoordinationServiceError>(
      ServicePayload({.origin = MemberIndex(2)}, kJobs, {.role = "chief"}));
  EXPECT_EQ(payload.source_task().job_name(), "worker");
  EXPECT_EQ(payload.source_task().task_id(), 1);
  EXPECT_EQ(ServicePayload({}, kJobs, {}), "");
}

TEST(TensorflowAnswers, Row030DevicesAreTheListsOneBehindTheOther) {
  const std::string a = FromHex("0a 03 12 01 61"), b = FromHex("0a 03 12 01 62");
  const stock::Asked asked{.service = ServiceIncarnation(5)};
  auto response = Parsed<pb::WaitForAllTasksResponse>(
      Bytes(Method::kWaitForAllTasks, coord::BarrierPassed{0, Values({a, "", b})}, asked));
  EXPECT_EQ(response.leader_incarnation(), 5u);
  EXPECT_EQ(response.device_info(), a + b);
  EXPECT_FALSE(response.has_cluster_device_info());
}

TEST(TensorflowAnswers, DevicesOfTheFirstGenerationStandInItsField) {
  const stock::Asked asked{.first_generation = true, .service = ServiceIncarnation(5)};
  auto response = Parsed<pb::WaitForAllTasksResponse>(
      Bytes(Method::kWaitForAllTasks, coord::BarrierPassed{0, Values({"a", "b"})}, asked));
  EXPECT_EQ(response.cluster_device_info(), "ab");
  EXPECT_FALSE(response.has_device_info());
}

TEST(TensorflowAnswers, ABarrierTellsItsCounterOnly) {
  EXPECT_EQ(Bytes(Method::kBarrier, coord::BarrierPassed{3, Values({"a"})}), FromHex("08 03"));
}

TEST(TensorflowAnswers, ADirectoryIsNamedAsItWasAsked) {
  const coord::KeysListed listed{{{"d/a", std::make_shared<const std::string>("v")}}};
  auto response = Parsed<pb::GetKeyValueDirResponse>(
      Bytes(Method::kGetKeyValueDir, listed, {.directory = "//d/"}));
  EXPECT_EQ(response.directory_key(), "//d/");
  ASSERT_EQ(response.kv_size(), 1);
  EXPECT_EQ(response.kv(0).key(), "d/a");
  EXPECT_EQ(response.kv(0).value(), "v");
}

TEST(TensorflowAnswers, AliveTasksHaveNames) {
  auto members =
      std::make_shared<const std::vector<coord::AliveMember>>(std::vector<coord::AliveMember>{
          {MemberIndex(0), Incarnation(3)}, {MemberIndex(2), Incarnation(4)}});
  auto response = Parsed<pb::GetAliveTasksResponse>(
      Bytes(Method::kGetAliveTasks, coord::AliveMembers{members}, {.role = "worker"}, kJobs));
  ASSERT_EQ(response.alive_tasks_size(), 2);
  EXPECT_EQ(response.alive_tasks(0).job_name(), "chief");
  EXPECT_EQ(response.alive_tasks(1).job_name(), "worker");
  EXPECT_EQ(response.alive_tasks(1).task_id(), 1);
  EXPECT_THAT(response.incarnations(), ::testing::ElementsAre(3u, 4u));
}

coord::MembersWatched Watched() {
  auto error = coord::MakeError(coord::Error{.code = absl::StatusCode::kUnavailable,
                                             .message = "gone",
                                             .origin = MemberIndex(1),
                                             .reported = true});
  return {std::make_shared<const std::vector<coord::MemberStatus>>(std::vector<coord::MemberStatus>{
              {MemberIndex(0), Incarnation(9), coord::MemberState::kConnected, nullptr},
              {MemberIndex(1), Incarnation(8), coord::MemberState::kError, error},
              {MemberIndex(2), Incarnation(0), coord::MemberState::kDisconnected, nullptr}}),
          12};
}

TEST(TensorflowAnswers, AWatchTellsTheTasksOfOneRole) {
  auto response = Parsed<pb::WatchJobStateResponse>(
      Bytes(Method::kWatchJobState, Watched(), {.role = "worker"}, kJobs));
  EXPECT_EQ(response.version_number(), 12);
  ASSERT_EQ(response.task_state_size(), 2);
  EXPECT_EQ(response.task_state(0).task().job_name(), "worker");
  EXPECT_EQ(response.task_state(0).task().task_id(), 0);
  EXPECT_EQ(response.task_state(0).state(), pb::TASKSTATE_ERROR);
  EXPECT_EQ(response.task_state(0).error_code(), 14);
  EXPECT_EQ(response.task_state(0).error_message(), "gone");
  EXPECT_TRUE(response.task_state(0).error_payload().is_reported_error());
  EXPECT_EQ(response.task_state(0).error_payload().source_task().job_name(), "worker");
  EXPECT_EQ(response.task_state(1).state(), pb::TASKSTATE_DISCONNECTED);
}

TEST(TensorflowAnswers, AskedStatesAreAllToldWhateverTheirRole) {
  auto response = Parsed<pb::GetTaskStateResponse>(
      Bytes(Method::kGetTaskState, Watched(), {.role = "worker"}, kJobs));
  ASSERT_EQ(response.task_state_size(), 3);
  EXPECT_EQ(response.task_state(0).state(), pb::TASKSTATE_CONNECTED);
  EXPECT_EQ(response.task_state(0).incarnation(), 9u);
  EXPECT_FALSE(response.task_state(0).has_error_payload());
}

TEST(TensorflowAnswers, NothingToSayIsNoBytes) {
  EXPECT_EQ(Bytes(Method::kShutdownTask, std::monostate()), "");
}

}  // namespace
}  // namespace lockstep::wire::tensorflow
