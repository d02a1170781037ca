#include "lockstep/stock/grpc/stock_listener.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "gmock/gmock.h"
#include "grpcpp/create_channel_posix.h"
#include "gtest/gtest.h"
#include "lockstep/stock/grpc/stock_listener_testing.h"
#include "proto/compat/stock/error_payloads.pb.h"

namespace lockstep::net {
namespace {

using ::testing::HasSubstr;

// Each answered call of the service, one by one: `Call(stub, request)`.
#define CALL(stub, method, request, response)           \
  [&] {                                                 \
    grpc::ClientContext context;                        \
    return (stub)->method(&context, request, response); \
  }()

int ThreadsOfThisProcess() {
  int threads = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (dirent* entry = readdir(tasks)) threads += entry->d_name[0] != '.';
  closedir(tasks);
  return threads;
}

// A success of the kind that each request gets.
std::optional<coord::Reply> SuccessOf(const coord::Event& event) {
  auto call = CallOf(event);
  if (!call) return std::nullopt;
  coord::Reply reply{*call, nullptr, {}};
  auto value = std::make_shared<const std::string>("12");
  if (std::holds_alternative<coord::RegisterMember>(event)) {
    reply.answer = coord::Registered{ServiceIncarnation(5)};
  } else if (std::holds_alternative<coord::Heartbeat>(event)) {
    reply.answer = coord::HeartbeatTaken{ServiceIncarnation(6)};
  } else if (auto* get = std::get_if<coord::GetKey>(&event)) {
    reply.answer = coord::KeyRead{{get->key, value}};
  } else if (auto* try_get = std::get_if<coord::TryGetKey>(&event)) {
    reply.answer = coord::KeyRead{{try_get->key, value}};
  } else if (auto* increment = std::get_if<coord::IncrementKey>(&event)) {
    reply.answer = coord::KeyRead{{increment->key, value}};
  } else if (std::holds_alternative<coord::ListKeys>(event)) {
    reply.answer = coord::KeysListed{{{"d/a", value}}};
  } else if (auto* barrier = std::get_if<coord::ArriveAtBarrier>(&event)) {
    reply.answer = coord::BarrierPassed{barrier->counter};
  } else if (std::holds_alternative<coord::GetAliveMembers>(event)) {
    reply.answer = coord::AliveMembers{std::make_shared<const std::vector<coord::AliveMember>>(
        std::vector<coord::AliveMember>{{MemberIndex(1), Incarnation(3)}})};
  } else if (std::holds_alternative<coord::WatchMembers>(event)) {
    reply.answer = coord::MembersWatched{
        std::make_shared<const std::vector<coord::MemberStatus>>(std::vector<coord::MemberStatus>{
            {MemberIndex(0), Incarnation(9), coord::MemberState::kConnected, nullptr}}),
        4};
  }
  return reply;
}

TEST_F(StockListenerTest, CallsOfMembersGoThereAndBack) {
  Open();
  job_.script = SuccessOf;
  auto stub = Client();

  pb::RegisterTaskResponse registered;
  ASSERT_TRUE(CALL(stub, RegisterTask, pb::RegisterTaskRequest(), &registered).ok());
  EXPECT_EQ(registered.service_incarnation(), 5u);
  EXPECT_THAT(Await<coord::RegisterMember>().peer, HasSubstr("127.0.0.1"));

  pb::HeartbeatResponse beat;
  ASSERT_TRUE(CALL(stub, Heartbeat, pb::HeartbeatRequest(), &beat).ok());
  EXPECT_EQ(beat.service_incarnation(), 6u);

  pb::PollForErrorResponse poll;
  EXPECT_TRUE(CALL(stub, PollForError, pb::PollForErrorRequest(), &poll).ok());
  pb::ReportErrorToServiceResponse report;
  EXPECT_TRUE(CALL(stub, ReportErrorToService, pb::ReportErrorToServiceRequest(), &report).ok());
  pb::ShutdownTaskResponse shutdown;
  EXPECT_TRUE(CALL(stub, ShutdownTask, pb::ShutdownTaskRequest(), &shutdown).ok());

  pb::WatchTasksResponse watched;
  ASSERT_TRUE(CALL(stub, WatchTasks, pb::WatchTasksRequest(), &watched).ok());
  EXPECT_EQ(watched.version_number(), 4);
  ASSERT_EQ(watched.task_state_size(), 1);
  EXPECT_EQ(watched.task_state(0).incarnation(), 9u);
}

TEST_F(StockListenerTest, CallsOnKeysGoThereAndBack) {
  Open();
  job_.script = SuccessOf;
  auto stub = Client();

  pb::InsertKeyValueResponse inserted;
  EXPECT_TRUE(CALL(stub, InsertKeyValue, pb::InsertKeyValueRequest(), &inserted).ok());
  pb::GetKeyValueRequest get;
  get.set_key("//as/asked/");
  pb::GetKeyValueResponse got;
  ASSERT_TRUE(CALL(stub, GetKeyValue, get, &got).ok());
  EXPECT_EQ(got.kv().key(), "//as/asked/");
  EXPECT_EQ(got.kv().value(), "12");
  pb::TryGetKeyValueRequest try_get;
  try_get.set_key("t");
  pb::TryGetKeyValueResponse try_got;
  ASSERT_TRUE(CALL(stub, TryGetKeyValue, try_get, &try_got).ok());
  EXPECT_EQ(try_got.kv().key(), "t");
  pb::IncrementKeyValueResponse sum;
  ASSERT_TRUE(CALL(stub, IncrementKeyValue, pb::IncrementKeyValueRequest(), &sum).ok());
  EXPECT_EQ(sum.kv().value(), "12");
  pb::GetKeyValueDirResponse listed;
  ASSERT_TRUE(CALL(stub, GetKeyValueDir, pb::GetKeyValueDirRequest(), &listed).ok());
  ASSERT_EQ(listed.kv_size(), 1);
  EXPECT_EQ(listed.kv(0).key(), "d/a");
  pb::DeleteKeyValueResponse deleted;
  EXPECT_TRUE(CALL(stub, DeleteKeyValue, pb::DeleteKeyValueRequest(), &deleted).ok());
}

TEST_F(StockListenerTest, CallsOfSeveralGoThereAndBack) {
  Open();
  job_.script = SuccessOf;
  auto stub = Client();

  pb::BarrierRequest arrive;
  arrive.set_counter(3);
  pb::BarrierResponse passed;
  ASSERT_TRUE(CALL(stub, Barrier, arrive, &passed).ok());
  EXPECT_EQ(passed.counter(), 3);
  pb::CancelBarrierResponse cancelled;
  EXPECT_TRUE(CALL(stub, CancelBarrier, pb::CancelBarrierRequest(), &cancelled).ok());
  pb::GetAliveTasksResponse alive;
  ASSERT_TRUE(CALL(stub, GetAliveTasks, pb::GetAliveTasksRequest(), &alive).ok());
  EXPECT_THAT(alive.alive_task_ids(), ::testing::ElementsAre(1));
  EXPECT_THAT(alive.incarnations(), ::testing::ElementsAre(3u));
}

TEST_F(StockListenerTest, AnErrorCarriesTextPayloadsAndReason) {
  Open();
  job_.script = [](const coord::Event& event) -> std::optional<coord::Reply> {
    auto call = CallOf(event);
    if (!call) return std::nullopt;
    return coord::Reply{*call,
                        coord::MakeError(coord::Error{.code = absl::StatusCode::kDeadlineExceeded,
                                                      .reason = coord::Reason::kBarrierTimedOut,
                                                      .message = "Barrier timed out.",
                                                      .barrier = coord::BarrierRef{"b", 2}}),
                        {}};
  };
  grpc::ClientContext context;
  pb::BarrierResponse response;
  grpc::Status status = Client()->Barrier(&context, pb::BarrierRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(status.error_message(), "Barrier timed out.");
  ::tensorflow::distributed_runtime::GrpcPayloadContainer container;
  ASSERT_TRUE(container.ParseFromString(status.error_details()));
  EXPECT_EQ(container.payloads().count(std::string(wire::stock::kServiceErrorUrl)), 1u);
  pb::BarrierError barrier;
  ASSERT_TRUE(
      barrier.ParseFromString(container.payloads().at(std::string(wire::stock::kBarrierErrorUrl))));
  EXPECT_EQ(barrier.barrier_id(), "b");
  EXPECT_EQ(barrier.counter(), 2);
  auto reason = context.GetServerTrailingMetadata().find("lockstep-reason");
  ASSERT_NE(reason, context.GetServerTrailingMetadata().end());
  EXPECT_EQ(reason->second, "barrier_timed_out");
}

TEST_F(StockListenerTest, CancelFreesTheWait) {
  Open();
  auto stub = Client();
  pb::GetKeyValueRequest get;
  get.set_key("k");
  PendingCall<pb::GetKeyValueResponse> call;
  stub->async()->GetKeyValue(&call.context, &get, &call.response,
                             [&](grpc::Status status) { call.done.Put(status); });
  const CallId waiting = Await<coord::GetKey>().caller.call;
  call.context.TryCancel();
  EXPECT_EQ(Await<coord::CallLeft>().call, waiting);
  EXPECT_EQ(call.done.Take()->error_code(), grpc::StatusCode::CANCELLED);
  OnLoop([&] { EXPECT_EQ(listener_->open_calls(), 0u); });
}

TEST_F(StockListenerTest, DeadlineFreesTheWait) {
  Open();
  auto stub = Client();
  pb::GetKeyValueRequest get;
  pb::GetKeyValueResponse response;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  EXPECT_EQ(stub->GetKeyValue(&context, get, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  const CallId waiting = Await<coord::GetKey>().caller.call;
  EXPECT_EQ(Await<coord::CallLeft>().call, waiting);
  OnLoop([&] { EXPECT_EQ(listener_->open_calls(), 0u); });
}

TEST_F(StockListenerTest, DisconnectFreesTheWait) {
  Open();
  const int fd = Connect();
  fcntl(fd, F_SETFL, O_NONBLOCK);
  auto stub = pb::CoordinationService::NewStub(grpc::CreateInsecureChannelFromFd("listener", fd));
  pb::PollForErrorRequest poll;
  PendingCall<pb::PollForErrorResponse> call;
  stub->async()->PollForError(&call.context, &poll, &call.response,
                              [&](grpc::Status status) { call.done.Put(status); });
  const CallId waiting = Await<coord::PollForError>().caller.call;
  shutdown(fd, SHUT_RDWR);  // as the kernel does for a process that dies
  EXPECT_EQ(Await<coord::CallLeft>().call, waiting);
  EXPECT_EQ(call.done.Take()->error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(StockListenerTest, RegistrationTellsHowLongItsCallerWaits) {
  Open();
  job_.script = [](const coord::Event& event) -> std::optional<coord::Reply> {
    auto call = CallOf(event);
    if (!call) return std::nullopt;
    return coord::Reply{*call, nullptr, coord::Registered{}};
  };
  auto stub = Client();
  pb::RegisterTaskResponse response;
  grpc::ClientContext limited;
  limited.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(305));
  ASSERT_TRUE(stub->RegisterTask(&limited, pb::RegisterTaskRequest(), &response).ok());
  const absl::Duration left = Await<coord::RegisterMember>().deadline - runtime::MonotonicNow();
  EXPECT_GT(left, absl::Seconds(240));
  EXPECT_LT(left, absl::Seconds(306));

  ASSERT_TRUE(CALL(stub, RegisterTask, pb::RegisterTaskRequest(), &response).ok());
  EXPECT_TRUE(Await<coord::RegisterMember>().deadline.is_infinite());
}

TEST_F(StockListenerTest, TenThousandWaitingCallsCostNoThread) {
  constexpr int kCalls = 10'000;
  Open();
  std::vector<std::unique_ptr<pb::CoordinationService::Stub>> stubs;
  // A connection may have 1,024 calls at a time (kStreamsMax).
  for (int i = 0; i < 10; ++i) stubs.push_back(Client());
  pb::GetKeyValueRequest get;
  get.set_key("go");
  pb::InsertKeyValueRequest insert;
  insert.mutable_kv()->set_key("warm");
  pb::InsertKeyValueResponse inserted;
  for (auto& stub : stubs) ASSERT_TRUE(CALL(stub, InsertKeyValue, insert, &inserted).ok());
  const int threads_before = ThreadsOfThisProcess();

  struct Waiter {
    grpc::ClientContext context;
    pb::GetKeyValueResponse response;
  };
  std::vector<std::unique_ptr<Waiter>> waiters;
  std::atomic<int> left = kCalls;
  std::atomic<int> answered = 0;
  Mailbox<bool> all_done;
  for (int i = 0; i < kCalls; ++i) {
    Waiter* waiter = waiters.emplace_back(std::make_unique<Waiter>()).get();
    stubs[static_cast<size_t>(i) % stubs.size()]->async()->GetKeyValue(
        &waiter->context, &get, &waiter->response, [&, waiter](grpc::Status status) {
          answered += status.ok() && waiter->response.kv().value() == "now";
          if (--left == 0) all_done.Put(true);
        });
  }
  for (int i = 0; i < kCalls; ++i) Await<coord::GetKey>();
  OnLoop([&] { EXPECT_EQ(listener_->open_calls(), static_cast<size_t>(kCalls)); });
  // gRPC's own pools, on both sides, may still grow to the number of cores; calls must not count.
  EXPECT_LE(ThreadsOfThisProcess(), threads_before + 8);

  insert.mutable_kv()->set_key("go");
  insert.mutable_kv()->set_value("now");
  ASSERT_TRUE(CALL(stubs[0], InsertKeyValue, insert, &inserted).ok());
  ASSERT_TRUE(all_done.Take().has_value());
  EXPECT_EQ(answered, kCalls);
  OnLoop([&] { EXPECT_EQ(listener_->open_calls(), 0u); });
}

TEST_F(StockListenerTest, StoppingAnswersTheWaitsBeforeItCutsTheConnections) {
  Open();
  auto stub = Client();
  pb::GetKeyValueRequest get;
  PendingCall<pb::GetKeyValueResponse> call;
  stub->async()->GetKeyValue(&call.context, &get, &call.response,
                             [&](grpc::Status status) { call.done.Put(status); });
  Await<coord::GetKey>();
  TearDown();
  grpc::Status status = *call.done.Take();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(status.error_message(), "the service stops");
}

TEST_F(StockListenerTest, StoppingCutsWhatNobodyAnswers) {
  options_.drain_time = absl::Milliseconds(100);
  Open();
  auto stub = Client();
  pb::PollForErrorRequest poll;  // the stand-in never answers it
  PendingCall<pb::PollForErrorResponse> call;
  stub->async()->PollForError(&call.context, &poll, &call.response,
                              [&](grpc::Status status) { call.done.Put(status); });
  Await<coord::PollForError>();
  TearDown();
  EXPECT_FALSE(call.done.Take()->ok());
}

TEST_F(StockListenerTest, BigValuesReachManyCallersWhole) {
  Open();
  auto stub = Client();
  pb::InsertKeyValueRequest insert;
  insert.mutable_kv()->set_key("big");
  insert.mutable_kv()->set_value(std::string(60 << 20, '\x01'));
  pb::InsertKeyValueResponse inserted;
  ASSERT_TRUE(CALL(stub, InsertKeyValue, insert, &inserted).ok());
  pb::GetKeyValueRequest get;
  get.set_key("big");
  for (int i = 0; i < 2; ++i) {
    pb::GetKeyValueResponse got;
    ASSERT_TRUE(CALL(stub, GetKeyValue, get, &got).ok());
    EXPECT_EQ(got.kv().value(), insert.kv().value());
  }
}

TEST_F(StockListenerTest, Row81CompressedRequestsWork) {
  Open();
  grpc::ChannelArguments arguments;
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_GZIP);
  auto stub = Client(arguments);
  pb::InsertKeyValueRequest insert;
  insert.mutable_kv()->set_key("k");
  insert.mutable_kv()->set_value(std::string(100'000, 'z'));
  pb::InsertKeyValueResponse inserted;
  ASSERT_TRUE(CALL(stub, InsertKeyValue, insert, &inserted).ok());
  EXPECT_EQ(Await<coord::SetKey>().value, insert.kv().value());
}

}  // namespace
}  // namespace lockstep::net
