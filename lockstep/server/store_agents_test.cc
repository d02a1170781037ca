// Commands of torch's clients that agents pass on, in sessions that outlive links and servers.
#include <unistd.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/server/server.h"
#include "lockstep/server/torch_client.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;
using wire::native::OpenStore;
using wire::native::StatusRequest;
using wire::native::StoreStatus;
using wire::native::TorchCommand;
using wire::native::TorchCommandReply;

constexpr absl::Duration kPatience = absl::Seconds(60);

std::string BarrierBytes(const std::string& key, int64_t size) {
  return "\x12" + Text(key) + Number(size);
}

// A session of an agent, with a link at a time.
class Agent {
 public:
  Agent(const Server& server, char name) : session_(16, name) { Connect(server, false); }

  // On a new link; the old one, if it is there, is given up.
  void Connect(const Server& server, bool resume) {
    auto link = link::Client::Connect(server.listen_address(), kPatience, {});
    ASSERT_TRUE(link.ok()) << link.status();
    const wire::native::OpenSession open = {
        .session = {session_}, .job = "digits", .resume = resume};
    const auto opened = (*link)->Call(open, kPatience);
    ASSERT_TRUE(opened.ok()) << opened.status();
    link_ = *std::move(link);
  }
  void Close() { EXPECT_TRUE(link_->Call(wire::native::CloseSession{}, kPatience).ok()); }
  absl::StatusOr<TorchCommandReply> Try(uint64_t connection, uint64_t number,
                                        const std::string& bytes, int64_t attempt = 0,
                                        uint64_t after = 0) {
    const TorchCommand command = {.attempt = attempt,
                                  .connection = connection,
                                  .number = number,
                                  .after = after,
                                  .command = {.view = bytes}};
    return link_->Call(command, kPatience);
  }
  std::string Ask(uint64_t connection, uint64_t number, const std::string& bytes) {
    const auto reply = Try(connection, number, bytes);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() && reply->answer.data ? *reply->answer.data : "";
  }

 private:
  const std::string session_;
  std::unique_ptr<link::Client> link_;
};

class StoreAgentsTest : public testing::Test {
 protected:
  StoreAgentsTest() {
    char path[] = "/tmp/lockstep-agents-XXXXXX";
    directory_ = mkdtemp(path);
    Serve();
  }
  ~StoreAgentsTest() override {
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  void Serve(bool durable = true) {
    native_.reset();
    server_.reset();
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = {{.name = "digits", .size = 4}};
    options.state_directory = directory_;
    options.stores.store.keeps = durable;
    auto server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = link::Client::Connect(server_->listen_address(), kPatience, {});
    ASSERT_TRUE(client.ok()) << client.status();
    native_ = *std::move(client);
  }
  StoreStatus Status() {
    const auto reply = native_->Call(StatusRequest{.job = "digits"}, kPatience);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply->jobs.at(0).torch_store.value_or(StoreStatus{});
  }

  std::string directory_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<link::Client> native_;
};

TEST_F(StoreAgentsTest, CommandsAreAnsweredAsOnAConnection) {
  Agent agent(*server_, 'a');
  EXPECT_EQ(agent.Ask(1, 1, SetBytes("/a", "x")), "");
  EXPECT_EQ(agent.Ask(1, 2, GetBytes("/a")), Text("x"));
  EXPECT_EQ(agent.Ask(2, 1, AddBytes("/n", 5)), Number(5));
  EXPECT_EQ(agent.Ask(1, 3, WaitBytes("/n")), std::string(1, '\0'));
  EXPECT_EQ(Status().connections, 2);
  // And the store is the one of those who are connected.
  TorchClient direct(native_->Call(OpenStore{.job = "digits"}, kPatience)->store);
  direct.Send(AddBytes("/n", 1));
  EXPECT_EQ(direct.Receive(8), Number(6));
  EXPECT_EQ(agent.Ask(1, 0, ""), "");
  while (Status().connections > 2) std::this_thread::yield();
}

TEST_F(StoreAgentsTest, AWaitIsAnsweredWhenTheKeyComes) {
  Agent waits(*server_, 'a');
  Agent sets(*server_, 'b');
  auto waited = std::async([&] { return waits.Ask(1, 1, WaitBytes("/a")); });
  while (Status().waits == 0) std::this_thread::yield();
  sets.Ask(1, 1, SetBytes("/a"));
  EXPECT_EQ(waited.get(), std::string(1, '\0'));
}

TEST_F(StoreAgentsTest, ACommandThatComesAgainTakesEffectOnce) {
  Agent agent(*server_, 'a');
  EXPECT_EQ(agent.Ask(1, 1, AddBytes("/n", 1)), Number(1));
  EXPECT_EQ(agent.Ask(1, 1, AddBytes("/n", 1)), Number(1));
  agent.Ask(1, 2, PushBytes("/q", "first"));
  agent.Ask(1, 3, PushBytes("/q", "second"));
  agent.Ask(1, 2, PushBytes("/q", "first"));
  EXPECT_EQ(agent.Ask(1, 4, PopBytes("/q")), Number(2) + Text("first"));
  agent.Connect(*server_, /*resume=*/true);
  EXPECT_EQ(agent.Ask(1, 4, PopBytes("/q")), Number(2) + Text("first"));
  EXPECT_EQ(agent.Ask(1, 5, PopBytes("/q")), Number(1) + Text("second"));

  Serve();
  agent.Connect(*server_, /*resume=*/true);
  EXPECT_EQ(agent.Ask(1, 5, PopBytes("/q")), Number(1) + Text("second"));
  EXPECT_EQ(agent.Ask(1, 6, AddBytes("/n", 1)), Number(2));
  // Of another connection, or of another agent, it is another command.
  EXPECT_EQ(agent.Ask(2, 1, AddBytes("/n", 1)), Number(3));
  EXPECT_EQ(Agent(*server_, 'b').Ask(1, 6, AddBytes("/n", 1)), Number(4));
}

TEST_F(StoreAgentsTest, WhoStandsAtABarrierIsCountedOnceOverARestart) {
  Agent one(*server_, 'a');
  auto first = std::async([&] { return one.Try(1, 1, BarrierBytes("/b", 2)).status(); });
  while (Status().waits == 0) std::this_thread::yield();
  Serve();
  EXPECT_FALSE(first.get().ok());
  one.Connect(*server_, /*resume=*/true);
  auto again = std::async([&] { return one.Ask(1, 1, BarrierBytes("/b", 2)); });
  while (Status().waits == 0) std::this_thread::yield();
  Agent two(*server_, 'b');
  EXPECT_EQ(two.Ask(1, 1, GetBytes("/b")), Text("1"));
  EXPECT_EQ(two.Ask(1, 2, BarrierBytes("/b", 2)), std::string(1, '\0'));
  EXPECT_EQ(again.get(), std::string(1, '\0'));
}

TEST_F(StoreAgentsTest, AWaitGoesOnWhileItsAgentIsAway) {
  Agent waits(*server_, 'a');
  auto waited = std::async([&] { return waits.Try(1, 1, WaitBytes("/a")).status(); });
  while (Status().waits == 0) std::this_thread::yield();
  // A newer link of the same session takes it over.
  Agent newer(*server_, 'a');
  EXPECT_FALSE(waited.get().ok());
  EXPECT_EQ(Status().waits, 1);
  auto again = std::async([&] { return newer.Ask(1, 1, WaitBytes("/a")); });
  Agent(*server_, 'b').Ask(1, 1, SetBytes("/a"));
  EXPECT_EQ(again.get(), std::string(1, '\0'));
}

TEST_F(StoreAgentsTest, AWaitThatAnotherCommandFollowsWasTakenBack) {
  Agent waits(*server_, 'a');
  auto waited = std::async([&] { return waits.Try(1, 1, WaitBytes("/a")).status(); });
  while (Status().waits == 0) std::this_thread::yield();
  Agent newer(*server_, 'a');
  EXPECT_FALSE(waited.get().ok());
  EXPECT_EQ(newer.Ask(1, 2, GetBytes("/b")), Text(""));
  EXPECT_EQ(Status().waits, 0);
}

TEST_F(StoreAgentsTest, ABarrierThatOpenedMeanwhileIsNotWaitedForAgain) {
  Agent one(*server_, 'a');
  auto first = std::async([&] { return one.Try(1, 1, BarrierBytes("/b", 2)).status(); });
  while (Status().waits == 0) std::this_thread::yield();
  Agent newer(*server_, 'a');
  EXPECT_FALSE(first.get().ok());
  Agent two(*server_, 'b');
  EXPECT_EQ(two.Ask(1, 1, BarrierBytes("/b", 2)), std::string(1, '\0'));
  EXPECT_EQ(two.Ask(1, 2, "\x08" + Text("/b")), Number(1)) << "nobody counts any more";
  EXPECT_EQ(newer.Ask(1, 1, BarrierBytes("/b", 2)), std::string(1, '\0'));
  Serve();
  newer.Connect(*server_, /*resume=*/true);
  EXPECT_EQ(newer.Ask(1, 1, BarrierBytes("/b", 2)), std::string(1, '\0'));
}

TEST_F(StoreAgentsTest, WaitsOfALinkThatEndsMayWakeEachOther) {
  Agent agent(*server_, 'a');
  auto one = std::async([&] { return agent.Try(1, 1, WaitBytes("/q")).status(); });
  while (Status().waits < 1) std::this_thread::yield();
  Agent other(*server_, 'b');
  auto two = std::async([&] { return other.Try(1, 1, WaitBytes("/q")).status(); });
  while (Status().waits < 2) std::this_thread::yield();
  agent.Ask(2, 1, PushBytes("/q", "x"));
  EXPECT_TRUE(one.get().ok());
  agent.Close();  // it was woken, and takes nothing
  EXPECT_TRUE(two.get().ok());
}

TEST_F(StoreAgentsTest, ConnectionsGoWithTheirSession) {
  Agent agent(*server_, 'a');
  agent.Ask(1, 1, SetBytes("/a"));
  agent.Ask(2, 1, GetBytes("/a"));
  EXPECT_EQ(Status().connections, 2);
  agent.Close();
  while (Status().connections > 0) std::this_thread::yield();
  Serve();
  EXPECT_EQ(Status().keys, 1);
  EXPECT_EQ(Status().connections, 0);
}

TEST_F(StoreAgentsTest, ARefusedCommandEndsItsConnectionAlone) {
  Agent agent(*server_, 'a');
  agent.Ask(1, 1, SetBytes("/text", "x"));
  const auto refused = agent.Try(1, 2, AddBytes("/text", 1));
  EXPECT_EQ(wire::native::ReasonOf(refused.status()), "invalid_argument");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("whose value is not a number"));
  EXPECT_EQ(agent.Ask(2, 1, GetBytes("/text")), Text("x"));
  EXPECT_EQ(Status().connections, 1);
  // What was on its way behind it has no effect.
  EXPECT_EQ(wire::native::ReasonOf(agent.Try(1, 3, SetBytes("/late")).status()),
            "invalid_argument");
  EXPECT_EQ(agent.Ask(2, 2, GetBytes("/late")), Text(""));
  agent.Ask(1, 0, "");
}

TEST_F(StoreAgentsTest, BytesThatAreNotOneCommandAreRefused) {
  Agent agent(*server_, 'a');
  const std::vector<std::string> wrong = {GetBytes("/a").substr(0, 8),
                                          GetBytes("/a") + "\x07",
                                          "\x63",
                                          TorchClient::kHello,
                                          GetBytes("/a") + "\x03",
                                          "\x0c" /* agents take waits back themselves */};
  uint64_t connection = 0;
  for (const std::string& bytes : wrong) {
    const absl::Status refused = agent.Try(++connection, 1, bytes).status();
    EXPECT_EQ(wire::native::ReasonOf(refused), "invalid_argument") << refused;
  }
  const std::string long_one(tcpstore::PassedConnections::kBytesMax, 'x');
  EXPECT_THAT(std::string(agent.Try(++connection, 1, SetBytes("/a", long_one)).status().message()),
              HasSubstr("passed_bytes_max"));
  EXPECT_EQ(agent.Ask(++connection, 1, GetBytes("/a")), Text(""));
}

TEST_F(StoreAgentsTest, CommandsOutOfOrderAreRefused) {
  Agent agent(*server_, 'a');
  EXPECT_THAT(std::string(agent.Try(1, 2, SetBytes("/b"), 0, /*after=*/1).status().message()),
              HasSubstr("out of order"));
  EXPECT_EQ(wire::native::ReasonOf(agent.Try(2, 0, GetBytes("/b")).status()), "invalid_argument");
}

TEST_F(StoreAgentsTest, AnAttemptThatIsOverIsRefused) {
  Agent agent(*server_, 'a');
  auto waited = std::async([&] { return agent.Try(1, 1, WaitBytes("/a")); });
  while (Status().waits == 0) std::this_thread::yield();
  ASSERT_TRUE(native_->Call(OpenStore{.job = "digits", .attempt = 2}, kPatience).ok());
  EXPECT_EQ(wire::native::ReasonOf(waited.get().status()), "attempt_over");
  EXPECT_EQ(wire::native::ReasonOf(agent.Try(1, 2, GetBytes("/a"), 1).status()), "attempt_over");
  const auto next = agent.Try(2, 1, GetBytes("/a"));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->attempt, 2);
}

TEST_F(StoreAgentsTest, AStoreThatIsNotDurableIsOverWithItsServer) {
  Serve(/*durable=*/false);
  Agent agent(*server_, 'a');
  const auto before = agent.Try(1, 1, AddBytes("/n", 1));
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(agent.Ask(1, 1, AddBytes("/n", 1)), Number(1));
  Serve(/*durable=*/false);
  agent.Connect(*server_, /*resume=*/true);
  EXPECT_EQ(wire::native::ReasonOf(agent.Try(1, 1, AddBytes("/n", 1), before->attempt).status()),
            "attempt_over");
}

TEST_F(StoreAgentsTest, ALongListIsAnswered) {
  Agent agent(*server_, 'a');
  constexpr int64_t kKeys = 5000;
  std::string sets = "\x0b" + Number(kKeys);
  std::string names = Number(kKeys);
  for (int64_t i = 0; i < kKeys; ++i) {
    const std::string key = absl::StrCat("/", 100'000 + i);
    sets += Text(key) + Text("");
    names += Text(key);
  }
  agent.Ask(1, 1, sets);
  EXPECT_TRUE(agent.Ask(1, 2, "\x11") == names);
}

}  // namespace
}  // namespace lockstep::server
