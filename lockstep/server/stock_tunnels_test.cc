// Tunnels to the services of stock clients at a whole server.
#include "lockstep/server/stock_tunnels.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/server/server.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using link::FrameType;
using link::Message;
using wire::native::OpenTunnel;
using wire::native::StockService;

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr uint64_t kId = 5;

class StockTunnelsTest : public testing::Test {
 protected:
  StockTunnelsTest() {
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = {{.name = "digits", .size = 2}};
    auto server = Server::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~StockTunnelsTest() override { server_->Stop(); }

  // The reason for which it is not opened.
  std::string Refused(const OpenTunnel& asked) {
    auto client = link::Client::Connect(server_->listen_address(), kPatience, {});
    EXPECT_TRUE(client.ok()) << client.status();
    const auto reply = (*client)->Call(asked, kPatience);
    return reply.ok() ? "" : wire::native::ReasonOf(reply.status());
  }

  std::unique_ptr<link::testing::RawClient> Welcomed() {
    auto client = std::make_unique<link::testing::RawClient>(server_->listen_address());
    client->SayHello();
    client->Expect<wire::native::Welcome>(FrameType::kWelcome);
    return client;
  }
  static void Ask(link::testing::RawClient& client, uint64_t id = kId) {
    client.Send(Message{.type = FrameType::kRequest,
                        .must_understand = true,
                        .kind = link::KindOf<OpenTunnel>::kKind,
                        .id = id,
                        .payload = wire::native::Encode(
                            OpenTunnel{.job = "digits", .service = StockService::kTorchStore})});
  }
  static void Send(link::testing::RawClient& client, std::string bytes) {
    client.Send(Message{.type = FrameType::kTunnelData, .id = kId, .payload = std::move(bytes)});
  }

  std::unique_ptr<Server> server_;
};

// As torch says it: VALIDATE with its magic number, then PING with a number that comes back.
std::string Ping(uint32_t number) {
  constexpr char kValidate = 0;
  constexpr char kPing = 13;
  constexpr uint32_t kMagic = 0x3C85F7CE;
  std::string bytes(10, '\0');
  bytes[0] = kValidate;
  std::memcpy(&bytes[1], &kMagic, sizeof(kMagic));
  bytes[5] = kPing;
  std::memcpy(&bytes[6], &number, sizeof(number));
  return bytes;
}

TEST_F(StockTunnelsTest, LeadsToTheStore) {
  const auto client = Welcomed();
  Ask(*client);
  client->Expect<wire::native::OpenTunnelReply>(FrameType::kAnswer);
  Send(*client, Ping(4711));
  std::string answer;
  while (answer.size() < sizeof(uint32_t)) {
    const auto frame = client->Receive();
    ASSERT_TRUE(frame.has_value());
    if (frame->type == FrameType::kTunnelCredit) continue;
    ASSERT_EQ(frame->type, FrameType::kTunnelData);
    ASSERT_EQ(frame->id, kId);
    answer += frame->payload;
  }
  uint32_t number = 0;
  std::memcpy(&number, answer.data(), sizeof(number));
  EXPECT_EQ(number, 4711u);
  // Its end ends the store's connection, of which we hear.
  client->Send(Message{.type = FrameType::kTunnelEnd, .id = kId});
  std::optional<Message> frame;
  do {
    frame = client->Receive();
    ASSERT_TRUE(frame.has_value());
  } while (frame->type == FrameType::kTunnelCredit);
  EXPECT_EQ(frame->type, FrameType::kTunnelEnd);
}

TEST_F(StockTunnelsTest, SaysWhyNot) {
  EXPECT_EQ(Refused({.job = "none", .service = StockService::kTorchStore}), "unknown_job");
  EXPECT_EQ(Refused({.job = "digits"}), "no_stock_service");
  EXPECT_EQ(Refused({.job = "digits", .service = StockService::kTorchStore, .attempt = 77}),
            "attempt_over");
  EXPECT_EQ(Refused({.job = "digits", .service = StockService::kCoordination}), "");
}

TEST_F(StockTunnelsTest, ALinkThatBreaksTheRulesIsClosed) {
  const auto client = Welcomed();
  Ask(*client);
  client->Expect<wire::native::OpenTunnelReply>(FrameType::kAnswer);
  // Credit for what was never sent.
  client->Send(Message{.type = FrameType::kTunnelCredit, .kind = 1, .id = kId});
  const auto last = client->Receive();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->type, FrameType::kFarewell);
  client->ExpectClosed();
}

TEST_F(StockTunnelsTest, FramesOfATunnelThatIsNoneAreIgnored) {
  const auto client = Welcomed();
  Send(*client, "nobody asked");
  Ask(*client, kId + 1);
  client->Expect<wire::native::OpenTunnelReply>(FrameType::kAnswer);
}

}  // namespace
}  // namespace lockstep::server
