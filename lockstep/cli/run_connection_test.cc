#include "lockstep/cli/run_connection.h"

#include <atomic>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::cli {
namespace {

using link::Greeting;
using link::LinkId;
using link::Verdict;

// Refuses the first clients that come, for that reason.
class RefusingServer {
 public:
  RefusingServer(int refusals, const absl::Status& why)
      : refusals_(refusals),
        server_([](const link::Request&, link::Responder responder) { responder.Answer(""); },
                {.admit = [this, why](LinkId, const Greeting&) -> std::optional<Verdict> {
                  if (asked_++ < refusals_) return why;
                  return link::Rights();
                }}) {}
  const std::string& address() const { return server_.address(); }
  int asked() const { return asked_; }

 private:
  const int refusals_;
  std::atomic<int> asked_ = 0;
  link::testing::TestServer server_;
};

TEST(RunConnection, WaitsForAServerThatCannotCheckItsToken) {
  RefusingServer server(
      3, wire::native::WithReason(absl::UnavailableError("later"), "token_review_failed"));
  // Three tries take longer than it waits for a server that does not answer.
  EXPECT_TRUE(ConnectForRun(server.address()).ok());
  EXPECT_EQ(server.asked(), 4);
}

TEST(RunConnection, WaitsForOneOfTheServersToLead) {
  std::atomic<int> asked = 0;
  link::testing::TestServer server(link::ServerEvents{
      .request = [](const link::Request&, link::Responder&& responder) { responder.Answer(""); },
      .leadership = [&] { return link::Leadership{.leads = ++asked > 50}; }});
  // Fifty tries take longer than it waits for a server that does not answer.
  EXPECT_TRUE(ConnectForRun(server.address()).ok());
  EXPECT_EQ(asked, 51);
}

TEST(RunConnection, DoesNotWaitForAServerThatRefusesItsToken) {
  RefusingServer server(
      1, wire::native::WithReason(absl::UnauthenticatedError("no"), "token_invalid"));
  EXPECT_EQ(wire::native::ReasonOf(ConnectForRun(server.address()).status()), "token_invalid");
  EXPECT_EQ(server.asked(), 1);
}

}  // namespace
}  // namespace lockstep::cli
