#include "lockstep/cli/status.h"

#include <cstdlib>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/link/native_service.h"
#include "lockstep/link/testing.h"
#include "nlohmann/json.hpp"

namespace lockstep::cli {
namespace {

using link::testing::TestServer;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using wire::native::JobStatus;
using wire::native::MemberCondition;
using wire::native::StatusReply;
using wire::native::StatusRequest;

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

Result RunStatus(const StatusOptions& options) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = Status(options, out, err);
  return {code, out.str(), err.str()};
}

// A server of the jobs "digits" (fine) and "broken".
link::Server::Handler Serve() {
  return link::MakeHandler(
      {.status = [](const StatusRequest& request) -> absl::StatusOr<StatusReply> {
         const JobStatus fine = {
             .job = "digits",
             .members = {{.name = "task/0#1", .condition = MemberCondition::kConnected}}};
         const JobStatus broken = {
             .job = "broken",
             .members = {{.name = "task/0#1", .condition = MemberCondition::kLost}}};
         if (!request.job) return StatusReply{.jobs = {fine, broken}};
         if (request.job == "digits") return StatusReply{.jobs = {fine}};
         if (request.job == "broken") return StatusReply{.jobs = {broken}};
         return absl::NotFoundError("no job 'x' here; there are broken and digits");
       },
       .report = [](const auto&) { return absl::OkStatus(); }});
}

TEST(Status, PrintsATableOfTheJobThatIsAskedAbout) {
  TestServer server(Serve());
  const Result result = RunStatus({.coordinator = server.address(), .job = "digits"});
  EXPECT_EQ(result.code, kStatusFine);
  EXPECT_THAT(result.out, HasSubstr("job digits"));
  EXPECT_EQ(result.err, "");
}

TEST(Status, PrintsJson) {
  TestServer server(Serve());
  const Result result =
      RunStatus({.coordinator = server.address(), .job = "digits", .output = "json"});
  EXPECT_EQ(nlohmann::json::parse(result.out)["jobs"][0]["job"], "digits");
}

TEST(Status, EndsWithOneWhenAnyJobIsInTrouble) {
  TestServer server(Serve());
  EXPECT_EQ(RunStatus({.coordinator = server.address()}).code, kStatusTrouble);
}

TEST(Status, SaysWhichJobsThereAre) {
  TestServer server(Serve());
  const Result result = RunStatus({.coordinator = server.address(), .job = "x"});
  EXPECT_EQ(result.code, kStatusRefused);
  EXPECT_EQ(result.err, "lockstep status: no job 'x' here; there are broken and digits\n");
}

TEST(Status, SaysWhatToDoWhenNobodyListens) {
  std::string address;
  {
    TestServer server(Serve());
    address = server.address();
  }
  const Result result = RunStatus({.coordinator = address});
  EXPECT_EQ(result.code, kStatusUnreachable);
  EXPECT_THAT(result.err, StartsWith("lockstep status: cannot connect to " + address +
                                     ": Connection refused; is `lockstep serve` running there?"));
  EXPECT_EQ(result.out, "");
}

TEST(Status, DoesNotWaitForAServerThatNeverAnswers) {
  std::optional<link::Responder> held;
  TestServer server(
      [&](const link::Request&, link::Responder responder) { held.emplace(std::move(responder)); });
  const Result result =
      RunStatus({.coordinator = server.address(), .timeout = absl::Milliseconds(200)});
  EXPECT_EQ(result.code, kStatusUnreachable);
  EXPECT_THAT(result.err, HasSubstr("did not answer within 200ms"));
  server.thread().Do([&] { held.reset(); });
}

TEST(Status, ExplainsAnAddress) {
  const Result result = RunStatus({.coordinator = "7070"});
  EXPECT_EQ(result.code, kStatusUsage);
  EXPECT_THAT(result.err, HasSubstr("write HOST:PORT"));
}

struct Parsed {
  StatusOptions options;
  bool given = false;
};

Parsed Parse(const std::string& line) {
  Parsed parsed;
  CLI::App app;
  CLI::App* command = AddStatusCommand(app, parsed.options);
  app.parse(line);
  parsed.given = command->parsed();
  return parsed;
}

TEST(StatusCommand, TakesItsOptions) {
  const Parsed parsed = Parse("status digits --coordinator=h:1 -o json");
  EXPECT_TRUE(parsed.given);
  EXPECT_EQ(parsed.options.job, "digits");
  EXPECT_EQ(parsed.options.coordinator, "h:1");
  EXPECT_EQ(parsed.options.output, "json");
}

TEST(StatusCommand, LooksIntoTheEnvironment) {
  ::setenv("LOCKSTEP_COORDINATOR", "from.env:5", 1);
  const Parsed parsed = Parse("status");
  ::unsetenv("LOCKSTEP_COORDINATOR");
  EXPECT_EQ(parsed.options.coordinator, "from.env:5");
  EXPECT_EQ(Parse("status").options.coordinator, "127.0.0.1:7070");
}

TEST(StatusCommand, RefusesAnotherOutput) {
  EXPECT_THROW(Parse("status -o yaml"), CLI::ValidationError);
}

}  // namespace
}  // namespace lockstep::cli
