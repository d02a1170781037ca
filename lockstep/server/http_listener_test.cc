#include "lockstep/server/http_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "lockstep/server/http_connection.h"
#include "lockstep/wire/native/error_reply.h"
#include "nlohmann/json.hpp"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;
using wire::native::JobStatus;
using wire::native::MemberCondition;
using wire::native::WatchEvents;
using wire::native::WatchEventsReply;

class HttpListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    runner_ = std::thread([this] { loop_.Run(); });
  }
  void TearDown() override {
    listener_.reset();
    loop_.Stop();
    runner_.join();
  }

  void Serve(absl::Duration patience = absl::Seconds(60), runtime::MemoryAccount* memory = nullptr,
             HttpAccess access = {}) {
    HttpSource source = {
        .view =
            [this](const std::string& job, HttpSource::Viewed viewed) {
              EXPECT_TRUE(loop_.InLoop());
              if (!job.empty() && job != "digits") {
                return viewed(
                    wire::native::WithReason(absl::NotFoundError("no such job"), "unknown_job"));
              }
              ServerView view;
              view.status.jobs = {
                  {.job = "digits",
                   .size = 1,
                   .state = wire::native::AttemptState::kRunning,
                   .members = {{.name = "task/0#1", .condition = MemberCondition::kConnected}},
                   .barriers = {{.id = "b", .waiting = {0}}}}};
              if (members_ > 0) {
                const wire::native::MemberStatus one = view.status.jobs[0].members[0];
                view.status.jobs[0].size = static_cast<int32_t>(members_);
                view.status.jobs[0].members.assign(members_, one);
              }
              view.counts = {{}};
              view.not_ready = not_ready_;
              viewed(std::move(view));
            },
        .not_ready = [this] { return not_ready_; },
        .events = [](const WatchEvents& request) -> absl::StatusOr<WatchEventsReply> {
          return WatchEventsReply{
              .log = 7, .events = {{.text = request.job}}, .next_after = request.after + 1};
        },
        .when_durable =
            [this](HttpSource::Release release) {
              if (!disk_hangs_) return release(durable_);
              held_.push_back(std::move(release));
            }};
    auto listener = HttpListener::Listen(loop_,
                                         {.listen = {.host = "127.0.0.1", .port = 0},
                                          .names = {"coordinator.example"},
                                          .patience = patience,
                                          .memory = memory,
                                          .access = std::move(access)},
                                         std::move(source));
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  httplib::Result Get(const std::string& path) {
    httplib::Client client("http://" + listener_->address());
    client.set_read_timeout(60);  // a long answer on a busy core
    return client.Get(path.c_str());
  }

  // A connection on which nothing was said yet, of the host at that address.
  runtime::UniqueFd Dial(const char* host = "127.0.0.1") {
    const auto at = *runtime::ParseAddress(listener_->address());
    runtime::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(at.port), .sin_addr = {}, .sin_zero = {}};
    sockaddr_in from = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
    ::inet_pton(AF_INET, host, &from.sin_addr);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof(from)), 0);
    ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    return fd;
  }
  static bool Say(const runtime::UniqueFd& fd, const std::string& text) {
    return ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // All that comes until the other end closes.
  static std::string Hear(const runtime::UniqueFd& fd) {
    std::string heard;
    char some[4096];
    for (;;) {
      const ssize_t n = ::recv(fd.get(), some, sizeof(some), 0);
      if (n <= 0) return heard;
      heard.append(some, static_cast<size_t>(n));
    }
  }
  std::string Ask(const std::string& request) {
    const runtime::UniqueFd fd = Dial();
    Say(fd, request);
    return Hear(fd);
  }

  nlohmann::json Json(const std::string& path) {
    const auto response = Get(path);
    if (!response || response->status != 200) {
      ADD_FAILURE() << path;
      return {};
    }
    EXPECT_EQ(response->get_header_value("Content-Type"), "application/json");
    return nlohmann::json::parse(response->body);
  }

  runtime::Loop loop_;
  std::thread runner_;
  std::vector<std::string> not_ready_;
  bool durable_ = true;
  size_t members_ = 0;  // of the job; 0: as it stands there
  bool disk_hangs_ = false;
  std::vector<HttpSource::Release> held_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, SaysWhetherTheServerLivesAndIsReady) {
  Serve();
  EXPECT_EQ(Get("/healthz")->body, "ok\n");
  EXPECT_EQ(Get("/readyz")->body, "ready\n");
  loop_.Post([this] { not_ready_ = {"shutting down", "on fire"}; });
  const auto response = Get("/readyz");
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->body, "not ready: shutting down; on fire\n");
  EXPECT_EQ(Get("/healthz")->status, 200) << "it lives";
}

TEST_F(HttpListenerTest, ShowsWhatTheCommandsShow) {
  Serve();
  EXPECT_EQ(Json("/v1/status.json")["jobs"][0]["job"], "digits");
  EXPECT_EQ(Json("/v1/status.json?job=digits")["jobs"][0]["job"], "digits");
  EXPECT_EQ(Json("/v1/jobs.json")["jobs"][0]["members"]["connected"], 1);
  EXPECT_EQ(Json("/v1/members.json?job=digits")["members"][0]["name"], "task/0#1");
  EXPECT_EQ(Json("/v1/barriers.json?job=digits")["barriers"][0]["id"], "b");
  EXPECT_EQ(Json("/v1/why.json?job=digits")["verdict"], "waiting");
  EXPECT_EQ(Json("/v1/events.json?job=digits&after=4")["next_after"], 5);
  EXPECT_THAT(Get("/metrics")->body, HasSubstr("lockstep_members{"));
}

TEST_F(HttpListenerTest, RefusesWithAReason) {
  Serve();
  const auto unknown = Get("/v1/members.json?job=x");
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(nlohmann::json::parse(unknown->body)["reason"], "unknown_job");
  EXPECT_EQ(Get("/v1/members.json")->status, 400);
  EXPECT_EQ(Get("/v1/events.json?after=x")->status, 400);
  EXPECT_EQ(Get("/v1/nothing.json")->status, 404);
}

TEST_F(HttpListenerTest, ALoopThatHangsIsAnsweredFor) {
  Serve(absl::Milliseconds(50));
  std::promise<void> go_on;
  loop_.Post([&] { go_on.get_future().wait(); });
  const auto response = Get("/healthz");
  EXPECT_EQ(response->status, 503);
  EXPECT_THAT(response->body, HasSubstr("did not answer within 50ms"));
  go_on.set_value();
}

TEST_F(HttpListenerTest, ShowsNothingThatIsNotDurable) {
  Serve();
  loop_.Post([this] { disk_hangs_ = true; });
  std::promise<void> answered;
  std::future<void> answer = answered.get_future();
  std::thread asks([&] {
    EXPECT_EQ(Json("/v1/members.json?job=digits")["members"][0]["name"], "task/0#1");
    answered.set_value();
  });
  // It waits; those that tell of the server alone do not.
  bool holds = false;
  while (!holds) {
    std::promise<bool> looked;
    loop_.Post([&] { looked.set_value(!held_.empty()); });
    holds = looked.get_future().get();
  }
  EXPECT_EQ(Get("/readyz")->status, 200);
  EXPECT_THAT(Get("/metrics")->body, HasSubstr("lockstep_members{"));
  EXPECT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::timeout);

  loop_.Post([this] { held_[0](true); });
  asks.join();
}

TEST_F(HttpListenerTest, RefusesWhatWillNeverBeDurable) {
  durable_ = false;
  Serve();
  for (const char* path : {"/v1/status.json", "/v1/events.json", "/v1/why.json?job=digits"}) {
    const auto response = Get(path);
    EXPECT_EQ(response->status, 503) << path;
    EXPECT_EQ(nlohmann::json::parse(response->body)["reason"], "service_stopped");
  }
  EXPECT_EQ(Get("/metrics")->status, 200);
}

TEST_F(HttpListenerTest, ADiskThatHangsIsAnsweredFor) {
  disk_hangs_ = true;
  Serve(absl::Milliseconds(50));
  const auto response = Get("/v1/status.json");
  EXPECT_EQ(response->status, 503);
  EXPECT_THAT(response->body, HasSubstr("the disk that the answer depends on"));
}

// Many more than there were threads, each with half a request that never goes on.
TEST_F(HttpListenerTest, Finding04_WhoDripsBytesHoldsUpNobody) {
  Serve();
  std::vector<runtime::UniqueFd> drippers;
  for (size_t i = 0; i < 3 * HttpListener::kConnectionsMax; ++i) {
    drippers.push_back(Dial());
    Say(drippers.back(), "GET /healthz HTTP/1.1\r\nHo");
    if (i % 16 == 0) {
      EXPECT_EQ(Get("/healthz")->body, "ok\n");
    }
  }
  EXPECT_EQ(Get("/healthz")->body, "ok\n");
  // The first of them had to make room.
  EXPECT_EQ(Hear(drippers.front()), "");
  // And an end waits for none of them.
  listener_.reset();
}

// Also if each is answered at once and then keeps its connection.
TEST_F(HttpListenerTest, AFloodTakesThePlacesOfItsOwnHost) {
  Serve();
  const runtime::UniqueFd slow = Dial();
  Say(slow, "GET /healthz HTTP/1.1\r\n");
  std::vector<runtime::UniqueFd> flood;
  for (size_t i = 0; i < 3 * HttpListener::kConnectionsMax; ++i) {
    flood.push_back(Dial("127.0.0.2"));
    Say(flood.back(), i % 2 == 0 ? "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" : "G");
  }
  // The listener has taken all of them by then.
  EXPECT_EQ(Get("/healthz")->body, "ok\n");
  Say(slow, "Host: localhost\r\n\r\n");
  EXPECT_THAT(Hear(slow), HasSubstr("200"));
}

// Bytes that go on coming move no deadline.
TEST_F(HttpListenerTest, Finding04_ARequestHasOneDeadline) {
  Serve();
  const runtime::UniqueFd fd = Dial();
  const Time began = runtime::MonotonicNow();
  std::thread drips([&] {
    for (int i = 0; i < 1000 && Say(fd, i == 0 ? "GET /healthz HTTP/1.1\r\nX: " : "x"); ++i) {
      ::usleep(100'000);
    }
  });
  EXPECT_THAT(Hear(fd), HasSubstr("408 Request Timeout"));
  EXPECT_LT(runtime::MonotonicNow() - began, absl::Seconds(30));
  ::shutdown(fd.get(), SHUT_RDWR);
  drips.join();
}

TEST_F(HttpListenerTest, Finding04_ARequestIsBounded) {
  Serve();
  const std::string line(128 << 10, 'a');
  EXPECT_THAT(Ask("GET /" + line), HasSubstr("431 "));
  std::string headers = "GET /healthz HTTP/1.1\r\n";
  for (int i = 0; i < 2000; ++i) headers += "X-" + std::to_string(i) + ": y\r\n";
  EXPECT_THAT(Ask(headers), HasSubstr("431 "));
  EXPECT_THAT(Ask("\x16\x03\x01 this is TLS\r\n\r\n"), HasSubstr("400 "));
  EXPECT_THAT(Ask("POST /healthz HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), HasSubstr("405 "));
  EXPECT_THAT(Ask("POST /healthz HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n"), HasSubstr("413 "));
  const std::string head = Ask("HEAD /healthz HTTP/1.0\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("200 OK"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

TEST_F(HttpListenerTest, Finding04_AnswersThatNobodyReadsAreInTheAccount) {
  members_ = 40'000;
  runtime::MemoryAccount memory(uint64_t{64} << 20);
  const std::string ask = "GET /v1/status.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
  Serve(absl::Seconds(60), &memory);
  const runtime::UniqueFd unread = Dial();
  Say(unread, ask);
  while (memory.held() <= HttpAnswerMemory::kSmallBytes) std::this_thread::yield();
  // One alone may be as long as it is. Another has to fit in beside it.
  const std::string refused = Ask(ask);
  EXPECT_THAT(refused.substr(0, 100), HasSubstr("503 "));
  EXPECT_THAT(refused.substr(0, 1000), HasSubstr("http_answers_bytes_max"));
  EXPECT_EQ(Get("/healthz")->body, "ok\n");
  EXPECT_THAT(Hear(unread).substr(0, 100), HasSubstr("200 OK"));
  while (memory.held() > 0) std::this_thread::yield();
  EXPECT_EQ(Get("/v1/status.json")->status, 200);
  listener_.reset();
}

TEST_F(HttpListenerTest, Finding04_ANameThatIsNotOursIsRefused) {
  Serve();
  const auto with = [&](const std::string& host) {
    return Ask("GET /v1/status.json HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  for (const char* host : {"evil.example", "evil.example:7070", "127.0.0.1.evil.example"}) {
    EXPECT_THAT(with(host), HasSubstr("421 ")) << host;
    EXPECT_THAT(with(host), HasSubstr("host_refused")) << host;
    EXPECT_THAT(with(host), ::testing::Not(HasSubstr("digits"))) << host;
  }
  for (const char* host : {"127.0.0.1:7070", "[::1]:7070", "localhost", "Coordinator.Example:1"}) {
    EXPECT_THAT(with(host), HasSubstr("200 OK")) << host;
  }
}

TEST_F(HttpListenerTest, WhatACallerSeesIsWhatItMayAsk) {
  using wire::native::Role;
  absl::StatusOr<link::Rights> rights;
  Serve(absl::Seconds(60), nullptr, {.admit = [&](const HttpCaller& caller) {
          EXPECT_EQ(caller.token, "of-somebody");
          EXPECT_TRUE(caller.local);
          EXPECT_FALSE(caller.secure);
          return rights;
        }});
  const auto status = [&](const std::string& path) {
    const std::string answer =
        Ask("GET " + path + " HTTP/1.1\r\nAuthorization: Bearer of-somebody\r\n\r\n");
    return answer.size() < 12 ? "" : answer.substr(9, 3);
  };
  const std::vector<std::string> of_all = {"/v1/status.json", "/v1/jobs.json", "/v1/events.json",
                                           "/metrics"};
  const std::vector<std::string> of_one = {
      "/v1/status.json?job=digits",   "/v1/jobs.json?job=digits", "/v1/members.json?job=digits",
      "/v1/barriers.json?job=digits", "/v1/why.json?job=digits",  "/v1/events.json?job=digits",
      "/metrics?job=digits"};
  const auto expect = [&](const std::vector<std::string>& paths, const std::string& code) {
    for (const std::string& path : paths) EXPECT_EQ(status(path), code) << path;
    EXPECT_EQ(status("/healthz"), "200");
    EXPECT_EQ(status("/readyz"), "200");
  };
  for (const Role role : {Role::kObserve, Role::kOperate, Role::kTask, Role::kLaunch}) {
    rights = link::Rights{.role = role};
    expect(of_all, "200");
    expect(of_one, "200");
    rights = link::Rights{.role = role, .job = "digits"};
    expect(of_all, "403");
    expect(of_one, "200");
    rights = link::Rights{.role = role, .job = "other"};
    expect(of_one, "403");
  }
  rights = link::Rights{.role = Role::kUnspecified};
  expect(of_all, "403");
  rights = wire::native::WithReason(absl::UnauthenticatedError("no"), "token_invalid");
  expect(of_all, "401");
  expect(of_one, "401");
  expect({"/v1/nothing.json"}, "401");
  // Those who may see nothing are not told why the server is not ready.
  loop_.Post([this] { not_ready_ = {"shutting down"}; });
  EXPECT_THAT(Ask("GET /readyz HTTP/1.1\r\nAuthorization: Bearer of-somebody\r\n\r\n"),
              ::testing::AllOf(HasSubstr("503 "), HasSubstr("not ready\n"),
                               ::testing::Not(HasSubstr("shutting down"))));
}

TEST_F(HttpListenerTest, AnAddressIsHadByOneServer) {
  Serve();
  const auto at = runtime::ParseAddress(listener_->address());
  ASSERT_TRUE(at.ok());
  const auto second = HttpListener::Listen(loop_, {.listen = *at}, {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(listener_->address()));
}

}  // namespace
}  // namespace lockstep::server
