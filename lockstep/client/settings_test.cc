#include "lockstep/client/settings.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/client/errors.h"

namespace lockstep::client {
namespace {

using ::testing::HasSubstr;

Environment Holding(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    if (it == variables.end()) return std::nullopt;
    return it->second;
  };
}

TEST(Settings, ComeFromTheEnvironmentWhenNothingIsGiven) {
  const auto options = Resolve(JoinOptions(), Holding({{"LOCKSTEP_COORDINATOR", "h7:1234"},
                                                       {"LOCKSTEP_JOB", "digits"},
                                                       {"LOCKSTEP_ROLE", "trainer"},
                                                       {"LOCKSTEP_INDEX", "3"},
                                                       {"LOCKSTEP_SIZE", "4"},
                                                       {"LOCKSTEP_ATTEMPT", "2"}}));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->address, "h7:1234");
  EXPECT_EQ(options->job, "digits");
  EXPECT_EQ(options->role, "trainer");
  EXPECT_EQ(options->index, 3);
  EXPECT_EQ(options->size, 4);
  EXPECT_EQ(options->attempt, 2);
  EXPECT_NE(options->host, "");
}

TEST(Settings, WhatIsGivenCounts) {
  const auto options = Resolve(JoinOptions{.address = "a:1", .job = "mine", .index = 0, .size = 2},
                               Holding({{"LOCKSTEP_COORDINATOR", "h7:1234"},
                                        {"LOCKSTEP_JOB", "digits"},
                                        {"LOCKSTEP_INDEX", "3"},
                                        {"LOCKSTEP_SIZE", "4"}}));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->address, "a:1");
  EXPECT_EQ(options->job, "mine");
  EXPECT_EQ(options->index, 0);
  EXPECT_EQ(options->size, 2);
}

TEST(Settings, TakeSeveralServersOfOneJob) {
  const auto options = Resolve(
      JoinOptions(), Holding({{"LOCKSTEP_COORDINATOR", "lockstep://a:1/digits,lockstep://b:1"}}));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->job, "digits");
  const auto servers = ServersAt(options->address);
  ASSERT_TRUE(servers.ok()) << servers.status();
  EXPECT_EQ((*servers)->text(), "a:1, b:1");
  const auto wrong = Resolve(JoinOptions{.address = "a:1,b", .job = "j"}, Holding({}));
  EXPECT_EQ(ReasonOf(wrong.status()), "invalid_argument");
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("LOCKSTEP_COORDINATOR): address 'b'"));
}

TEST(Settings, HaveDefaultsButForTheJob) {
  const auto options = Resolve(JoinOptions{.job = "j"}, Holding({}));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->address, "127.0.0.1:7070");
  EXPECT_EQ(options->index, std::nullopt);
  const auto nameless = Resolve(JoinOptions(), Holding({}));
  EXPECT_EQ(ReasonOf(nameless.status()), "invalid_argument");
  EXPECT_THAT(std::string(nameless.status().message()), HasSubstr("LOCKSTEP_JOB"));
}

TEST(Settings, NameTheVariableThatMakesNoSense) {
  for (const char* name : {"LOCKSTEP_INDEX", "LOCKSTEP_SIZE", "LOCKSTEP_ATTEMPT"}) {
    const auto options = Resolve(JoinOptions{.job = "j"}, Holding({{name, "four"}}));
    EXPECT_TRUE(absl::IsInvalidArgument(options.status()));
    EXPECT_THAT(std::string(options.status().message()),
                HasSubstr(std::string(name) + "=four is not a whole number"));
  }
  const auto address =
      Resolve(JoinOptions{.job = "j"}, Holding({{"LOCKSTEP_COORDINATOR", "nonsense"}}));
  EXPECT_THAT(std::string(address.status().message()), HasSubstr("LOCKSTEP_COORDINATOR"));
}

TEST(Settings, RefuseNumbersThatCannotBe) {
  EXPECT_FALSE(Resolve(JoinOptions{.job = "j", .index = -1}, Holding({})).ok());
  EXPECT_FALSE(Resolve(JoinOptions{.job = "j", .size = -1}, Holding({})).ok());
  EXPECT_FALSE(Resolve(JoinOptions{.job = "j", .size = 1 << 20}, Holding({})).ok());
  EXPECT_FALSE(Resolve(JoinOptions{.job = "j", .attempt = -1}, Holding({})).ok());
}

TEST(Settings, AreTheSameForTools) {
  const auto options = Resolve(
      SessionOptions(), Holding({{"LOCKSTEP_COORDINATOR", "h:1"}, {"LOCKSTEP_JOB", "digits"}}));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->address, "h:1");
  EXPECT_EQ(options->job, "digits");
}

}  // namespace
}  // namespace lockstep::client
