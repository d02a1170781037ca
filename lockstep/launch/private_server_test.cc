#include "lockstep/launch/private_server.h"

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/launch/process_test_util.h"

namespace lockstep::launch {
namespace {

using testing::HasSubstr;

TEST(ReadyFileTest, TellsTheJobsAddresses) {
  const auto address = ParseReadyFile(
      R"({"listen": "127.0.0.1:27001", "pid": 17, "jobs": {"a/b": {"grpc": "127.0.0.1:27002"}}})",
      "a/b");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->job, "a/b");
  EXPECT_EQ(address->link, "127.0.0.1:27001");
  EXPECT_EQ(address->grpc, "127.0.0.1:27002");
}

TEST(ReadyFileTest, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"", "{", "[]", "3", R"({"listen": 3, "jobs": {"j": {"grpc": "x"}}})",
        R"({"listen": "h:1", "jobs": {"other": {"grpc": "h:2"}}})",
        R"({"listen": "h:1", "jobs": {"j": {"grpc": 7}}})", R"({"listen": "h:1", "jobs": []})"}) {
    EXPECT_FALSE(ParseReadyFile(text, "j").ok()) << text;
  }
}

// A server that is a shell script: what it is told of the ready file is its $2.
class PrivateServerTest : public testing::Test {
 protected:
  void Start(const std::string& script, absl::Duration start_timeout = kTestDeadline) {
    auto guardian = Guardian::Start("private-server-test", "");
    ASSERT_TRUE(guardian.ok());
    guardian_.emplace(*std::move(guardian));
    PrivateServerOptions options;
    options.command = {.path = "/bin/sh", .arguments = {"sh", "-c", script, "server"}};
    options.job = "j";
    options.folder = folder_.path();
    options.environment = {{"PATH", "/usr/bin:/bin"}};
    options.run_id = "private-server-test";
    options.start_timeout = start_timeout;
    options.stop_timeout = absl::Milliseconds(200);
    PrivateServer::Callbacks callbacks;
    callbacks.ready = [this](absl::StatusOr<JobAddress> address) {
      ready_ = std::move(address);
      on_ready_();
    };
    callbacks.ended = [this](ExitStatus ending) {
      ended_ = ending;
      loop_.Stop();
    };
    server_.emplace(loop_, *guardian_, options, std::move(callbacks));
    loop_.Post([this] { server_->Start(); });
    RunLoop(loop_);
  }
  void StopWhenReady() {
    on_ready_ = [this] { server_->Stop([this] { loop_.Stop(); }); };
  }

  static constexpr char kBecomeReady[] =
      R"(echo '{"listen": "h:1", "jobs": {"j": {"grpc": "h:2"}}}' > "$2.new"; mv "$2.new" "$2"; )";

  TemporaryFolder folder_;
  std::optional<Guardian> guardian_;
  runtime::Loop loop_;
  std::optional<PrivateServer> server_;
  std::function<void()> on_ready_ = [this] { loop_.Stop(); };
  absl::StatusOr<JobAddress> ready_ = absl::UnknownError("not told");
  std::optional<ExitStatus> ended_;
};

TEST_F(PrivateServerTest, IsReadyWhenItsFileIsThereAndStopsBySigterm) {
  StopWhenReady();
  Start(std::string(kBecomeReady) + "exec sleep 1000");
  ASSERT_TRUE(ready_.ok()) << ready_.status();
  EXPECT_EQ(ready_->grpc, "h:2");
  EXPECT_FALSE(ended_.has_value());
}

TEST_F(PrivateServerTest, IsKilledWhenItDoesNotStop) {
  StopWhenReady();
  Start("trap '' TERM; " + std::string(kBecomeReady) + "while :; do sleep 0.01; done");
  EXPECT_TRUE(ready_.ok()) << ready_.status();
}

TEST_F(PrivateServerTest, FailureToStartComesWithTheLastLinesOfTheLog) {
  Start("seq 1 30; echo 'cannot listen' >&2; exit 1");
  EXPECT_EQ(ready_.status().code(), absl::StatusCode::kUnavailable);
  const std::string message(ready_.status().message());
  EXPECT_THAT(message, HasSubstr("ended with exit code 1 before it was ready"));
  EXPECT_THAT(message, HasSubstr("cannot listen"));
  EXPECT_THAT(message, testing::Not(HasSubstr("\n  [server] 5\n")));
}

TEST_F(PrivateServerTest, ServerThatIsNeverReadyIsNotWaitedForForEver) {
  Start("exec sleep 1000", absl::Milliseconds(100));
  EXPECT_EQ(ready_.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(ready_.status().message()), HasSubstr("it logged nothing"));
}

TEST_F(PrivateServerTest, EndThatNobodyAskedForIsTold) {
  on_ready_ = [] {};
  Start(std::string(kBecomeReady) + "echo 'out of memory' >&2; kill -9 $$");
  ASSERT_TRUE(ended_.has_value());
  EXPECT_EQ(*ended_, (ExitStatus{0, SIGKILL}));
  EXPECT_THAT(server_->LastWords(), HasSubstr("out of memory"));
}

TEST_F(PrivateServerTest, ProgramThatIsNotThere) {
  auto guardian = Guardian::Start("private-server-test", "");
  ASSERT_TRUE(guardian.ok());
  PrivateServerOptions options;
  options.command = {.path = "/nonexistent/server", .arguments = {"server"}};
  options.folder = folder_.path();
  PrivateServer server(loop_, *guardian, options,
                       {.ready =
                            [this](absl::StatusOr<JobAddress> address) {
                              ready_ = std::move(address);
                              loop_.Stop();
                            },
                        .ended = nullptr,
                        .log = nullptr});
  loop_.Post([&server] { server.Start(); });
  RunLoop(loop_);
  EXPECT_EQ(ready_.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::launch
