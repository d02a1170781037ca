#include "lockstep/agent/command_line.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/config/reference_testing.h"

namespace lockstep::agent {
namespace {

using ::testing::HasSubstr;

std::variant<ParsedCommand, EndNow> Parse(std::vector<const char*> words,
                                          const std::map<std::string, std::string>& set = {}) {
  words.insert(words.begin(), "lockstep-agent");
  return ParseCommandLine(static_cast<int>(words.size()), words.data(), [&set](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

TEST(AgentCommandLine, IsTheReference) {
  CLI::App app;
  DeclaredAgent declared;
  declared.table.AddTo(app);
  config::ExpectReference(LOCKSTEP_CLI_DOCUMENT, declared.table);
}

TEST(AgentCommandLine, TheServerAndItsJobAreFoundAsOtherCommandsFindThem) {
  const auto parsed =
      Parse({}, {{"LOCKSTEP_COORDINATOR", "lockstep://head:7070/digits"}, {"LOCKSTEP_JOB", ""}});
  ASSERT_TRUE(std::holds_alternative<ParsedCommand>(parsed)) << std::get<EndNow>(parsed).text;
  const AgentOptions& options = std::get<ParsedCommand>(parsed).options;
  EXPECT_EQ(options.coordinator->text(), "head:7070");
  EXPECT_EQ(options.job, "digits");
  EXPECT_EQ(runtime::ToString(options.listen), "127.0.0.1:0");

  const auto named = Parse({"--coordinator", "other:1", "--job", "mine", "--patience", "3s"},
                           {{"LOCKSTEP_COORDINATOR", "head:7070"}, {"LOCKSTEP_JOB", "digits"}});
  ASSERT_TRUE(std::holds_alternative<ParsedCommand>(named));
  EXPECT_EQ(std::get<ParsedCommand>(named).options.job, "mine");
  EXPECT_EQ(std::get<ParsedCommand>(named).options.patience, absl::Seconds(3));
}

TEST(AgentCommandLine, OtherAgentsFetchAtAPortOfAllAddressesOrNowhere) {
  const auto peer_listen = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"--job", "digits"});
    return std::get<ParsedCommand>(Parse(std::move(words))).options.peer_listen;
  };
  EXPECT_EQ(peer_listen({}), (runtime::Address{.host = "::", .port = 0}));
  EXPECT_EQ(peer_listen({"--peer-listen", "10.0.0.1:7"}),
            (runtime::Address{.host = "10.0.0.1", .port = 7}));
  EXPECT_EQ(peer_listen({"--peer-listen", "off"}), std::nullopt);
}

TEST(AgentCommandLine, WrongOptionsAreNamed) {
  const auto text = [](std::vector<const char*> words) {
    const auto parsed = Parse(std::move(words));
    const auto* end = std::get_if<EndNow>(&parsed);
    return end == nullptr || end->exit_code != 2 ? "" : end->text;
  };
  EXPECT_THAT(text({}), HasSubstr("no job given: set --job"));
  EXPECT_THAT(text({"--job", "a", "--coordinator", "nowhere"}), HasSubstr("--coordinator: "));
  EXPECT_THAT(text({"--job", "a", "--listen", "x"}), HasSubstr("--listen: "));
  EXPECT_THAT(text({"--job", "a", "--allow-uid", "no such user"}), HasSubstr("--allow-uid: "));
}

}  // namespace
}  // namespace lockstep::agent
