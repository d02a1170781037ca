// Native clients at a whole server: sessions over real links, jobs that are made and ended while it
// runs, and the server as a library.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/server/server.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/data_service_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/stack_question.h"
#include "lockstep/wire/native/to_event.h"

namespace lockstep::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace native = wire::native;

constexpr absl::Duration kPatience = absl::Seconds(60);

class NativeSessionTest : public ::testing::Test {
 protected:
  void Serve(std::vector<JobOptions> jobs, ServerOptions options = {}) {
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = std::move(jobs);
    auto server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::unique_ptr<link::Client> Connect() {
    auto client = link::Client::Connect(server_->listen_address(), kPatience, {});
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  template <class Request>
  static typename native::KindOf<Request>::Reply Ask(link::Client& client, const Request& request) {
    auto reply = client.Call(request, kPatience);
    EXPECT_TRUE(reply.ok()) << Request::kName << ": " << reply.status();
    return reply.ok() ? *reply : typename native::KindOf<Request>::Reply{};
  }
  template <class Request>
  static std::string Reason(link::Client& client, const Request& request) {
    const auto reply = client.Call(request, kPatience);
    return reply.ok() ? "ok" : native::ReasonOf(reply.status());
  }
  native::OpenSession Open(const std::string& job, int32_t create_size = 0) {
    return {.session = native::ToBytes({.high = 7, .low = ++last_session_}),
            .job = job,
            .create_size = create_size};
  }
  // A client with a session that has joined.
  std::unique_ptr<link::Client> Join(const std::string& job, int32_t index) {
    auto client = Connect();
    Ask(*client, Open(job));
    const auto joined =
        Ask(*client, native::JoinJob{.index = index, .incarnation = last_session_ + 100});
    EXPECT_EQ(joined.member, index);
    return client;
  }

  std::unique_ptr<Server> server_;
  uint64_t last_session_ = 0;
};

TEST_F(NativeSessionTest, KeysAreSetAndRead) {
  Serve({{.name = "digits", .size = 1}});
  auto client = Connect();
  EXPECT_EQ(Ask(*client, Open("digits")).size, 1);
  const auto written = Ask(*client, native::SetKey{.key = "a", .value = {"v\xff"}});
  EXPECT_GT(written.revision, 0);
  const auto read = Ask(*client, native::GetKey{.key = "a"});
  EXPECT_EQ(read.entry,
            (native::Entry{.key = "a", .value = {"v\xff"}, .revision = written.revision}));
  EXPECT_EQ(Reason(*client, native::GetKey{.key = "b"}), "key_not_found");
  EXPECT_EQ(Reason(*client, native::Barrier{.id = "b"}), "not_a_member");
}

// On c7eef82 one status of these jobs held the loop for some 200 ms, and eight of them in one read
// for 1.6 s: no more than one or two keys were read meanwhile.
TEST_F(NativeSessionTest, Finding07_KeysAreReadBetweenStatusesOfManyMembers) {
  constexpr int kAtOnce = 8;
  constexpr int kStatuses = 3 * kAtOnce;
  Serve({{.name = "digits", .size = 1}});
  auto client = Connect();
  Ask(*client, native::CreateJob{.job = "big", .size = 16'384});
  Ask(*client, native::CreateJob{.job = "bigger", .size = 16'384});
  Ask(*client, Open("digits"));
  Ask(*client, native::SetKey{.key = "a", .value = {"v"}});

  std::atomic<bool> over = false;
  std::thread hostile([&] {
    link::testing::RawClient raw(server_->listen_address());
    raw.SayHello();
    raw.Expect<native::Welcome>(link::FrameType::kWelcome);
    for (uint64_t first = 1; first <= kStatuses; first += kAtOnce) {
      std::string all;
      for (uint64_t id = first; id < first + kAtOnce; ++id) {
        all += link::EncodeMessage({.type = link::FrameType::kRequest,
                                    .kind = native::KindOf<native::StatusRequest>::kKind,
                                    .id = id,
                                    .payload = native::Encode(native::StatusRequest{})});
      }
      raw.Send(all);
      for (int i = 0; i < kAtOnce; ++i) raw.Expect<native::StatusReply>(link::FrameType::kAnswer);
    }
    over = true;
  });
  int gets = 0;
  while (!over) {
    EXPECT_EQ(Ask(*client, native::GetKey{.key = "a"}).entry.value, native::Bytes{"v"});
    ++gets;
  }
  hostile.join();
  EXPECT_GT(gets, 3 * kStatuses);
}

TEST_F(NativeSessionTest, MembersMeetAtABarrier) {
  Serve({{.name = "digits", .size = 2}});
  auto other = std::async(std::launch::async, [&] {
    auto client = Connect();
    Ask(*client,
        native::OpenSession{.session = native::ToBytes({.high = 1, .low = 1}), .job = "digits"});
    Ask(*client, native::JoinJob{.index = 1, .incarnation = 1});
    return Ask(*client, native::Barrier{.id = "ports", .value = native::Bytes{"b"}});
  });
  auto me = Join("digits", 0);
  const auto passed = Ask(*me, native::Barrier{.id = "ports", .value = native::Bytes{"a"}});
  EXPECT_THAT(passed.values,
              ElementsAre(native::BarrierValue{0, {"a"}}, native::BarrierValue{1, {"b"}}));
  EXPECT_EQ(other.get(), passed);
}

TEST_F(NativeSessionTest, ABarrierThatTimesOutHasLaunchersAskedForStacks) {
  Serve({{.name = "digits", .size = 2}});
  // A member is in when all are.
  auto joins = std::async(std::launch::async, [&] {
    auto client = Connect();
    Ask(*client,
        native::OpenSession{.session = native::ToBytes({.high = 1, .low = 1}), .job = "digits"});
    Ask(*client, native::JoinJob{.index = 1, .incarnation = 1});
    return client;
  });
  auto me = Join("digits", 0);
  const auto other = joins.get();
  const native::Barrier barrier = {.id = "x", .timeout_us = 1000};
  EXPECT_EQ(Reason(*me, barrier), "barrier_timed_out");
  EXPECT_EQ(server_->CurrentStatus()->jobs[0].stacks, std::nullopt) << "no launcher told of any";

  Ask(*Connect(), native::ProcessReport{.job = "digits",
                                        .member = 1,
                                        .event = native::ProcessEvent::kStarted,
                                        .host = "here",
                                        .pid = 17});
  EXPECT_EQ(Reason(*me, native::Barrier{.id = "y", .timeout_us = 1000}), "barrier_timed_out");
  const auto stacks = server_->CurrentStatus()->jobs[0].stacks;
  ASSERT_TRUE(stacks);
  EXPECT_EQ(stacks->because, "barrier 'y' timed out");
  EXPECT_THAT(stacks->awaited, ElementsAre(1));
  const auto read = Ask(*me, native::GetKey{.key = native::kStackQuestionKey, .wait = true});
  const auto asked = native::DecodeQuestion(read.entry.value.data);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(*asked,
            (native::StacksAsked{.id = stacks->id, .because = stacks->because, .say = true}));

  // What times out comes in bursts, and the first tells most.
  EXPECT_EQ(Reason(*me, native::Barrier{.id = "z", .timeout_us = 1000}), "barrier_timed_out");
  EXPECT_EQ(server_->CurrentStatus()->jobs[0].stacks->id, stacks->id);

  // In the next run what was seen in this one blames nobody.
  Ask(*Connect(), native::ProcessReport{.job = "digits",
                                        .member = 1,
                                        .event = native::ProcessEvent::kStarted,
                                        .host = "here",
                                        .pid = 18});
  EXPECT_EQ(server_->CurrentStatus()->jobs[0].stacks, std::nullopt);
}

TEST_F(NativeSessionTest, JobsAreMadeListedAndDeleted) {
  Serve({});
  auto client = Connect();
  EXPECT_EQ(Reason(*client, Open("digits")), "unknown_job");
  const auto made =
      Ask(*client, native::CreateJob{.job = "digits", .roles = {{"worker", 2}, {"ps", 1}}});
  EXPECT_TRUE(made.created);
  EXPECT_EQ(made.grpc, server_->GrpcAddress("digits"));
  const native::CreateJob same = {.job = "digits", .size = 3, .roles = {{"worker", 2}, {"ps", 1}}};
  EXPECT_FALSE(Ask(*client, same).created);
  EXPECT_EQ(Reason(*client, native::CreateJob{.job = "digits", .size = 3}), "job_exists");
  EXPECT_EQ(Reason(*client, native::CreateJob{.job = "a b", .size = 3}), "invalid_argument");
  EXPECT_EQ(Reason(*client, native::CreateJob{.job = "b", .size = 0}), "invalid_argument");
  EXPECT_EQ(Reason(*client, native::CreateJob{.job = "b", .roles = {{"w", 1}, {"w", 1}}}),
            "invalid_argument");
  EXPECT_EQ(server_->CurrentStatus()->jobs.size(), 1u);

  Ask(*client, native::DeleteJob{.job = "digits"});
  EXPECT_EQ(Reason(*client, native::DeleteJob{.job = "digits"}), "unknown_job");
  EXPECT_EQ(server_->GrpcAddress("digits"), "");
}

TEST_F(NativeSessionTest, TheFirstToOpenMakesTheJob) {
  Serve({}, {.jobs_max = 1});
  auto client = Connect();
  EXPECT_EQ(Ask(*client, Open("digits", 2)).size, 2);
  auto another = Connect();
  EXPECT_EQ(Ask(*another, Open("digits", 2)).size, 2);
  EXPECT_EQ(Reason(*Connect(), Open("digits", 3)), "job_exists");
  EXPECT_EQ(Reason(*Connect(), Open("other", 2)), "limit_exceeded");
}

TEST_F(NativeSessionTest, JobsDoNotSeeEachOther) {
  Serve({{.name = "a", .size = 1}, {.name = "b", .size = 1}});
  auto a = Connect();
  auto b = Connect();
  const auto open = Open("a");
  Ask(*a, open);
  // Even the same session id is another session elsewhere.
  Ask(*b, native::OpenSession{.session = open.session, .job = "b"});
  Ask(*a, native::SetKey{.key = "k", .value = {"a's"}});
  EXPECT_EQ(Reason(*b, native::GetKey{.key = "k"}), "key_not_found");
}

TEST_F(NativeSessionTest, DeletingARunningJobTellsItsMembers) {
  Serve({{.name = "digits", .size = 1}});
  auto me = Join("digits", 0);
  auto tool = Connect();
  EXPECT_EQ(Reason(*tool, native::DeleteJob{.job = "digits"}), "job_running");
  auto waiting = std::async(std::launch::async, [&] {
    return Reason(*me, native::GetKey{.key = "never", .wait = true});
  });
  // Until it waits.
  while (server_->CurrentStatus()->jobs.at(0).waits == 0) std::this_thread::yield();
  Ask(*tool, native::DeleteJob{.job = "digits", .force = true});
  EXPECT_EQ(waiting.get(), "job_deleted");
  EXPECT_EQ(Reason(*me, native::GetKey{.key = "a"}), "job_deleted");
}

TEST_F(NativeSessionTest, AJobThatNobodyUsesExpires) {
  Serve({{.name = "kept", .size = 1}}, {.idle_job_timeout = absl::Milliseconds(200)});
  auto client = Connect();
  Ask(*client, native::CreateJob{.job = "gone", .size = 1});
  Ask(*client, Open("used", 1));
  const auto jobs = [&] {
    std::vector<std::string> names;
    const auto status = server_->CurrentStatus();
    if (!status.ok()) return names;
    for (const auto& job : status->jobs) names.push_back(job.job);
    return names;
  };
  const std::vector<std::string> left = {"kept", "used"};
  while (jobs() != left) std::this_thread::yield();
  client.reset();
  while (jobs().size() != 1) std::this_thread::yield();
  EXPECT_THAT(jobs(), ElementsAre("kept"));
}

// A host that goes down takes its launcher along: only the job knows that the member is gone.
TEST_F(NativeSessionTest, Deliver08_AConsumerThatItsJobHasLostIsReplacedAtOnce) {
  Serve({{.name = "digits", .size = 1}}, {.data = {.consumer_timeout = absl::Hours(1)}});
  auto me = Connect();
  Ask(*me, Open("digits"));
  Ask(*me, native::JoinJob{.index = 0, .incarnation = 5, .host = "elsewhere", .pid = 4711});
  auto tool = Connect();
  const plan::Definition range = {.nodes = {{.id = 1, .op = "range", .attrs = {{"stop", 10}}}}};
  const auto dataset = Ask(
      *tool, native::RegisterDataset{.name = "d", .definition = {native::EncodeDefinition(range)}});
  native::OpenIteration open = {.spec = {.name = "i",
                                         .dataset = dataset.dataset,
                                         .mode = native::ReadingMode::kExact,
                                         .consumers = 1},
                                .consumer = "a",
                                .life = 1,
                                .index = 0,
                                .host = "elsewhere",
                                .pid = 4711,
                                .member = true};
  Ask(*me, open);
  open.consumer = "b";
  open.life = 2;
  open.pid = 4712;
  EXPECT_EQ(Reason(*tool, open), "consumer_index_taken");
  me.reset();
  const absl::Time until = absl::Now() + kPatience;
  std::string answer;
  while ((answer = Reason(*tool, open)) != "ok" && absl::Now() < until) std::this_thread::yield();
  EXPECT_EQ(answer, "ok");
}

TEST_F(NativeSessionTest, StopsAndStartsInOneProcess) {
  Serve({{.name = "digits", .size = 1}});
  auto me = Join("digits", 0);
  auto waiting = std::async(std::launch::async, [&] {
    return Reason(*me, native::GetKey{.key = "never", .wait = true});
  });
  while (server_->CurrentStatus()->jobs.at(0).waits == 0) std::this_thread::yield();
  server_->Stop();
  EXPECT_EQ(waiting.get(), "service_stopped");
  EXPECT_EQ(server_->CurrentStatus().status().code(), absl::StatusCode::kUnavailable);
  Serve({{.name = "digits", .size = 1}});
  EXPECT_EQ(Ask(*Connect(), Open("digits")).size, 1);
}

// Connections that say nothing do not keep members out.
TEST_F(NativeSessionTest, ServesThroughAFloodOfIdleConnections) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors of its own to check objects";
#endif
  Serve({{.name = "digits", .size = 1}});
  auto me = Join("digits", 0);
  const std::string address = server_->listen_address();
  sockaddr_in where = {.sin_family = AF_INET};
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  std::vector<int> idle;
  for (int i = 0; i < 1'500; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) break;  // out of our own
    idle.push_back(fd);
    ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof(where)), 0);
  }
  EXPECT_GT(idle.size(), 300u);
  Ask(*me, native::SetKey{.key = "a", .value = {"served"}});
  // Room for the newcomer's own descriptors, which are this process's as well.
  for (int i = 0; i < 10; ++i) {
    ::close(idle.back());
    idle.pop_back();
  }
  auto newcomer = Connect();
  Ask(*newcomer, Open("digits"));
  EXPECT_EQ(Ask(*newcomer, native::GetKey{.key = "a"}).entry.value.data, "served");
  for (const int fd : idle) ::close(fd);
}

}  // namespace
}  // namespace lockstep::server
