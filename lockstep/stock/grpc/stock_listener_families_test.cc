// The families of clients side by side at one listener, and gRPC's health service.
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "lockstep/stock/grpc/stock_listener_testing.h"
#include "lockstep/stock/wire/append.h"
#include "proto/compat/stock/error_payloads.pb.h"
#include "proto/compat/tensorflow/coordination_service.grpc.pb.h"

namespace lockstep::net {
namespace {

namespace tf = ::tensorflow;
using ::testing::HasSubstr;

class StockListenerFamiliesTest : public StockListenerTest {
 protected:
  // A client of the older family with a connection of its own.
  std::unique_ptr<tf::CoordinationService::Stub> OlderClient() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return tf::CoordinationService::NewStub(
        grpc::CreateCustomChannel(target(), grpc::InsecureChannelCredentials(), arguments));
  }

  static grpc::Status Get(tf::CoordinationService::Stub& stub, const std::string& key,
                          tf::TryGetKeyValueResponse* response) {
    tf::TryGetKeyValueRequest request;
    request.set_key(key);
    grpc::ClientContext context;
    return stub.TryGetKeyValue(&context, request, response);
  }

  static grpc::Status Register(tf::CoordinationService::Stub& stub) {
    tf::RegisterTaskResponse response;
    grpc::ClientContext context;
    return stub.RegisterTask(&context, tf::RegisterTaskRequest(), &response);
  }

  // The number in the one-field answer of grpc.health.v1.Health.Check; nothing when refused.
  std::optional<int> Health(const std::string& service) {
    grpc::GenericStub stub(grpc::CreateChannel(target(), grpc::InsecureChannelCredentials()));
    std::string asked;
    if (!service.empty()) wire::stock::AppendBlock(1, service, asked);
    grpc::Slice slice(asked);
    grpc::ByteBuffer request(&slice, 1), response;
    grpc::ClientContext context;
    Mailbox<grpc::Status> done;
    stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                   [&](grpc::Status status) { done.Put(status); });
    if (!done.Take()->ok()) return std::nullopt;
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(response.Dump(&slices).ok());
    std::string bytes;
    for (const grpc::Slice& piece : slices) {
      bytes.append(reinterpret_cast<const char*>(piece.begin()), piece.size());
    }
    EXPECT_EQ(bytes.size(), 2u);
    return bytes.size() == 2 ? bytes[1] : -1;
  }
};

std::optional<coord::Reply> RegisterWith(const coord::Event& event, ServiceIncarnation service) {
  auto call = CallOf(event);
  if (!call) return std::nullopt;
  if (std::holds_alternative<coord::RegisterMember>(event)) {
    return coord::Reply{*call, nullptr, coord::Registered{service}};
  }
  return coord::Reply{*call, nullptr, {}};
}

TEST_F(StockListenerFamiliesTest, BothFamiliesShareTheKeys) {
  Open();
  pb::InsertKeyValueRequest insert;
  insert.mutable_kv()->set_key("k");
  insert.mutable_kv()->set_value("of the newer");
  pb::InsertKeyValueResponse inserted;
  grpc::ClientContext context;
  ASSERT_TRUE(Client()->InsertKeyValue(&context, insert, &inserted).ok());
  tf::GetKeyValueRequest get;
  get.set_key("k");
  tf::GetKeyValueResponse got;
  grpc::ClientContext older;
  ASSERT_TRUE(OlderClient()->GetKeyValue(&older, get, &got).ok());
  EXPECT_EQ(got.kv().value(), "of the newer");
}

TEST_F(StockListenerFamiliesTest, WhoHasNotRegisteredActsOnTheCurrentAttempt) {
  Open();
  job_.script = [](const coord::Event& event) { return RegisterWith(event, {}); };
  auto stub = OlderClient();
  tf::TryGetKeyValueResponse response;
  OnLoop([&] { current_ = ServiceIncarnation(41); });
  ASSERT_TRUE(Get(*stub, "k", &response).ok());
  EXPECT_EQ(Await<coord::TryGetKey>().caller.service, ServiceIncarnation(41));
  OnLoop([&] { current_ = ServiceIncarnation(42); });
  ASSERT_TRUE(Get(*stub, "k", &response).ok());
  EXPECT_EQ(Await<coord::TryGetKey>().caller.service, ServiceIncarnation(42));
}

TEST_F(StockListenerFamiliesTest, WhoHasRegisteredActsOnItsAttemptAndOverItsConnectionOnly) {
  Open();
  job_.script = [](const coord::Event& event) {
    return RegisterWith(event, ServiceIncarnation(7));
  };
  auto stub = OlderClient();
  ASSERT_TRUE(Register(*stub).ok());
  tf::TryGetKeyValueResponse response;
  OnLoop([&] { current_ = ServiceIncarnation(8); });  // another attempt has begun meanwhile
  ASSERT_TRUE(Get(*stub, "k", &response).ok());
  EXPECT_EQ(Await<coord::TryGetKey>().caller.service, ServiceIncarnation(7));
  auto other = OlderClient();
  ASSERT_TRUE(Get(*other, "k", &response).ok());
  EXPECT_EQ(Await<coord::TryGetKey>().caller.service, ServiceIncarnation(8));
}

TEST_F(StockListenerFamiliesTest, ARefusedRegistrationLeavesTheConnectionAsItWas) {
  Open();
  job_.script = [](const coord::Event& event) -> std::optional<coord::Reply> {
    auto call = CallOf(event);
    if (!call) return std::nullopt;
    if (!std::holds_alternative<coord::RegisterMember>(event))
      return coord::Reply{*call, nullptr, {}};
    return coord::Reply{
        *call,
        coord::MakeError(absl::StatusCode::kAborted, coord::Reason::kMemberFailed, "no"),
        {}};
  };
  auto stub = OlderClient();
  EXPECT_EQ(Register(*stub).error_code(), grpc::StatusCode::ABORTED);
  OnLoop([&] { current_ = ServiceIncarnation(8); });
  tf::TryGetKeyValueResponse response;
  ASSERT_TRUE(Get(*stub, "k", &response).ok());
  EXPECT_EQ(Await<coord::TryGetKey>().caller.service, ServiceIncarnation(8));
}

TEST_F(StockListenerFamiliesTest, AnErrorNamesItsOriginAsItsCallerDoes) {
  options_.roles = {{"chief", 1}, {"worker", 2}};
  Open();
  job_.script = [](const coord::Event& event) -> std::optional<coord::Reply> {
    auto call = CallOf(event);
    if (!call) return std::nullopt;
    return coord::Reply{
        *call,
        coord::MakeError(coord::Error{
            .code = absl::StatusCode::kUnavailable, .message = "lost", .origin = MemberIndex(2)}),
        {}};
  };
  tf::PollForErrorRequest poll;
  poll.mutable_source_task()->set_job_name("chief");
  tf::PollForErrorResponse response;
  grpc::ClientContext context;
  grpc::Status status = OlderClient()->PollForError(&context, poll, &response);
  tf::distributed_runtime::GrpcPayloadContainer container;
  ASSERT_TRUE(container.ParseFromString(status.error_details()));
  tf::CoordinationServiceError payload;
  ASSERT_TRUE(
      payload.ParseFromString(container.payloads().at(std::string(wire::stock::kServiceErrorUrl))));
  EXPECT_EQ(payload.source_task().job_name(), "worker");
  EXPECT_EQ(payload.source_task().task_id(), 1);
  EXPECT_EQ(Await<coord::PollForError>().member, MemberIndex(0));
}

TEST_F(StockListenerFamiliesTest, DevicesGoThereAndBack) {
  Open();
  OnLoop([&] { current_ = ServiceIncarnation(42); });
  job_.script = [](const coord::Event& event) -> std::optional<coord::Reply> {
    auto* arrival = std::get_if<coord::ArriveAtBarrier>(&event);
    if (!arrival) return std::nullopt;
    auto values = std::make_shared<const std::vector<coord::MemberValue>>(
        std::vector<coord::MemberValue>{{MemberIndex(0), *arrival->value}});
    return coord::Reply{arrival->caller.call, nullptr, coord::BarrierPassed{0, values}};
  };
  tf::WaitForAllTasksRequest request;
  request.mutable_source_task()->set_task_id(0);
  request.set_device_info("devices");
  tf::WaitForAllTasksResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(OlderClient()->WaitForAllTasks(&context, request, &response).ok());
  EXPECT_EQ(response.device_info(), "devices");
  EXPECT_EQ(response.leader_incarnation(), 42u);
  EXPECT_EQ(Await<coord::ArriveAtBarrier>().id, "WaitForAllTasks::42");
}

TEST_F(StockListenerFamiliesTest, TheHealthServiceKnowsTheListenerAndItsServices) {
  Open();
  for (const char* service :
       {"", "xla.coordination.CoordinationService", "tensorflow.CoordinationService"}) {
    EXPECT_EQ(Health(service), 1) << service;
  }
  EXPECT_EQ(Health("some.other.Service"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::net
