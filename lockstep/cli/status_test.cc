// `lockstep status`, and what is common to all commands that ask a server.
#include <cstdlib>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/cli/command_testing.h"
#include "nlohmann/json.hpp"

namespace lockstep::cli {
namespace {

using link::testing::TestServer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Status, PrintsATableOfTheJobThatIsAskedAbout) {
  TestServer server(ServeStatus());
  const Ran ran = RunCommand(server, {"status", "digits"});
  EXPECT_EQ(ran.code, kExitOk);
  EXPECT_THAT(ran.out, HasSubstr("job digits"));
  EXPECT_EQ(ran.err, "");
}

TEST(Status, PrintsJson) {
  TestServer server(ServeStatus());
  const Ran ran = RunCommand(server, {"status", "digits", "-o", "json"});
  EXPECT_EQ(nlohmann::json::parse(ran.out)["jobs"][0]["job"], "digits");
}

TEST(Status, EndsWithOneWhenAnyJobIsInTrouble) {
  TestServer server(ServeStatus());
  EXPECT_EQ(RunCommand(server, {"status"}).code, kExitFailed);
}

TEST(Status, SaysWhichJobsThereAre) {
  TestServer server(ServeStatus());
  const Ran ran = RunCommand(server, {"status", "x"});
  EXPECT_EQ(ran.code, kExitNotFound);
  EXPECT_EQ(ran.err, "lockstep status: no job 'x' here; there are broken and digits\n");
}

TEST(Status, SaysWhatToDoWhenNobodyListens) {
  std::string address;
  {
    TestServer server(ServeStatus());
    address = server.address();
  }
  const Ran ran = RunCommand(address, {"status"});
  EXPECT_EQ(ran.code, kExitUnavailable);
  EXPECT_THAT(ran.err, StartsWith("lockstep status: cannot connect to " + address +
                                  ": Connection refused; is `lockstep serve` running there?"));
  EXPECT_EQ(ran.out, "");
}

TEST(Status, AsksTheServerThatLeads) {
  TestServer leader(ServeStatus());
  TestServer standby(link::ServerEvents{.request = ServeStatus(), .leadership = [&] {
                                          return link::Leadership{.leads = false,
                                                                  .leader = leader.address()};
                                        }});
  EXPECT_EQ(RunCommand(standby.address() + "," + leader.address(), {"status", "digits"}).code, 0);
  const Ran alone = RunCommand(standby, {"status", "digits"});
  EXPECT_EQ(alone.code, kExitUnavailable);
  EXPECT_THAT(alone.err, AllOf(HasSubstr("the one at " + leader.address() + " does"),
                               Not(HasSubstr("is `lockstep serve` running there?"))));
}

TEST(Status, DoesNotWaitForAServerThatNeverAnswers) {
  std::optional<link::Responder> held;
  TestServer server(
      [&](const link::Request&, link::Responder responder) { held.emplace(std::move(responder)); });
  const Ran ran = RunCommand(server, {"status", "--timeout", "200ms"});
  EXPECT_EQ(ran.code, kExitTimeout);
  EXPECT_THAT(ran.err, HasSubstr("did not answer within 200ms"));
  server.thread().Do([&] { held.reset(); });
}

TEST(Status, ExplainsWrongOptions) {
  const Ran address = RunCommand("7070", {"status"});
  EXPECT_EQ(address.code, kExitUsage);
  EXPECT_THAT(address.err, HasSubstr("write HOST:PORT"));
  EXPECT_EQ(RunCommand("h:1", {"status", "-o", "yaml"}).code, kExitUsage);
  EXPECT_EQ(RunCommand("h:1", {"status", "--timeout", "5"}).code, kExitUsage);
  EXPECT_EQ(RunCommand("h:1", {"nonsense"}).code, kExitUsage);
}

TEST(Status, LooksIntoTheEnvironment) {
  TestServer server(ServeStatus());
  const Ran ran = RunWith({{"LOCKSTEP_COORDINATOR", server.address()}, {"LOCKSTEP_OUTPUT", "json"}},
                          {"status", "digits"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("{"));
}

}  // namespace
}  // namespace lockstep::cli
