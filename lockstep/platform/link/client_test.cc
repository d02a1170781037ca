#include "lockstep/platform/link/client.h"

#include <optional>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/native_service.h"
#include "lockstep/platform/link/refusals.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::link {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kLong;
using testing::Seen;
using ::testing::StartsWith;
using testing::TestServer;
using wire::native::ProcessReport;
using wire::native::StatusReply;
using wire::native::StatusRequest;

// A listening socket on which nobody accepts, or on which a test answers by hand.
class DeafServer {
 public:
  DeafServer() : acceptor_(*runtime::Listen(io_, {.host = "127.0.0.1", .port = 0})) {}
  std::string address() const { return runtime::ToString(acceptor_.local_endpoint()); }
  asio::ip::tcp::socket Accept() { return acceptor_.accept(); }

 private:
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
};

absl::Status ConnectError(const std::string& address, absl::Duration timeout = kLong) {
  return Client::Connect(address, timeout, {}).status();
}

TEST(Client, SaysThatNobodyListens) {
  std::string address;
  { address = DeafServer().address(); }
  const absl::Status status = ConnectError(address);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "cannot connect to " + address + ": Connection refused");
}

TEST(Client, SaysWhatIsWrongWithAnAddress) {
  EXPECT_EQ(ConnectError("nonsense").code(), absl::StatusCode::kInvalidArgument);
}

TEST(Client, GivesUpAServerThatDoesNotWelcomeIt) {
  DeafServer server;
  const absl::Status status = ConnectError(server.address(), absl::Milliseconds(50));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              StartsWith(server.address() + " did not welcome us within 50ms: "));
}

TEST(Client, SaysThatTheOtherSideIsNoServerOfOurs) {
  DeafServer server;
  std::thread http([&] {
    auto socket = server.Accept();
    asio::error_code ignored;
    asio::write(socket, asio::buffer("HTTP/1.1 400 Bad Request\r\n\r\n", 28), ignored);
  });
  const absl::Status status = ConnectError(server.address());
  http.join();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("who listens at " + server.address()),
                    HasSubstr("not a frame of the link"), HasSubstr("--listen")));
}

TEST(Client, TellsWhyItWasRefused) {
  TestServer server([](const Request&, Responder responder) { responder.Answer(""); },
                    {.connections_max = 0});
  const absl::Status status = ConnectError(server.address());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(wire::native::ReasonOf(status), "connection_limit");
  EXPECT_THAT(std::string(status.message()), HasSubstr("connections_max"));
}

TEST(Client, IsUnavailableToItselfWhereTheServerCannotDecide) {
  for (const char* reason : {"token_review_failed", "token_reviews_full"}) {
    TestServer server([](const Request&, Responder responder) { responder.Answer(""); },
                      {.admit = [&](LinkId, const Greeting&) -> std::optional<Verdict> {
                        return wire::native::WithReason(absl::UnavailableError("later"), reason);
                      }});
    const absl::Status status = ConnectError(server.address());
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(wire::native::ReasonOf(status), reason);
    EXPECT_FALSE(IsHopeless(status));
  }
  EXPECT_TRUE(IsHopeless(
      wire::native::WithReason(absl::FailedPreconditionError("no"), "token_account_unknown")));
}

TEST(Client, TellsThatTheServerDiedWhileARequestWaited) {
  std::optional<Responder> held;
  Seen<bool> asked;
  TestServer server([&](const Request&, Responder responder) {
    held.emplace(std::move(responder));
    asked.Add(true);
  });
  auto client = Client::Connect(server.address(), kLong, {});
  ASSERT_TRUE(client.ok()) << client.status();
  std::thread killer([&] {
    asked.WaitForCount(1);
    server.Kill();
  });
  const absl::Status status = (*client)->CallRaw(1, "", kLong).status();
  killer.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(server.address()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("may or may not have taken effect"));
  EXPECT_EQ((*client)->CallRaw(1, "", kLong).status().code(), absl::StatusCode::kUnavailable);
  server.thread().Do([&] { held.reset(); });
}

TEST(Client, StopsWaitingAtItsDeadlineAndGoesOn) {
  std::optional<Responder> held;
  TestServer server([&](Request request, Responder responder) {
    if (request.payload == "hold") {
      held.emplace(std::move(responder));
    } else {
      held->Answer("too late");
      responder.Answer(std::move(request.payload));
    }
  });
  auto client = *Client::Connect(server.address(), kLong, {});
  const absl::Status status = client->CallRaw(1, "hold", absl::Milliseconds(30)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), server.address() + " did not answer within 30ms");
  EXPECT_EQ(*client->CallRaw(1, "next", kLong), "next");
}

TEST(Client, DoesNotSendWhatNoServerTakes) {
  TestServer server([](const Request&, Responder responder) { responder.Answer(""); });
  auto client = *Client::Connect(server.address(), kLong, {.link = {.message_bytes_max = 10}});
  EXPECT_EQ(client->CallRaw(1, "12345678901", kLong).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(client->CallRaw(1, "1234567890", kLong).ok());
}

NativeService TestService() {
  return {.status = [](const StatusRequest& request) -> absl::StatusOr<StatusReply> {
            if (request.job == "none") return absl::NotFoundError("no job 'none'");
            return StatusReply{.server = {.pid = 4}, .jobs = {{.job = "digits"}}};
          },
          .report =
              [](const ProcessReport& report, const Rights&) {
                return report.pid == 0 ? absl::InvalidArgumentError("no pid") : absl::OkStatus();
              }};
}

TEST(NativeService, TurnsMessagesIntoCalls) {
  TestServer server(MakeHandler(TestService()));
  auto client = *Client::Connect(server.address(), kLong, {});
  auto status = client->Call(StatusRequest{}, kLong);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(*status, (StatusReply{.server = {.pid = 4}, .jobs = {{.job = "digits"}}}));
  EXPECT_EQ(client->Call(StatusRequest{.job = "none"}, kLong).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(client->Call(ProcessReport{.pid = 5}, kLong).ok());
  EXPECT_EQ(client->Call(ProcessReport{}, kLong).status().message(), "no pid");
}

TEST(NativeService, RefusesWhatItCannotRead) {
  TestServer server(MakeHandler(TestService()));
  auto client = *Client::Connect(server.address(), kLong, {});
  const absl::Status garbage =
      client->CallRaw(KindOf<StatusRequest>::kKind, "\xFF\xFF", kLong).status();
  EXPECT_EQ(garbage.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(garbage.message()), HasSubstr("cannot decode lockstep.v1.StatusRequest"));
  const absl::Status unknown = client->CallRaw(999, "", kLong).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(wire::native::ReasonOf(unknown), "unknown_request");
}

}  // namespace
}  // namespace lockstep::link
