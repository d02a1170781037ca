#include "lockstep/server/server.h"

#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/server/listen_address.h"
#include "lockstep/server/native_requests.h"
#include "lockstep/wire/native/error_reply.h"
#include "nlohmann/json.hpp"
#include "proto/compat/xla/coordination_service.grpc.pb.h"

namespace lockstep::server {
namespace {

namespace pb = ::xla::coordination;
using ::testing::HasSubstr;
using wire::native::ProcessReport;
using wire::native::StatusReply;
using wire::native::StatusRequest;

constexpr absl::Duration kPatience = absl::Seconds(60);

ServerOptions OptionsFor(std::vector<JobOptions> jobs) {
  ServerOptions options;
  options.listen = {.host = "127.0.0.1", .port = 0};
  options.jobs = std::move(jobs);
  return options;
}

class ServerTest : public ::testing::Test {
 protected:
  void Serve(const ServerOptions& options) {
    auto server = Server::Listen(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    runner_ = std::thread([this] { EXPECT_TRUE(server_->Run().ok()); });
  }
  void TearDown() override {
    if (!runner_.joinable()) return;
    server_->Drain();
    runner_.join();
  }

  std::unique_ptr<pb::CoordinationService::Stub> Stock(const std::string& job) {
    return pb::CoordinationService::NewStub(grpc::CreateChannel(
        server_->FindJob(job)->grpc_address(), grpc::InsecureChannelCredentials()));
  }
  std::unique_ptr<link::Client> Native() {
    auto client = link::Client::Connect(server_->listen_address(), kPatience, {});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  static uint64_t Register(pb::CoordinationService::Stub& stub, int32_t member) {
    pb::RegisterTaskRequest request;
    request.set_source_task_id(member);
    request.set_incarnation(100 + static_cast<uint64_t>(member));
    pb::RegisterTaskResponse response;
    grpc::ClientContext context;
    grpc::Status status = stub.RegisterTask(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.service_incarnation();
  }

  // Until a call is parked at the first job.
  void AwaitWaiter() {
    auto native = Native();
    for (;;) {
      absl::StatusOr<StatusReply> reply = native->Call(StatusRequest{}, kPatience);
      ASSERT_TRUE(reply.ok()) << reply.status();
      if (reply->jobs[0].waits > 0) return;
    }
  }

  std::unique_ptr<Server> server_;
  std::thread runner_;
};

TEST_F(ServerTest, AStockClientIsSeenInTheStatus) {
  Serve(OptionsFor({{.name = "digits", .size = 1}, {.name = "other", .size = 2}}));
  EXPECT_NE(Register(*Stock("digits"), 0), 0u);

  absl::StatusOr<StatusReply> reply = Native()->Call(StatusRequest{}, kPatience);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->server.pid, getpid());
  EXPECT_EQ(reply->server.listen, server_->listen_address());
  ASSERT_EQ(reply->jobs.size(), 2u);
  EXPECT_EQ(reply->jobs[0].job, "digits");
  EXPECT_EQ(reply->jobs[0].grpc, server_->FindJob("digits")->grpc_address());
  ASSERT_EQ(reply->jobs[0].members.size(), 1u);
  EXPECT_EQ(reply->jobs[0].members[0].condition, wire::native::MemberCondition::kConnected);
  EXPECT_EQ(reply->jobs[1].members.size(), 2u);
  EXPECT_EQ(reply->jobs[1].members[0].condition, wire::native::MemberCondition::kMissing);
}

TEST_F(ServerTest, StatusOfOneJobAndOfNone) {
  Serve(OptionsFor({{.name = "a"}, {.name = "b"}}));
  absl::StatusOr<StatusReply> one = Native()->Call(StatusRequest{.job = "b"}, kPatience);
  ASSERT_TRUE(one.ok());
  ASSERT_EQ(one->jobs.size(), 1u);
  EXPECT_EQ(one->jobs[0].job, "b");
  absl::Status none = Native()->Call(StatusRequest{.job = "c"}, kPatience).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(wire::native::ReasonOf(none), "unknown_job");
  EXPECT_THAT(std::string(none.message()), HasSubstr("a, b"));
}

TEST_F(ServerTest, JobsShareNothing) {
  Serve(OptionsFor({{.name = "a"}, {.name = "b"}}));
  auto a = Stock("a");
  auto b = Stock("b");
  const uint64_t service_a = Register(*a, 0);
  const uint64_t service_b = Register(*b, 0);
  EXPECT_NE(service_a, service_b);

  pb::InsertKeyValueRequest insert;
  insert.mutable_incarnations()->set_service_incarnation(service_a);
  insert.mutable_kv()->set_key("k");
  pb::InsertKeyValueResponse inserted;
  grpc::ClientContext inserting;
  EXPECT_TRUE(a->InsertKeyValue(&inserting, insert, &inserted).ok());

  pb::TryGetKeyValueRequest get;
  get.mutable_incarnations()->set_service_incarnation(service_b);
  get.set_key("k");
  pb::TryGetKeyValueResponse got;
  grpc::ClientContext getting;
  EXPECT_EQ(b->TryGetKeyValue(&getting, get, &got).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, TheEndOfAProcessReachesWhoPolls) {
  Serve(OptionsFor({{.name = "pair", .size = 2}}));
  auto native = Native();
  for (int32_t member : {0, 1}) {
    ASSERT_TRUE(native
                    ->Call(ProcessReport{.job = "pair",
                                         .member = member,
                                         .event = wire::native::ProcessEvent::kStarted,
                                         .host = "here",
                                         .pid = 1000 + member},
                           kPatience)
                    .ok());
  }
  auto first = Stock("pair");
  auto second = Stock("pair");
  std::thread other([&] { Register(*second, 1); });
  const uint64_t service = Register(*first, 0);
  other.join();

  std::thread reporter([&] {
    AwaitWaiter();
    EXPECT_TRUE(native
                    ->Call(ProcessReport{.job = "pair",
                                         .member = 1,
                                         .event = wire::native::ProcessEvent::kEnded,
                                         .host = "here",
                                         .pid = 1001,
                                         .signal = SIGKILL},
                           kPatience)
                    .ok());
  });
  pb::PollForErrorRequest poll;
  poll.mutable_incarnations()->set_service_incarnation(service);
  pb::PollForErrorResponse response;
  grpc::ClientContext context;
  grpc::Status status = first->PollForError(&context, poll, &response);
  reporter.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("task/1"));
}

TEST_F(ServerTest, ReportsThatMakeNoSenseAreRefused) {
  Serve(OptionsFor({{.name = "pair", .size = 2}}));
  auto native = Native();
  const auto report = [&](ProcessReport wrong) { return native->Call(wrong, kPatience).status(); };
  EXPECT_EQ(report({.job = "no"}).code(), absl::StatusCode::kNotFound);
  const auto started = wire::native::ProcessEvent::kStarted;
  EXPECT_EQ(wire::native::ReasonOf(report({.job = "pair", .member = 2, .event = started})),
            "unknown_member");
  EXPECT_EQ(wire::native::ReasonOf(report({.job = "pair", .member = -1, .event = started})),
            "unknown_member");
  EXPECT_EQ(report({.job = "pair", .member = 1}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ServerTest, DrainingAnswersWhoWaits) {
  Serve(OptionsFor({{.name = "pair", .size = 2}}));
  auto stub = Stock("pair");
  pb::RegisterTaskRequest request;
  pb::RegisterTaskResponse response;
  grpc::ClientContext context;
  std::thread drainer([&] {
    AwaitWaiter();
    server_->Drain();
  });
  grpc::Status status = stub->RegisterTask(&context, request, &response);
  drainer.join();
  runner_.join();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
}

TEST_F(ServerTest, ReadyFileTellsTheAddresses) {
  ServerOptions options = OptionsFor({{.name = "digits"}});
  options.ready_file = ::testing::TempDir() + "server_ready." + std::to_string(getpid());
  Serve(options);
  ASSERT_TRUE(Native()->Call(StatusRequest{}, kPatience).ok());  // so the loop runs
  std::ifstream file(options.ready_file);
  const auto ready = nlohmann::json::parse(file);
  EXPECT_EQ(ready["listen"], server_->listen_address());
  EXPECT_EQ(ready["pid"], getpid());
  EXPECT_EQ(ready["jobs"]["digits"]["grpc"], server_->FindJob("digits")->grpc_address());
}

TEST_F(ServerTest, EventsOfAJobCanBeFollowed) {
  Serve(OptionsFor({{.name = "digits"}}));
  auto native = Native();
  auto reply = native->Call(wire::native::WatchEvents{.job = "digits"}, kPatience);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->events.size(), 1u);
  EXPECT_EQ(reply->events[0].kind, wire::native::EventKind::kJobCreated);
  std::thread member([&] { Register(*Stock("digits"), 0); });
  std::vector<wire::native::EventKind> kinds;
  while (kinds.empty() || kinds.back() != wire::native::EventKind::kAttemptRuns) {
    reply = native->Call(
        wire::native::WatchEvents{
            .job = "digits", .after = reply->next_after, .log = reply->log, .wait = true},
        kPatience);
    ASSERT_TRUE(reply.ok()) << reply.status();
    for (const auto& event : reply->events) kinds.push_back(event.kind);
  }
  member.join();
  using enum wire::native::EventKind;
  EXPECT_THAT(kinds, ::testing::ElementsAre(kAttemptBegan, kMemberJoined, kAttemptRuns));
  const absl::Status unknown =
      native->Call(wire::native::WatchEvents{.job = "x"}, kPatience).status();
  EXPECT_EQ(wire::native::ReasonOf(unknown), "unknown_job");
}

TEST_F(ServerTest, AnswersOverHttp) {
  ServerOptions options = OptionsFor({{.name = "digits"}});
  options.http = runtime::Address{.host = "127.0.0.1", .port = 0};
  Serve(options);
  const auto stock = Stock("digits");
  pb::InsertKeyValueRequest card;
  card.mutable_incarnations()->set_service_incarnation(Register(*stock, 0));
  card.mutable_kv()->set_key("lockstep/rendezvous/card/0");
  card.mutable_kv()->set_value("who it is");
  pb::InsertKeyValueResponse inserted;
  grpc::ClientContext context;
  ASSERT_TRUE(stock->InsertKeyValue(&context, card, &inserted).ok());
  httplib::Client http("http://" + server_->http_address());
  EXPECT_EQ(http.Get("/readyz")->body, "ready\n");
  const auto members = nlohmann::json::parse(http.Get("/v1/members.json?job=digits")->body);
  EXPECT_EQ(members["members"][0]["condition"], "connected");
  EXPECT_THAT(http.Get("/metrics")->body,
              HasSubstr("lockstep_members{condition=\"connected\",job=\"digits\"} 1"));
  EXPECT_THAT(http.Get("/metrics")->body,
              HasSubstr("lockstep_rendezvous_members{job=\"digits\"} 1"));
  EXPECT_THAT(http.Get("/v1/events.json")->body, HasSubstr("server_started"));
}

TEST_F(ServerTest, HttpIsForThisHostUnlessSaidOtherwise) {
  ServerOptions options = OptionsFor({{.name = "digits"}});
  options.http = runtime::Address{.host = "0.0.0.0", .port = 0};
  const absl::Status status = Server::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--http"));
}

TEST_F(ServerTest, ASignalDrains) {
  auto server = Server::Listen(OptionsFor({{.name = "digits"}}));
  ASSERT_TRUE(server.ok());
  (*server)->DrainOnSignals();
  raise(SIGTERM);
  EXPECT_TRUE((*server)->Run().ok());
}

TEST_F(ServerTest, MayBeDroppedBeforeItRuns) {
  auto server = Server::Listen(OptionsFor({{.name = "digits"}}));
  ASSERT_TRUE(server.ok());
  const std::string address = (*server)->listen_address();
  server->reset();
  ServerOptions again = OptionsFor({{.name = "digits"}});
  again.listen = *runtime::ParseAddress(address);
  EXPECT_TRUE(Server::Listen(again).ok());
}

TEST_F(ServerTest, ChosenPortsLieBelowTheSystemsOwn) {
  Serve(OptionsFor({{.name = "digits"}}));
  const auto address = runtime::ParseAddress(server_->FindJob("digits")->grpc_address());
  ASSERT_TRUE(address.ok());
  EXPECT_GE(address->port, kChosenPortFirst);
  EXPECT_LE(address->port, kChosenPortLast);
}

TEST_F(ServerTest, AddressesInUseAreNamed) {
  Serve(OptionsFor({{.name = "digits"}}));
  ServerOptions same_link = OptionsFor({{.name = "digits"}});
  same_link.listen = *runtime::ParseAddress(server_->listen_address());
  absl::Status status = Server::Listen(same_link).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(server_->listen_address()));

  const std::string grpc = server_->FindJob("digits")->grpc_address();
  status =
      Server::Listen(OptionsFor({{.name = "x", .address = *runtime::ParseAddress(grpc)}})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--job x"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(grpc));
}

TEST_F(ServerTest, OpenAddressesNeedAWord) {
  ServerOptions options = OptionsFor({{.name = "digits"}});
  options.listen.host = "0.0.0.0";
  absl::Status status = Server::Listen(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--insecure-network"));

  options.insecure_network = true;
  Serve(options);

  status =
      Server::Listen(OptionsFor({{.name = "x", .address = runtime::Address{.host = "0.0.0.0"}}}))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--job x"));
}

}  // namespace
}  // namespace lockstep::server
