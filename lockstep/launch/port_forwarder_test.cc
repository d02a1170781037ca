#include "lockstep/launch/port_forwarder.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/buffer.hpp"
#include "asio/read.hpp"
#include "asio/write.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::launch {
namespace {

using asio::ip::tcp;
using link::FrameType;
using link::testing::LoopThread;
using link::testing::Seen;
using link::testing::TestServer;
using wire::native::OpenTunnel;
using wire::native::StockService;

// A server whose tunnels lead to somebody who says everything again.
class EchoServer {
 public:
  explicit EchoServer(const std::string& listen) {
    link::ServerEvents events;
    events.request = [this](const link::Request& request, link::Responder responder) {
      const auto asked = wire::native::Decode<OpenTunnel>(request.payload);
      ASSERT_TRUE(asked.ok());
      asked_.Add(*asked);
      if (asked->attempt < 0) {
        return responder.Fail(wire::native::WithReason(
            absl::FailedPreconditionError("a later attempt has begun"), "attempt_over"));
      }
      responder.Answer("");
    };
    events.tunnel = [this](link::LinkId link, link::Message frame) {
      if (frame.type == FrameType::kTunnelData) {
        const auto taken = static_cast<uint32_t>(frame.payload.size());
        server_->server().Send(link,
                               {.type = FrameType::kTunnelCredit, .kind = taken, .id = frame.id});
      }
      if (frame.type == FrameType::kTunnelCredit) return;
      server_->server().Send(link, std::move(frame));
    };
    server_ =
        std::make_unique<TestServer>(std::move(events), link::Server::Options{.listen = listen});
  }

  std::string address() const { return server_->address(); }
  Seen<OpenTunnel>& asked() { return asked_; }
  void Kill() { server_->Kill(); }

 private:
  Seen<OpenTunnel> asked_;
  std::unique_ptr<TestServer> server_;
};

class PortForwarderTest : public testing::Test {
 protected:
  ~PortForwarderTest() override {
    thread_.Do([this] { forwarder_.reset(); });
  }

  // Where stock clients find the service.
  std::string Forward(const std::string& server, StockService service, int64_t attempt) {
    return thread_.Do([&] {
      if (!forwarder_) {
        forwarder_.emplace(thread_.loop(), server, "digits",
                           [this](std::string text) { said_.Add(std::move(text)); });
      }
      const auto address = forwarder_->Forward(service, attempt);
      EXPECT_TRUE(address.ok()) << address.status();
      return address.value_or("");
    });
  }

  tcp::socket Call(const std::string& address) {
    const auto at = runtime::ParseAddress(address);
    tcp::socket socket(io_);
    socket.connect({asio::ip::make_address(at->host), at->port});
    return socket;
  }
  // Whether what is said there comes back.
  static void ExpectEcho(tcp::socket& socket) {
    asio::write(socket, asio::buffer("hello", 5));
    std::string back(5, '\0');
    asio::error_code error;
    asio::read(socket, asio::buffer(back), error);
    EXPECT_EQ(back, "hello") << error.message();
  }
  static asio::error_code ReadError(tcp::socket& socket) {
    char byte = 0;
    asio::error_code error;
    asio::read(socket, asio::buffer(&byte, 1), error);
    return error;
  }

  Seen<std::string> said_;
  asio::io_context io_;
  LoopThread thread_;
  std::optional<PortForwarder> forwarder_;
};

TEST(NeedsForwarding, OnlyForWhatAnotherHostKeepsToItself) {
  EXPECT_TRUE(NeedsForwarding("127.0.0.1:4000", "10.0.0.1:7070"));
  EXPECT_TRUE(NeedsForwarding("127.0.0.1:4000", "lockstep://head:7070/digits"));
  EXPECT_TRUE(NeedsForwarding("[::1]:4000", "[fd00::1]:7070"));
  EXPECT_FALSE(NeedsForwarding("127.0.0.1:4000", "127.0.0.1:7070"));
  EXPECT_FALSE(NeedsForwarding("127.0.0.1:4000", "localhost:7070"));
  EXPECT_FALSE(NeedsForwarding("10.0.0.1:4000", "10.0.0.1:7070"));
  EXPECT_FALSE(NeedsForwarding("", "10.0.0.1:7070"));
  EXPECT_TRUE(NeedsForwarding("127.0.0.1:4000", "127.0.0.1:7070,10.0.0.1:7070"));
  EXPECT_FALSE(NeedsForwarding("127.0.0.1:4000", "127.0.0.1:7070,127.0.0.1:7071"));
}

TEST_F(PortForwarderTest, CarriesConnectionsAndSaysWhatFor) {
  EchoServer server("127.0.0.1:0");
  tcp::socket one = Call(Forward(server.address(), StockService::kCoordination, 0));
  tcp::socket two = Call(Forward(server.address(), StockService::kTorchStore, 3));
  ExpectEcho(one);
  ExpectEcho(two);
  const auto asked = server.asked().Now();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_THAT(asked,
              testing::UnorderedElementsAre(
                  OpenTunnel{.job = "digits", .service = StockService::kCoordination},
                  OpenTunnel{.job = "digits", .service = StockService::kTorchStore, .attempt = 3}));
  one.shutdown(tcp::socket::shutdown_send);
  EXPECT_EQ(ReadError(one), asio::error::eof);
  ExpectEcho(two);
}

TEST_F(PortForwarderTest, ARefusedConnectionIsReset) {
  EchoServer server("127.0.0.1:0");
  tcp::socket one = Call(Forward(server.address(), StockService::kTorchStore, -1));
  EXPECT_EQ(ReadError(one), asio::error::connection_reset);
  const auto said = said_.WaitForCount(1);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], testing::HasSubstr("a later attempt has begun"));
}

TEST_F(PortForwarderTest, ConnectionsBreakWithTheLinkAndNewOnesWaitForTheServer) {
  auto server = std::make_unique<EchoServer>("127.0.0.1:0");
  const std::string at = server->address();
  const std::string address = Forward(at, StockService::kCoordination, 0);
  tcp::socket before = Call(address);
  ExpectEcho(before);
  server->Kill();
  EXPECT_EQ(ReadError(before), asio::error::connection_reset);
  tcp::socket after = Call(address);
  EXPECT_THAT(said_.WaitForCount(1)[0], testing::HasSubstr("1 connections of stock clients broke"));
  server = std::make_unique<EchoServer>(at);
  ExpectEcho(after);
}

TEST_F(PortForwarderTest, NewConnectionsGoToTheServerThatComesToLead) {
  EchoServer second("127.0.0.1:0");
  auto first = std::make_unique<EchoServer>("127.0.0.1:0");
  const std::string address =
      Forward(first->address() + "," + second.address(), StockService::kCoordination, 0);
  tcp::socket before = Call(address);
  ExpectEcho(before);
  first->Kill();
  EXPECT_EQ(ReadError(before), asio::error::connection_reset);
  tcp::socket after = Call(address);
  ExpectEcho(after);
  EXPECT_EQ(second.asked().Now().size(), 1u);
}

TEST_F(PortForwarderTest, ANewAttemptHasAnotherAddress) {
  EchoServer server("127.0.0.1:0");
  const std::string first = Forward(server.address(), StockService::kTorchStore, 1);
  tcp::socket one = Call(first);
  ExpectEcho(one);
  const std::string second = Forward(server.address(), StockService::kTorchStore, 2);
  EXPECT_NE(first, second);
  EXPECT_THROW(Call(first), std::system_error);
  tcp::socket two = Call(second);
  ExpectEcho(two);
  ExpectEcho(one);  // its own attempt ends it, at the server
}

}  // namespace
}  // namespace lockstep::launch
