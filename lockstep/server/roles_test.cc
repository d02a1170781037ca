// Tokens at a whole server, over TLS: what each role may do in a job, and in none.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/auth/token_keys.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/server/secure_server_testing.h"
#include "lockstep/server/server.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/rendezvous_keys.h"
#include "lockstep/wire/native/stack_question.h"
#include "lockstep/wire/native/to_event.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using wire::native::Role;
namespace native = wire::native;

constexpr absl::Duration kPatience = absl::Seconds(60);

class RolesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { CallByTls(); }
  RolesTest() {
    std::filesystem::create_directory(folder_);
    EXPECT_TRUE(runtime::ReplaceSecretFile(folder_ + "/token.key", key_).ok());
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = {{.name = "digits", .size = 2}, {.name = "secret-plan", .size = 1}};
    options.token_keys = folder_ + "/token.key";
    auto server = Server::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    join_string_ = JoinStringOf(*server_);
  }
  ~RolesTest() override {
    ::unsetenv("LOCKSTEP_TOKEN_FILE");
    server_->Stop();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<link::Client> Connect(Role role, const std::string& job = "digits",
                                        absl::Duration lasts = absl::Hours(1)) {
    const std::string token = *auth::TokenKeys::Read(key_)->Sign(
        {.role = role, .job = job, .until = absl::Now() + lasts, .key = {}});
    return ConnectWith(token);
  }
  std::unique_ptr<link::Client> ConnectWith(const std::string& token) {
    const std::string path = folder_ + "/token";
    EXPECT_TRUE(runtime::ReplaceSecretFile(path, token).ok());
    ::setenv("LOCKSTEP_TOKEN_FILE", path.c_str(), 1);
    auto client = link::Client::Connect(join_string_, kPatience, {});
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  native::OpenSession Open(const std::string& job, int32_t create_size = 0) {
    return {.session = native::ToBytes({.high = 7, .low = ++last_session_}),
            .job = job,
            .create_size = create_size};
  }
  // A tool of the job, in a session of its own.
  std::unique_ptr<link::Client> Tool(Role role) {
    auto client = Connect(role);
    EXPECT_EQ(Reason(*client, Open("digits")), "ok");
    return client;
  }
  template <class Request>
  static absl::Status Ask(link::Client& client, const Request& request) {
    return client.Call(request, kPatience).status();
  }
  template <class Request>
  static std::string Reason(link::Client& client, const Request& request) {
    const absl::Status status = Ask(client, request);
    return status.ok() ? "ok" : native::ReasonOf(status);
  }

  const std::string folder_ = testing::TempDir() + "roles_test." + std::to_string(::getpid());
  const std::string key_ = *auth::TokenKeys::NewKey();
  std::unique_ptr<Server> server_;
  std::string join_string_;
  uint64_t last_session_ = 0;
};

// The keys of key_rights.h by the names that our own programs use.
TEST_F(RolesTest, KeysOfLockstepsOwnAreForWhoUsesThem) {
  auto task = Tool(Role::kTask);
  auto other = Tool(Role::kTask);
  auto launch = Tool(Role::kLaunch);
  auto operate = Tool(Role::kOperate);
  {
    // Both members have to come.
    std::thread second(
        [&] { EXPECT_EQ(Reason(*other, native::JoinJob{.index = 1, .incarnation = 2}), "ok"); });
    EXPECT_EQ(Reason(*task, native::JoinJob{.index = 0, .incarnation = 1}), "ok");
    second.join();
  }
  struct Row {
    std::string key;
    bool task;
    bool launch;
  };
  const std::string cards(native::kRendezvousCards);
  const std::string reports(native::kRendezvousReports);
  const std::vector<Row> written = {
      {"config/lr", true, true},
      {native::kStackQuestionKey, false, true},
      {native::kStackAskerKey, false, true},
      {absl::StrCat(native::StackAnswersDirectory("1"), "/host-7"), false, true},
      {"_mine", false, false},
      {absl::StrCat(cards, "/0"), true, false},
      {absl::StrCat(cards, "/1"), false, false},
      {absl::StrCat(reports, "/0"), true, false},
      {absl::StrCat(reports, "/1"), false, false},
      {std::string(native::kRendezvousLook), false, true},
  };
  const auto said = [](bool may) { return may ? "ok" : "not_permitted"; };
  for (const Row& row : written) {
    const native::SetKey set{.key = row.key, .value = {"v"}, .overwrite = true};
    EXPECT_EQ(Reason(*task, set), said(row.task)) << row.key;
    EXPECT_EQ(Reason(*launch, set), said(row.launch)) << row.key;
    EXPECT_EQ(Reason(*operate, set), "ok") << row.key;
    // What is below `_` is read by none but those who write it, and the rest by all.
    const bool hidden = row.key.front() == '_';
    const native::GetKey get{.key = row.key};
    EXPECT_EQ(Reason(*task, get), said(!hidden)) << row.key;
    EXPECT_EQ(Reason(*launch, get), said(!hidden || row.launch)) << row.key;
  }
}

TEST_F(RolesTest, WhoOnlyLooksOpensNoSession) {
  for (const Role role : {Role::kObserve, Role::kWork}) {
    auto client = Connect(role);
    EXPECT_EQ(Reason(*client, Open("digits")), "not_permitted");
    EXPECT_EQ(Reason(*client, native::StatusRequest{.job = "digits"}), "ok");
  }
}

TEST_F(RolesTest, ATaskCreatesNoJob) {
  EXPECT_THAT(std::string(Ask(*Connect(Role::kTask, "fresh"), Open("fresh", 1)).message()),
              HasSubstr("lockstep job create"));
  EXPECT_EQ(Reason(*Connect(Role::kTask, ""), Open("fresh", 1)), "not_permitted");
  EXPECT_EQ(Reason(*Connect(Role::kTask, "fresh"), native::StatusRequest{.job = "fresh"}),
            "unknown_job");
  EXPECT_EQ(Reason(*Connect(Role::kLaunch, "fresh"), Open("fresh", 1)), "ok");
  EXPECT_EQ(Reason(*Connect(Role::kTask, "fresh"), Open("fresh", 1)), "ok");
}

TEST_F(RolesTest, WhoAsksAboutAJobThatIsNotThereHearsOfNoOther) {
  const auto hears = [&](const absl::Status& status) {
    EXPECT_EQ(native::ReasonOf(status), "unknown_job") << status;
    return std::string(status.message());
  };
  auto one = Connect(Role::kOperate, "gone");
  EXPECT_THAT(hears(Ask(*one, native::StatusRequest{.job = "gone"})),
              Not(HasSubstr("secret-plan")));
  EXPECT_THAT(hears(Ask(*one, native::WatchEvents{.job = "gone"})), Not(HasSubstr("secret-plan")));
  EXPECT_THAT(hears(Ask(*one, native::ProcessReport{.job = "gone"})),
              Not(HasSubstr("secret-plan")));
  EXPECT_THAT(hears(Ask(*one, native::OpenStore{.job = "gone"})), Not(HasSubstr("secret-plan")));
  EXPECT_THAT(hears(Ask(*one, native::DeleteJob{.job = "gone"})), Not(HasSubstr("secret-plan")));
  EXPECT_THAT(hears(Ask(*one, native::PollNodeGroup{.job = "gone", .node = 1})),
              Not(HasSubstr("secret-plan")));
  EXPECT_THAT(hears(Ask(*one, Open("gone"))), Not(HasSubstr("secret-plan")));
  // Whose token is for all jobs is helped.
  auto all = Connect(Role::kOperate, "");
  EXPECT_THAT(hears(Ask(*all, native::StatusRequest{.job = "gone"})), HasSubstr("secret-plan"));
  EXPECT_THAT(hears(Ask(*all, Open("gone"))), HasSubstr("secret-plan"));
}

TEST_F(RolesTest, ALauncherPassesOnNoMoreTimeThanItHas) {
  auto launch = Connect(Role::kLaunch, "digits", absl::Minutes(10));
  const auto made = launch->Call(native::CreateTaskToken{.job = "digits"}, kPatience);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_LE(absl::Microseconds(made->lasts_us), absl::Minutes(10));
  EXPECT_EQ(Reason(*ConnectWith(made->token), Open("digits")), "ok");
}

}  // namespace
}  // namespace lockstep::server
