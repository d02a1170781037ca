#include "lockstep/platform/link/server.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/link/connection.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::link {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kLong;
using testing::RawClient;
using testing::Seen;
using testing::TestServer;
using wire::native::ErrorReply;
using wire::native::Farewell;
using wire::native::Refused;
using wire::native::Welcome;

void Echo(Request request, Responder responder) { responder.Answer(std::move(request.payload)); }

std::unique_ptr<Client> Connect(const std::string& address) {
  auto client = Client::Connect(address, kLong, {.who = "test"});
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

Message RawRequest(uint64_t id, std::string payload) {
  return {.type = FrameType::kRequest, .id = id, .payload = std::move(payload)};
}

TEST(Server, AnswersRequests) {
  TestServer server([](Request request, Responder responder) {
    responder.Answer(
        absl::StrCat(request.kind, " ", request.payload, " ", std::string(request.who)));
  });
  auto client = Connect(server.address());
  EXPECT_THAT(*client->CallRaw(3, "hello", kLong), HasSubstr("3 hello test, pid "));
  EXPECT_THAT(*client->CallRaw(4, "again", kLong), HasSubstr("4 again test, pid "));
}

TEST(Server, Finding07_OneLinkDoesNotKeepTheOthersFromTheirTurns) {
  constexpr uint64_t kRequests = 2000;
  runtime::Loop* loop = nullptr;  // set before the first request
  std::vector<uint64_t> ids;
  size_t most_in_a_turn = 0;
  size_t at_last_turn = 0;
  std::function<void()> turn = [&] {
    most_in_a_turn = std::max(most_in_a_turn, ids.size() - at_last_turn);
    at_last_turn = ids.size();
    if (ids.size() < kRequests) loop->Post([&] { turn(); });
  };
  std::promise<void> done;
  TestServer server([&](const Request& request, Responder responder) {
    ids.push_back(request.id);
    if (ids.size() == 1) loop->Post([&] { turn(); });
    responder.Answer("");
    if (ids.size() == kRequests) done.set_value();
  });
  loop = &server.thread().loop();

  RawClient client(server.address());
  client.SayHello();
  client.Expect<Welcome>(FrameType::kWelcome);
  std::string all;
  for (uint64_t id = 1; id <= kRequests; ++id) all += EncodeMessage(RawRequest(id, "?"));
  client.Send(all);
  done.get_future().wait();
  server.thread().Do([&] { turn(); });

  EXPECT_LE(most_in_a_turn, Connection::kMessagesPerTurn);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end())) << "a link's requests stay in order";
}

TEST(Server, PassesErrorsOnWithCodeAndReason) {
  TestServer server([](const Request&, Responder responder) {
    responder.Fail(wire::native::WithReason(absl::NotFoundError("no job 'x'"), "unknown_job"));
  });
  const absl::Status status = Connect(server.address())->CallRaw(1, "", kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no job 'x'");
  EXPECT_EQ(wire::native::ReasonOf(status), "unknown_job");
}

TEST(Server, TellsItsInstanceAndLimitsInTheWelcome) {
  TestServer server(Echo, {.service_instance = 77});
  RawClient client(server.address());
  client.SayHello(0, 3);
  EXPECT_EQ(client.Expect<Welcome>(FrameType::kWelcome),
            (Welcome{.version = 1,
                     .service_instance = 77,
                     .message_bytes_max = kMessageBytesMax,
                     .requests_in_flight_max = 1024}));
}

TEST(Server, RefusesVersionsThatItDoesNotSpeak) {
  TestServer server(Echo);
  RawClient client(server.address());
  client.SayHello(7, 9);
  const Refused refused = client.Expect<Refused>(FrameType::kRefused);
  EXPECT_EQ(refused.reason, "version");
  EXPECT_THAT(refused.message, HasSubstr("speaks version 1 of the link, the client 7 to 9"));
  client.ExpectClosed();
}

TEST(Server, TellsAClientOfAnotherProtocolWhatItIs) {
  TestServer server(Echo);
  RawClient client(server.address());
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const Farewell farewell = client.Expect<Farewell>(FrameType::kFarewell);
  EXPECT_EQ(farewell.reason, "protocol");
  EXPECT_THAT(farewell.message, HasSubstr("not a frame of the link"));
  client.ExpectClosed();
  EXPECT_THAT(server.lines.WaitForCount(1), Contains(HasSubstr("not a frame of the link")));
  EXPECT_EQ(*Connect(server.address())->CallRaw(1, "serves on", kLong), "serves on");
}

TEST(Server, GivesUpAConnectionThatNeverSaysHello) {
  TestServer server(Echo, {.link = {.hello_timeout = absl::Milliseconds(50)}});
  RawClient silent(server.address());
  RawClient half(server.address());
  half.Send("LSTP");
  EXPECT_THAT(silent.Expect<Farewell>(FrameType::kFarewell).message, HasSubstr("within 50ms"));
  EXPECT_THAT(half.Expect<Farewell>(FrameType::kFarewell).message, HasSubstr("within 50ms"));
  silent.ExpectClosed();
  half.ExpectClosed();
}

TEST(Server, TakesNoMoreThanAFewBytesBeforeTheWelcome) {
  TestServer server(Echo);
  RawClient client(server.address());
  client.Send(Message{.type = FrameType::kHello, .payload = std::string(5000, 'x')});
  EXPECT_THAT(client.Expect<Farewell>(FrameType::kFarewell).message,
              HasSubstr("5000 bytes, 4096 are allowed"));
}

TEST(Server, TakesNoRequestBeforeTheHello) {
  TestServer server(Echo);
  RawClient client(server.address());
  client.Send(RawRequest(1, "x"));
  EXPECT_THAT(client.Expect<Farewell>(FrameType::kFarewell).message,
              HasSubstr("where a hello was due"));
}

TEST(Server, SaysWhatALeaderIsAfterItHasLookedAtRights) {
  std::atomic<bool> leads = false;
  std::atomic<bool> may = false;
  TestServer server(ServerEvents{.request = Echo,
                                 .leadership =
                                     [&] {
                                       return Leadership{leads, 9, "other:7070"};
                                     }},
                    {.admit = [&](LinkId, const Greeting&) -> std::optional<Verdict> {
                      if (may) return Rights();
                      return wire::native::WithReason(absl::FailedPreconditionError("no"),
                                                      "token_invalid");
                    }});
  const auto refusal = [&] {
    RawClient client(server.address());
    client.SayHello();
    return client.Expect<Refused>(FrameType::kRefused);
  };
  EXPECT_EQ(refusal(), (Refused{.reason = "token_invalid", .message = "no"}))
      << "a stranger learns nothing of the others";
  may = true;
  const Refused standing_by = refusal();
  EXPECT_EQ(standing_by.reason, "not_leader");
  EXPECT_EQ(standing_by.leader, "other:7070");
  leads = true;
  RawClient client(server.address());
  client.SayHello();
  EXPECT_EQ(client.Expect<Welcome>(FrameType::kWelcome).epoch, 9u);
}

// A server that says later what a client may.
class LateServer {
 public:
  explicit LateServer(absl::Duration hello_timeout = kLong)
      : server_(Echo, {.admit = [this](LinkId id, const Greeting&) -> std::optional<Verdict> {
                         asked.Add(id);
                         return std::nullopt;
                       },
                       .left = [this](LinkId id) { left.Add(id); },
                       .link = {.hello_timeout = hello_timeout}}) {}
  const std::string& address() const { return server_.address(); }
  void Admit(LinkId id, Verdict verdict) {
    server_.thread().Do([&] { server_.server().Admit(id, std::move(verdict)); });
  }
  size_t welcomed() {
    return server_.thread().Do([&] { return server_.server().connections(); });
  }

  Seen<LinkId> asked;  // before the server, which adds to them
  Seen<LinkId> left;

 private:
  TestServer server_;
};

TEST(Server, WelcomesAClientWhenItsVerdictComesLater) {
  LateServer server;
  RawClient client(server.address());
  client.SayHello();
  const LinkId id = server.asked.WaitForCount(1).front();
  EXPECT_EQ(server.welcomed(), 0u) << "it greets until then";
  server.Admit(id, Rights());
  client.Expect<Welcome>(FrameType::kWelcome);
  client.Send(RawRequest(1, "?"));
  EXPECT_EQ(client.Receive()->payload, "?");
}

TEST(Server, RefusesAClientWhenItsVerdictComesLater) {
  LateServer server;
  RawClient client(server.address());
  client.SayHello();
  const LinkId id = server.asked.WaitForCount(1).front();
  const absl::Status no = wire::native::WithReason(absl::UnavailableError("no"), "token_invalid");
  server.Admit(id, no);
  EXPECT_EQ(client.Expect<Refused>(FrameType::kRefused).reason, "token_invalid");
  server.Admit(id, Rights());  // closing, or gone
  client.ExpectClosed();
  server.Admit(id, Rights());
  EXPECT_EQ(server.welcomed(), 0u);
}

TEST(Server, AClientThatAwaitsItsVerdictMayBeGoneWhenItComes) {
  LateServer server;
  {
    RawClient client(server.address());
    client.SayHello();
    server.asked.WaitForCount(1);
  }
  EXPECT_EQ(server.left.WaitForCount(1), server.asked.Now());
  server.Admit(server.asked.Now().front(), Rights());
  {
    RawClient next(server.address());
    next.SayHello();
    server.Admit(server.asked.WaitForCount(2).back(), Rights());
    next.Expect<Welcome>(FrameType::kWelcome);
  }
  // Only of one whose verdict is still to come.
  RawClient last(server.address());
  last.SayHello();
  server.asked.WaitForCount(3);
  EXPECT_EQ(server.left.Now().size(), 1u);
}

TEST(Server, AVerdictThatDoesNotComeEndsTheGreeting) {
  LateServer server(absl::Milliseconds(50));
  RawClient client(server.address());
  client.SayHello();
  EXPECT_THAT(client.Expect<Farewell>(FrameType::kFarewell).message, HasSubstr("within 50ms"));
  server.Admit(server.asked.WaitForCount(1).front(), Rights());
  client.ExpectClosed();
}

TEST(Server, TakesNothingWhileAVerdictIsAwaited) {
  LateServer server;
  for (const FrameType type : {FrameType::kRequest, FrameType::kHello}) {
    RawClient client(server.address());
    client.SayHello();
    client.Send(Message{.type = type, .id = 1});
    EXPECT_EQ(client.Expect<Farewell>(FrameType::kFarewell).reason, "protocol");
    client.ExpectClosed();
  }
}

TEST(Server, IgnoresUnknownFramesUnlessTheyMustBeUnderstood) {
  TestServer server(Echo);
  RawClient client(server.address());
  client.SayHello();
  client.Expect<Welcome>(FrameType::kWelcome);
  client.Send(Message{.type = static_cast<FrameType>(200), .payload = "new"});
  client.Send(RawRequest(1, "x"));
  EXPECT_EQ(client.Receive()->payload, "x");
  client.Send(Message{.type = static_cast<FrameType>(200), .must_understand = true});
  EXPECT_THAT(client.Expect<Farewell>(FrameType::kFarewell).message,
              HasSubstr("frame of type 200 must be understood"));
}

TEST(Server, RefusesANumberThatIsInUse) {
  std::vector<Responder> held;
  TestServer server(
      [&](const Request&, Responder responder) { held.push_back(std::move(responder)); });
  RawClient client(server.address());
  client.SayHello();
  client.Expect<Welcome>(FrameType::kWelcome);
  client.Send(RawRequest(1, "x"));
  client.Send(RawRequest(1, "x"));
  EXPECT_THAT(client.Expect<Farewell>(FrameType::kFarewell).message,
              HasSubstr("request 1 came twice"));
  server.thread().Do([&] { held.clear(); });
}

TEST(Server, PassesLongMessagesInFragments) {
  TestServer server(Echo);
  const std::string payload(size_t{20} << 20, 'x');
  auto answer = Connect(server.address())->CallRaw(1, payload, kLong);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(*answer == payload);
}

TEST(Server, AnswersWithAnErrorWhenTheAnswerIsTooLong) {
  TestServer server(
      [](const Request&, Responder responder) { responder.Answer(std::string(1001, 'x')); },
      {.link = {.message_bytes_max = 1000}});
  auto client = Connect(server.address());
  const absl::Status status = client->CallRaw(1, "", kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1001 bytes, 1000 are allowed"));
}

TEST(Server, AnswersForAHandlerThatForgot) {
  TestServer server([](const Request&, const Responder&) {});
  const absl::Status status = Connect(server.address())->CallRaw(1, "", kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
}

TEST(Server, LimitsTheRequestsOfALink) {
  std::vector<Responder> held;
  TestServer server(
      [&](const Request&, Responder responder) { held.push_back(std::move(responder)); },
      {.link = {.requests_in_flight_max = 2}});
  RawClient client(server.address());
  client.SayHello();
  client.Expect<Welcome>(FrameType::kWelcome);
  for (const uint64_t id : {1, 2, 3}) client.Send(RawRequest(id, ""));
  const auto refused = client.Receive();
  EXPECT_EQ(refused->id, 3u);
  EXPECT_EQ(wire::native::Decode<ErrorReply>(refused->payload)->reason, "limit_exceeded");
  server.thread().Do([&] {
    for (auto& responder : held) responder.Answer("late");
    held.clear();
  });
  EXPECT_EQ(client.Receive()->payload, "late");
  EXPECT_EQ(client.Receive()->payload, "late");
}

TEST(Server, ServesManyClientsAtOnce) {
  TestServer server(Echo);
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&, i] {
      auto client = Connect(server.address());
      for (int call = 0; call < 20; ++call) {
        const std::string payload = absl::StrCat(i, "/", call);
        EXPECT_EQ(*client->CallRaw(1, payload, kLong), payload);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Server, RefusesConnectionsAboveItsLimitAndTakesNewOnesLater) {
  TestServer server(Echo, {.connections_max = 1});
  auto first = std::make_unique<RawClient>(server.address());
  first->SayHello();
  first->Expect<Welcome>(FrameType::kWelcome);
  RawClient second(server.address());
  second.SayHello();
  EXPECT_EQ(second.Expect<Refused>(FrameType::kRefused).reason, "connection_limit");
  second.ExpectClosed();

  first.reset();
  // The server notices the first one's end before or after the next connection comes.
  while (true) {
    auto third = Client::Connect(server.address(), kLong, {});
    if (third.ok()) break;
    ASSERT_EQ(wire::native::ReasonOf(third.status()), "connection_limit") << third.status();
  }
}

// Whoever says nothing is not answered, and holds up nobody else's answer for long.
TEST(Server, RefusesSoManyWithAWordAndMoreWithoutOne) {
  TestServer server(Echo, {.connections_max = 0, .refusals_max = 1});
  RawClient first(server.address());
  server.lines.WaitForCount(1);
  RawClient second(server.address());
  second.ExpectClosed();
  first.SayHello();
  EXPECT_EQ(first.Expect<Refused>(FrameType::kRefused).reason, "connection_limit");
}

TEST(Server, DropsALinkThatFallsSilent) {
  TestServer server(Echo, {.link = {.ping_interval = absl::Milliseconds(20),
                                    .silence_timeout = absl::Milliseconds(100)}});
  RawClient client(server.address());
  client.SayHello();
  client.Expect<Welcome>(FrameType::kWelcome);
  const Farewell farewell = client.Expect<Farewell>(FrameType::kFarewell);
  EXPECT_EQ(farewell.reason, "silence");
  EXPECT_THAT(farewell.message, HasSubstr("for 100ms"));
}

TEST(Server, KeepsALinkOnWhichOnlyPingsGo) {
  const LinkOptions options = {.ping_interval = absl::Milliseconds(50),
                               .silence_timeout = absl::Milliseconds(500)};
  std::optional<Responder> held;
  TestServer* running = nullptr;
  std::optional<runtime::Timer> timer;
  TestServer server(
      [&](const Request&, Responder responder) {
        held.emplace(std::move(responder));
        timer.emplace(running->thread().loop());
        timer->Arm(runtime::MonotonicNow() + 3 * options.silence_timeout,
                   [&] { held->Answer("at last"); });
      },
      {.link = options});
  running = &server;
  auto client = Client::Connect(server.address(), kLong, {.link = options});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(*(*client)->CallRaw(1, "", kLong), "at last");
  server.thread().Do([&] {
    timer.reset();
    held.reset();
  });
}

// An agent's link carries the answers of all its callers, who would ask again over the next one.
TEST(Server, AnswersThatDoNotFitAreRefusedAndTheOthersGo) {
  TestServer server(
      [](const Request&, Responder responder) { responder.Answer(std::string(1 << 20, 'x')); },
      {.link = {.write_queue_bytes_max = 4 << 20}});
  RawClient client(server.address());
  client.SayHello();
  client.Expect<Welcome>(FrameType::kWelcome);
  for (uint64_t id = 1; id <= 64; ++id) client.Send(RawRequest(id, ""));
  size_t answers = 0;
  for (int i = 0; i < 64; ++i) {
    const auto message = client.Receive();
    ASSERT_TRUE(message.has_value()) << "the link broke after " << i << " answers";
    if (message->type == FrameType::kAnswer) {
      ++answers;
    } else {
      EXPECT_THAT(message->payload, HasSubstr("write_queue_bytes_max"));
    }
  }
  EXPECT_GE(answers, 3u);
  EXPECT_LT(answers, 64u);
}

TEST(Server, DrainSaysFarewellAndEndsOnceEveryLinkIsClosed) {
  TestServer server(Echo);
  RawClient client(server.address());
  client.SayHello();
  client.Expect<Welcome>(FrameType::kWelcome);
  Seen<bool> drained;
  server.thread().Do([&] { server.server().Drain([&] { drained.Add(true); }); });
  const Farewell farewell = client.Expect<Farewell>(FrameType::kFarewell);
  EXPECT_EQ(farewell.reason, "shutting_down");
  EXPECT_EQ(drained.WaitForCount(1).size(), 1u);
  client.ExpectClosed();
  EXPECT_EQ(Client::Connect(server.address(), kLong, {}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(Server, DrainEndsAtOnceWithoutLinks) {
  TestServer server(Echo);
  Seen<bool> drained;
  server.thread().Do([&] { server.server().Drain([&] { drained.Add(true); }); });
  EXPECT_EQ(drained.WaitForCount(1).size(), 1u);
}

TEST(Server, SaysWhoElseMayHaveItsPort) {
  TestServer first(Echo);
  testing::LoopThread thread;
  const absl::Status status = thread.Do(
      [&] { return Server::Listen(thread.loop(), {.listen = first.address()}, Echo).status(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot listen on " + first.address()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("another process has it"));
}

// Takes every file descriptor that this process may still open.
class AllDescriptors {
 public:
  AllDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 256;
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken_.push_back(fd);
  }
  ~AllDescriptors() {
    while (!taken_.empty()) GiveOneBack();
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  void GiveOneBack() {
    ::close(taken_.back());
    taken_.pop_back();
  }

 private:
  rlimit before_ = {};
  std::vector<int> taken_;
};

TEST(Server, TellsOfCancelledAnsweredAndEndedLinks) {
  Seen<std::string> seen;
  std::vector<Responder> held;
  TestServer server(ServerEvents{
      .request =
          [&](const Request& request, Responder responder) {
            held.push_back(std::move(responder));
            seen.Add(absl::StrCat("request ", request.id));
          },
      .cancelled = [&](LinkId, uint64_t id) { seen.Add(absl::StrCat("cancelled ", id)); },
      .answered = [&](LinkId, uint64_t id) { seen.Add(absl::StrCat("answered ", id)); },
      .ended = [&](LinkId, bool by_peer) { seen.Add(by_peer ? "closed" : "given up"); }});
  {
    RawClient client(server.address());
    client.SayHello();
    client.Expect<Welcome>(FrameType::kWelcome);
    client.Send(Message{.type = FrameType::kRequest, .kind = 1, .id = 5});
    client.Send(Message{.type = FrameType::kCancel, .id = 6});  // no such request waits
    client.Send(Message{.type = FrameType::kCancel, .id = 5});
    client.Send(FrameType::kAnswered, wire::native::Answered{.through = 4});
    EXPECT_THAT(seen.WaitForCount(3), ElementsAre("request 5", "cancelled 5", "answered 4"));
  }
  EXPECT_EQ(seen.WaitForCount(4).back(), "closed");
  RawClient wrong(server.address());
  wrong.SayHello();
  wrong.Expect<Welcome>(FrameType::kWelcome);
  wrong.Send("garbage that is no frame");
  EXPECT_EQ(wrong.Expect<Farewell>(FrameType::kFarewell).reason, "protocol");
  wrong.ExpectClosed();
  EXPECT_EQ(seen.WaitForCount(5).back(), "given up");
  server.thread().Do([&] { held.clear(); });
}

TEST(Server, SharesOnePayloadAmongLinks) {
  const auto shared = std::make_shared<const std::string>(300'000, 'x');
  std::vector<Responder> held;
  Seen<int> seen;
  TestServer server([&](const Request&, Responder responder) {
    held.push_back(std::move(responder));
    seen.Add(1);
  });
  RawClient first(server.address());
  RawClient second(server.address());
  for (RawClient* client : {&first, &second}) {
    client->SayHello();
    client->Expect<Welcome>(FrameType::kWelcome);
    client->Send(Message{.type = FrameType::kRequest, .kind = 1, .id = 1});
  }
  seen.WaitForCount(2);
  server.thread().Do([&] {
    for (Responder& responder : held) responder.Send({.shared = shared});
    held.clear();
  });
  for (RawClient* client : {&first, &second}) {
    const auto message = client->Receive();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->payload, *shared);
  }
}

TEST(Server, Finding10_EmptyAnswersAreBoundedAsWell) {
  TestServer server([](const Request&, Responder responder) { responder.Answer(""); },
                    {.link = {.write_queue_bytes_max = 256 << 10}});
  RawClient client(server.address());
  client.SayHello();
  client.Expect<Welcome>(FrameType::kWelcome);
  // Never read: the kernel takes some megabytes, then the queue is full.
  std::string requests;
  for (uint64_t id = 1; id <= 1000; ++id) requests += EncodeMessage(RawRequest(id, ""));
  std::vector<std::string> lines;
  for (int round = 0; round < 1000 && lines.empty(); ++round) {
    client.Send(requests);
    lines = server.lines.Now();
  }
  EXPECT_THAT(server.lines.WaitForCount(1), Contains(HasSubstr("write_queue_bytes_max")));
}

TEST(Server, Finding10_WhoTakesNothingForLongLosesItsLink) {
  TestServer server(
      [](const Request&, Responder responder) { responder.Answer(std::string(16 << 20, 'x')); },
      {.link = {.ping_interval = absl::Milliseconds(20),
                .write_timeout = absl::Milliseconds(200)}});
  RawClient client(server.address());
  client.SayHello();
  client.Expect<Welcome>(FrameType::kWelcome);
  client.Send(RawRequest(1, ""));
  while (server.lines.Now().empty()) client.Send(Message{.type = FrameType::kPing});
  EXPECT_THAT(server.lines.Now(), Contains(HasSubstr("write_timeout")));
}

TEST(Server, Finding15_AMessageThatDoesNotGoOnEndsTheLink) {
  TestServer server(Echo, {.link = {.ping_interval = absl::Milliseconds(20),
                                    .message_timeout = absl::Milliseconds(200)}});
  RawClient client(server.address());
  client.SayHello();
  client.Expect<Welcome>(FrameType::kWelcome);
  const std::string bytes = EncodeMessage(RawRequest(1, std::string(1 << 20, 'x')));
  client.Send(std::string_view(bytes).substr(0, kFrameBytesMax));
  while (server.lines.Now().empty()) client.Send(Message{.type = FrameType::kPing});
  EXPECT_THAT(server.lines.Now(), Contains(HasSubstr("message_timeout")));
}

TEST(Server, Finding15_WhatThereIsNoMemoryForIsRefusedByName) {
  runtime::MemoryAccount memory(64 << 20);
  runtime::MemoryShare hog(&memory, "job 'hog'", "keys");
  TestServer server(Echo, {.memory = &memory});
  auto client = Connect(server.address());
  EXPECT_EQ(client->CallRaw(1, std::string(1 << 20, 'x'), kLong)->size(), size_t{1} << 20);
  hog.Set(60 << 20);
  const auto refused = client->CallRaw(1, std::string(1 << 20, 'x'), kLong);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(wire::native::ReasonOf(refused.status()), "memory_max");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("job 'hog'"));
  EXPECT_EQ(*client->CallRaw(1, "small", kLong), "small");
  hog.Set(0);
  EXPECT_EQ(client->CallRaw(1, std::string(1 << 20, 'x'), kLong)->size(), size_t{1} << 20);
  client.reset();
  server.Kill();
  // What the link was doing is cancelled, and lets go within a few turns of the loop.
  for (int turn = 0; turn < 1000 && memory.held() > 0; ++turn) server.thread().Do([] {});
  EXPECT_EQ(memory.held(), 0u);
}

TEST(Server, Finding17_OneHostDoesNotTakeAllPlaces) {
  TestServer server(Echo, {.connections_max = 100, .connections_per_host_max = 1});
  auto first = Connect(server.address());
  RawClient second(server.address());
  second.SayHello();
  const auto refused = second.Expect<Refused>(FrameType::kRefused);
  EXPECT_EQ(refused.reason, "connection_limit");
  EXPECT_THAT(refused.message, HasSubstr("connections_per_host_max"));
  second.ExpectClosed();
  EXPECT_EQ(*first->CallRaw(1, "serves on", kLong), "serves on");
}

TEST(Server, Finding17_WhoAsksForNothingGivesItsPlaceToWhoComes) {
  TestServer server(Echo, {.connections_max = 2, .first_request_timeout = absl::ZeroDuration()});
  const auto asks = Connect(server.address());
  EXPECT_EQ(*asks->CallRaw(1, "one", kLong), "one");
  RawClient idle(server.address());
  idle.SayHello();
  idle.Expect<Welcome>(FrameType::kWelcome);
  const auto newcomer = Connect(server.address());
  EXPECT_EQ(*newcomer->CallRaw(1, "two", kLong), "two");
  EXPECT_EQ(idle.Expect<Farewell>(FrameType::kFarewell).reason, "connection_limit");
  EXPECT_EQ(*asks->CallRaw(1, "three", kLong), "three");
  // Both have asked for something by now.
  RawClient last(server.address());
  last.SayHello();
  EXPECT_EQ(last.Expect<Refused>(FrameType::kRefused).reason, "connection_limit");
}

TEST(Server, Finding17_AllOfTheLoopbackInterfaceIsOneHost) {
  TestServer server(Echo, {.connections_per_host_max = 1});
  auto first = Connect(server.address());
  RawClient second(server.address(), "127.0.0.2");
  second.SayHello();
  EXPECT_EQ(second.Expect<Refused>(FrameType::kRefused).reason, "connection_limit");
}

TEST(Server, Finding17_TheLastPlacesAreForWhoGoesOnWithASession) {
  ServerEvents events;
  events.request = Echo;
  events.resumes = [](const Request& request) { return request.payload == "I was here"; };
  TestServer server(std::move(events), {.connections_max = 2, .connections_reserved = 1});
  auto first = Connect(server.address());
  EXPECT_EQ(*first->CallRaw(1, "new", kLong), "new");
  {
    RawClient stranger(server.address());
    stranger.SayHello();
    stranger.Expect<Welcome>(FrameType::kWelcome);
    stranger.Send(RawRequest(1, "new as well"));
    EXPECT_EQ(stranger.Expect<Refused>(FrameType::kRefused).reason, "connection_limit");
  }
  // The server notices the stranger's end before or after the next connection comes.
  while (true) {
    auto back = Client::Connect(server.address(), kLong, {});
    if (!back.ok()) continue;
    const auto answer = (*back)->CallRaw(1, "I was here", kLong);
    EXPECT_EQ(*answer, "I was here");
    break;
  }
}

TEST(Server, Finding17_WhoAskedOnceAndHoldsNothingGivesItsPlaceToWhoComes) {
  std::atomic<uint64_t> member = 0;
  std::vector<Responder> parked;
  ServerEvents events;
  events.request = [&](Request request, Responder responder) {
    if (request.payload == "a member") member = request.link.value();
    if (request.payload == "waits") return parked.push_back(std::move(responder));
    Echo(std::move(request), std::move(responder));
  };
  events.holds = [&](LinkId link) { return link.value() == member; };
  TestServer server(std::move(events),
                    {.connections_max = 3, .idle_timeout = absl::ZeroDuration()});
  const auto holder = Connect(server.address());
  EXPECT_EQ(*holder->CallRaw(1, "a member", kLong), "a member");
  RawClient waiter(server.address());
  waiter.SayHello();
  waiter.Expect<Welcome>(FrameType::kWelcome);
  waiter.Send(RawRequest(1, "waits"));
  const auto once = Connect(server.address());
  EXPECT_EQ(*once->CallRaw(1, "once", kLong), "once");
  const auto newcomer = Connect(server.address());
  EXPECT_EQ(*newcomer->CallRaw(1, "two", kLong), "two");
  EXPECT_EQ(*holder->CallRaw(1, "is there", kLong), "is there");
}

TEST(Server, Finding17_WhoTakesOneOfTheLastPlacesAsksInTimeOrGoes) {
  TestServer server(Echo, {.connections_max = 2,
                           .connections_reserved = 1,
                           .link = {.hello_timeout = absl::Milliseconds(700),
                                    .ping_interval = absl::Seconds(30)}});
  const auto first = Connect(server.address());
  EXPECT_EQ(*first->CallRaw(1, "new", kLong), "new");
  RawClient stranger(server.address());
  stranger.SayHello();
  stranger.Expect<Welcome>(FrameType::kWelcome);
  EXPECT_EQ(stranger.Expect<Farewell>(FrameType::kFarewell).reason, "connection_limit");
  EXPECT_EQ(*first->CallRaw(1, "serves on", kLong), "serves on");
}

TEST(Server, WhoSaysNothingMakesRoom) {
  TestServer server(Echo, {.greetings_max = 2});
  RawClient oldest(server.address());
  RawClient second(server.address());
  RawClient third(server.address());
  oldest.ExpectClosed();
  second.SayHello();
  second.Expect<Welcome>(FrameType::kWelcome);
}

TEST(Server, ServesOnAfterItRanOutOfDescriptors) {
  TestServer server(Echo, {.accept_retry = absl::Milliseconds(10)});
  const auto address = runtime::ParseAddress(server.address());
  ASSERT_EQ(::fcntl(0, F_GETFD) >= 0 || ::open("/dev/null", O_RDONLY) == 0, true);
  sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(address->port)};
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int client = -1;
  {
    AllDescriptors all;
    all.GiveOneBack();
    client = ::socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_GE(client, 0);
    // The kernel accepts for the server, which cannot.
    ASSERT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&where), sizeof(where)), 0);
    EXPECT_THAT(server.lines.WaitForCount(1),
                Contains(HasSubstr("connections refused: Too many open files")));
  }
  ::close(client);
  EXPECT_EQ(*Connect(server.address())->CallRaw(1, "serves on", kLong), "serves on");
}

}  // namespace
}  // namespace lockstep::link
