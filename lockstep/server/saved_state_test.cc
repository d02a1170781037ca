// A server that ends, and one that goes on from its directory.
#include "lockstep/server/saved_state.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "lockstep/link/client.h"
#include "lockstep/server/server.h"
#include "proto/compat/xla/coordination_service.grpc.pb.h"

namespace lockstep::server {
namespace {

namespace pb = ::xla::coordination;
using ::testing::AllOf;
using ::testing::HasSubstr;
using wire::native::CreateJob;
using wire::native::DeleteJob;
using wire::native::StatusReply;
using wire::native::StatusRequest;

constexpr absl::Duration kPatience = absl::Seconds(60);

class SavedStateTest : public ::testing::Test {
 protected:
  SavedStateTest() {
    char path[] = "/tmp/lockstep-saved-XXXXXX";
    directory_ = mkdtemp(path);
  }
  ~SavedStateTest() override {
    End();
    std::filesystem::remove_all(directory_);
  }

  ServerOptions Options(std::vector<JobOptions> jobs) const {
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = std::move(jobs);
    options.state_directory = directory_;
    return options;
  }
  void Serve(std::vector<JobOptions> jobs = {}) {
    auto server = Server::Listen(Options(std::move(jobs)));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    runner_ = std::thread([this] { EXPECT_TRUE(server_->Run().ok()); });
  }
  void End() {
    if (!runner_.joinable()) return;
    server_->Drain();
    runner_.join();
    server_.reset();
  }
  std::string WhyNot(std::vector<JobOptions> jobs) const {
    auto server = Server::Listen(Options(std::move(jobs)));
    return server.ok() ? "served" : std::string(server.status().message());
  }

  std::unique_ptr<link::Client> Native() {
    auto client = link::Client::Connect(server_->listen_address(), kPatience, {});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  std::vector<std::string> Jobs() {
    std::vector<std::string> jobs;
    const auto reply = Native()->Call(StatusRequest{}, kPatience);
    EXPECT_TRUE(reply.ok()) << reply.status();
    for (const auto& job : reply->jobs) {
      jobs.push_back(absl::StrCat(job.job, " of ", job.size, " at ", job.grpc));
    }
    return jobs;
  }
  std::unique_ptr<pb::CoordinationService::Stub> Stock(const std::string& job) {
    return pb::CoordinationService::NewStub(grpc::CreateChannel(
        server_->FindJob(job)->grpc_address(), grpc::InsecureChannelCredentials()));
  }

  std::string directory_;
  std::unique_ptr<Server> server_;
  std::thread runner_;
};

TEST_F(SavedStateTest, AMemberGoesOnWithItsKeysAtTheSameAddress) {
  Serve({{.name = "digits", .size = 1}});
  const std::string address = server_->FindJob("digits")->grpc_address();
  uint64_t service = 0;
  {
    auto stub = Stock("digits");
    pb::RegisterTaskRequest request;
    request.set_incarnation(100);
    pb::RegisterTaskResponse response;
    grpc::ClientContext registering;
    ASSERT_TRUE(stub->RegisterTask(&registering, request, &response).ok());
    service = response.service_incarnation();
    pb::InsertKeyValueRequest insert;
    insert.mutable_incarnations()->set_service_incarnation(service);
    insert.mutable_kv()->set_key("k");
    insert.mutable_kv()->set_value(std::string("v\0\xFF", 3));
    pb::InsertKeyValueResponse inserted;
    grpc::ClientContext inserting;
    ASSERT_TRUE(stub->InsertKeyValue(&inserting, insert, &inserted).ok());
  }
  End();
  Serve({{.name = "digits", .size = 1}});
  EXPECT_EQ(server_->FindJob("digits")->grpc_address(), address);
  // Under the service incarnation that it has: it does not register again.
  pb::TryGetKeyValueRequest get;
  get.mutable_incarnations()->set_service_incarnation(service);
  get.set_key("k");
  pb::TryGetKeyValueResponse got;
  grpc::ClientContext getting;
  const grpc::Status status = Stock("digits")->TryGetKeyValue(&getting, get, &got);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(got.kv().value(), std::string("v\0\xFF", 3));
}

TEST_F(SavedStateTest, JobsThatClientsMadeAreThereAndDeletedOnesAreNot) {
  Serve({{.name = "first", .size = 2}});
  auto native = Native();
  ASSERT_TRUE(native->Call(CreateJob{.job = "kept", .size = 3}, kPatience).ok());
  ASSERT_TRUE(native->Call(CreateJob{.job = "deleted", .size = 3}, kPatience).ok());
  ASSERT_TRUE(native->Call(DeleteJob{.job = "deleted"}, kPatience).ok());
  native.reset();
  const std::vector<std::string> before = Jobs();
  ASSERT_EQ(before.size(), 2u);
  End();
  Serve();  // not even named
  EXPECT_EQ(Jobs(), before);
  // And can be made again.
  EXPECT_TRUE(Native()->Call(CreateJob{.job = "deleted", .size = 4}, kPatience).ok());
  End();
  Serve();
  EXPECT_EQ(Jobs().size(), 3u);
}

TEST_F(SavedStateTest, AJobIsNotTakenForAnother) {
  Serve({{.name = "digits", .size = 4}});
  End();
  EXPECT_THAT(WhyNot({{.name = "digits", .size = 5}}),
              AllOf(HasSubstr("--job digits"), HasSubstr("has this job as 4")));
}

TEST_F(SavedStateTest, TheDirectoryHasOneServer) {
  Serve();
  EXPECT_THAT(WhyNot({}), AllOf(HasSubstr("--state: "), HasSubstr("another server's"),
                                HasSubstr(absl::StrCat("process ", getpid()))));
}

TEST_F(SavedStateTest, DamageIsNotServed) {
  Serve({{.name = "digits", .size = 4}});
  End();
  std::ofstream(directory_ + "/journal.db", std::ios::binary | std::ios::trunc);
  EXPECT_THAT(WhyNot({}), AllOf(HasSubstr("journal.db"), HasSubstr("Nothing was started")));
}

}  // namespace
}  // namespace lockstep::server
