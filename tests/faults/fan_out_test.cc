// A server and the agents of 70 hosts, with real sockets: what goes through the tree arrives right,
// also where agents are gone, stand still, lie or cannot be reached.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "asio/ip/tcp.hpp"
#include "asio/read.hpp"
#include "asio/write.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/agent/stock_calls.h"
#include "lockstep/agent/value_wire.h"
#include "lockstep/client/typed.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/server/server.h"
#include "lockstep/testing/received_bytes.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::agent {
namespace {

using client::CallType;
using client::Engine;
using link::testing::LoopThread;
using link::testing::Seen;
using wire::native::StockCall;
using wire::native::StockCallReply;

constexpr size_t kAgents = 70;
constexpr size_t kRoots = 16;
constexpr size_t kValueBytes = size_t{200} << 10;
constexpr absl::Duration kLong = absl::Seconds(60);

// Messages of jaxlib's clients, by hand.
void AppendBytes(int field, std::string_view bytes, std::string& out) {
  out.push_back(static_cast<char>(field << 3 | 2));
  for (size_t size = bytes.size(); true; size >>= 7) {
    out.push_back(static_cast<char>(size < 0x80 ? size : (size & 0x7f) | 0x80));
    if (size < 0x80) break;
  }
  out += bytes;
}
void AppendFixed(int field, uint64_t number, std::string& out) {
  out.push_back(static_cast<char>(field << 3 | 1));
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(number >> (8 * i) & 0xff));
}

// Something that listens where an agent says that it does, and is none.
class Impostor {
 public:
  enum class Does { kNothing, kLies };

  explicit Impostor(Does does) : does_(does), acceptor_(io_, {asio::ip::tcp::v4(), 0}) {
    thread_ = std::thread([this] { Serve(); });
  }
  ~Impostor() {
    over_ = true;
    asio::ip::tcp::socket wakes(io_);
    asio::error_code error;
    wakes.connect({asio::ip::address_v4::loopback(), port()}, error);
    thread_.join();
  }
  uint16_t port() const { return acceptor_.local_endpoint().port(); }
  size_t asked() const { return asked_; }

 private:
  void Serve() {
    std::vector<asio::ip::tcp::socket> held;
    while (true) {
      held.push_back(acceptor_.accept());
      if (over_) return;
      ++asked_;
      if (does_ == Does::kNothing) continue;
      std::string ask(kAskBytes, '\0');
      asio::error_code error;
      asio::read(held.back(), asio::buffer(ask), error);
      asio::write(held.back(), asio::buffer(kAnswer + std::string(kValueBytes, 'x')), error);
    }
  }

  const Does does_;
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> over_ = false;
  std::atomic<size_t> asked_ = 0;
  std::thread thread_;
};

class FanOutTest : public ::testing::Test {
 protected:
  struct Agent {
    std::unique_ptr<StockCalls> calls;
    std::shared_ptr<Engine> engine;
  };
  using Replies = std::vector<std::pair<size_t, absl::StatusOr<StockCallReply>>>;

  ~FanOutTest() override {
    for (Agent& agent : agents_) agent.engine->Close();
    loop_.Do([this] { agents_.clear(); });
  }

  // `ports`: where some agents say that they can be reached, instead of where they can.
  void Start(std::vector<std::pair<size_t, uint16_t>> ports = {}) {
    server::ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    server::JobOptions job;
    job.name = "digits";
    job.size = kAgents;
    options.jobs = {job};
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    agents_.resize(kAgents);
    for (size_t i = 0; i < kAgents; ++i) {
      agents_[i].calls = loop_.Do([&] {
        auto calls = StockCalls::Listen(loop_.loop(), {.listen = {.host = "127.0.0.1", .port = 0}});
        EXPECT_TRUE(calls.ok()) << calls.status();
        return *std::move(calls);
      });
      uint16_t port = agents_[i].calls->port();
      for (const auto& [agent, instead] : ports) {
        if (agent == i) port = instead;
      }
      agents_[i].engine = Engine::Start({.servers = *link::Servers::Read(server_->listen_address()),
                                         .who = "test",
                                         .machine = {.job = "digits", .fan_out_port = port}});
      loop_.Do([&] { agents_[i].calls->Start(agents_[i].engine); });
      const auto opened =
          agents_[i].engine->Call({.type = CallType::kOpen, .timeout = kLong}, nullptr);
      ASSERT_TRUE(opened.ok()) << opened.status();
    }
    for (size_t i = 0; i < kAgents; ++i) {
      std::string registration;
      AppendFixed(3, 1000 + i, registration);
      registration.push_back(5 << 3);
      registration.push_back(static_cast<char>(i));
      Call(i, "RegisterTask", std::move(registration), registered_);
    }
    const Replies replies = registered_.WaitForCount(kAgents);
    for (const auto& [agent, reply] : replies) {
      ASSERT_TRUE(reply.ok()) << reply.status();
      ASSERT_EQ(reply->code, 0) << reply->message;
    }
    service_ = replies[0].second->answer.data.substr(1, 8);
  }

  std::function<void()> Call(size_t agent, const std::string& method, std::string request,
                             Seen<std::pair<size_t, absl::StatusOr<StockCallReply>>>& into,
                             absl::Duration timeout = absl::InfiniteDuration()) {
    const std::string name = absl::StrCat("/xla.coordination.CoordinationService/", method);
    const StockCall message = {.method = name, .request = {.view = request}, .connection = 1};
    return agents_[agent].calls->Call(
        {.kind = wire::native::KindOf<StockCall>::kKind,
         .type = method == "InsertKeyValue" ? CallType::kEffect : CallType::kWatch,
         .payload = wire::native::Encode(message),
         .timeout_field = client::TimeoutField<StockCall>(),
         .leave_server_a_margin = false,
         .timeout = timeout,
         .what = method},
        [agent, &into](absl::StatusOr<StockCallReply> reply) {
          into.Add({agent, std::move(reply)});
        });
  }
  std::string Begin(size_t agent) const {
    std::string who;
    AppendFixed(2, 1000 + agent, who);
    who.push_back(3 << 3 | 1);
    who += service_;
    std::string request;
    AppendBytes(1, who, request);
    return request;
  }
  std::function<void()> Get(size_t agent, std::string_view key,
                            absl::Duration timeout = absl::InfiniteDuration()) {
    std::string request = Begin(agent);
    AppendBytes(2, key, request);
    return Call(agent, "GetKeyValue", std::move(request), got_, timeout);
  }
  void Set(size_t agent, std::string_view key, std::string_view value) {
    std::string entry;
    AppendBytes(1, key, entry);
    AppendBytes(2, value, entry);
    std::string request = Begin(agent);
    AppendBytes(2, entry, request);
    Call(agent, "InsertKeyValue", std::move(request), set_);
  }
  // So many calls wait at the server.
  void AwaitWaits(int64_t count) {
    const Time end = runtime::MonotonicNow() + kLong;
    while (runtime::MonotonicNow() < end) {
      const auto status = server_->CurrentStatus();
      ASSERT_TRUE(status.ok());
      if (status->jobs.at(0).waits == count) return;
      std::this_thread::yield();
    }
    FAIL() << "not all calls came to the server";
  }
  // All agents but these wait for the key, some with two calls; then it is set. All must get it.
  void Release(std::string_view key, const std::vector<size_t>& absent = {}) {
    const size_t before = got_.Now().size();
    size_t calls = 0;
    for (size_t i = 0; i < kAgents; ++i) {
      if (std::find(absent.begin(), absent.end(), i) != absent.end()) continue;
      for (size_t n = 0; n < (i % 10 == 0 ? 2 : 1); ++n, ++calls) Get(i, key);
    }
    AwaitWaits(static_cast<int64_t>(calls));
    const std::string value = ValueOf(key);
    Set(kAgents - 1, key, value);
    const Replies replies = got_.WaitForCount(before + calls);
    ASSERT_EQ(replies.size(), before + calls);
    for (size_t i = before; i < replies.size(); ++i) ExpectValue(replies[i].second, value);
  }
  static std::string ValueOf(std::string_view key) {
    std::string value(kValueBytes, 'v');
    value.replace(0, key.size(), key);
    value[kValueBytes - 1] = 'e';
    return value;
  }
  static void ExpectValue(const absl::StatusOr<StockCallReply>& reply, const std::string& value) {
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->code, 0) << reply->message;
    const std::string bytes =
        absl::StrCat(reply->answer.data, std::string(reply->answer_rest.view()));
    ASSERT_GE(bytes.size(), value.size());
    // The entry's value is its last field.
    EXPECT_TRUE(bytes.compare(bytes.size() - value.size(), value.size(), value) == 0);
  }
  uint64_t BytesFromServer() const {
    return testing::BytesReceivedFrom(runtime::ParseAddress(server_->listen_address())->port);
  }

  LoopThread loop_;
  std::unique_ptr<server::Server> server_;
  std::vector<Agent> agents_;
  std::string service_;
  Seen<std::pair<size_t, absl::StatusOr<StockCallReply>>> registered_;
  Seen<std::pair<size_t, absl::StatusOr<StockCallReply>>> got_;
  Seen<std::pair<size_t, absl::StatusOr<StockCallReply>>> set_;
};

TEST_F(FanOutTest, TheServerSendsAValueToSixteenAgentsAndTheyPassItOn) {
  Start();
  const uint64_t before = BytesFromServer();
  Release("key");
  const uint64_t sent = BytesFromServer() - before;
  EXPECT_GE(sent, kRoots * kValueBytes);
  EXPECT_LE(sent, (kRoots + 1) * kValueBytes) << "who falls back costs one copy more";
}

TEST_F(FanOutTest, WhereAnAgentHasGoneItsChildrenAskTheServer) {
  Start();
  Release("first");
  // Its link stands, and nobody listens at its port any more.
  loop_.Do([this] {
    agents_[0].calls->Close();
    agents_[0].calls.reset();
  });
  const uint64_t before = BytesFromServer();
  const size_t had = got_.Now().size();
  size_t calls = 0;
  for (size_t i = 1; i < kAgents; ++i, ++calls) Get(i, "second");
  // It waits by a call that nobody takes the answer of, so that it is a root.
  std::string request = Begin(0);
  AppendBytes(2, "second", request);
  const StockCall message = {.method = "/xla.coordination.CoordinationService/GetKeyValue",
                             .request = {.view = request},
                             .connection = 1};
  agents_[0].engine->CallAsync({.kind = wire::native::KindOf<StockCall>::kKind,
                                .type = CallType::kWatch,
                                .payload = wire::native::Encode(message)},
                               [](Engine::Answer&&) {});
  AwaitWaits(static_cast<int64_t>(calls + 1));
  Set(kAgents - 1, "second", ValueOf("second"));
  const Replies replies = got_.WaitForCount(had + calls);
  ASSERT_EQ(replies.size(), had + calls);
  for (size_t i = had; i < replies.size(); ++i) ExpectValue(replies[i].second, ValueOf("second"));
  const uint64_t sent = BytesFromServer() - before;
  // Its eight children, and none of those behind them.
  EXPECT_GE(sent, kRoots * kValueBytes);
  EXPECT_LE(sent, (kRoots + 8 + 1) * kValueBytes);
  agents_[0].calls =
      loop_.Do([this] { return *StockCalls::Listen(loop_.loop(), {.takes_part = false}); });
}

TEST_F(FanOutTest, AnAgentThatAnswersNothingIsAskedNoMore) {
  Impostor stands_still(Impostor::Does::kNothing);
  Start({{3, stands_still.port()}});
  Release("key");
  EXPECT_GE(stands_still.asked(), 1u);
  // It is asked no more.
  const size_t asked = stands_still.asked();
  Release("next");
  EXPECT_EQ(stands_still.asked(), asked);
}

TEST_F(FanOutTest, WhatAnAgentChangedIsNotTaken) {
  Impostor lies(Impostor::Does::kLies);
  Start({{5, lies.port()}});
  Release("key");
  EXPECT_GE(lies.asked(), 1u);
}

TEST_F(FanOutTest, ValuesArriveWhereAgentsCannotBeReached) {
  uint16_t closed = 0;
  {
    asio::io_context io;
    closed = asio::ip::tcp::acceptor(io, {asio::ip::tcp::v4(), 0}).local_endpoint().port();
  }
  Start({{0, closed}, {1, closed}, {20, closed}});
  Release("key");
  Release("next");
}

TEST_F(FanOutTest, ACallerMayLeaveWhileTheAnswerIsElsewhere) {
  Impostor stands_still(Impostor::Does::kNothing);
  std::vector<std::pair<size_t, uint16_t>> ports;
  for (size_t i = 0; i < kAgents; ++i) ports.emplace_back(i, stands_still.port());
  Start(ports);
  std::function<void()> leave;
  for (size_t i = 0; i < kAgents; ++i) leave = Get(i, "key");
  AwaitWaits(kAgents);
  Set(0, "key", ValueOf("key"));
  // All but the roots ask it; the last one leaves meanwhile.
  const Time end = runtime::MonotonicNow() + kLong;
  while (stands_still.asked() < kAgents - kRoots && runtime::MonotonicNow() < end) {
    std::this_thread::yield();
  }
  leave();
  const Replies replies = got_.WaitForCount(kAgents);
  ASSERT_EQ(replies.size(), kAgents);
  size_t cancelled = 0;
  for (const auto& [agent, reply] : replies) {
    if (agent == kAgents - 1 && absl::IsCancelled(reply.status())) {
      ++cancelled;
      continue;
    }
    ExpectValue(reply, ValueOf("key"));
  }
  EXPECT_LE(cancelled, 1u);
}

TEST_F(FanOutTest, StrangersLearnNothingAtItsPort) {
  Start();
  asio::io_context io;
  const auto ask = [&](std::string_view request) {
    asio::ip::tcp::socket socket(io);
    socket.connect({asio::ip::address_v4::loopback(), agents_[0].calls->port()});
    asio::error_code error;
    asio::write(socket, asio::buffer(request.data(), request.size()), error);
    std::string answer(1, '\0');
    return asio::read(socket, asio::buffer(answer), error);
  };
  EXPECT_EQ(ask(EncodeAsk(std::string(kTicketBytes, 'g'))), 0u);
  EXPECT_EQ(ask("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"), 0u);
  EXPECT_EQ(ask(""), 0u) << "who says nothing is closed";
  // More connections than it takes: the last ones are closed, and none harms the others.
  std::vector<asio::ip::tcp::socket> many;
  for (int i = 0; i < 200; ++i) {
    many.emplace_back(io).connect({asio::ip::address_v4::loopback(), agents_[0].calls->port()});
  }
  Release("key");
}

}  // namespace
}  // namespace lockstep::agent
