#include "lockstep/observe/status_text.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace wire::native;  // NOLINT: the messages are what this file is about

TEST(StatusTable, ShowsWhatIsWrongFirst) {
  StatusReply status = Server();
  status.jobs = {BrokenJob()};
  ExpectGolden("broken.txt", StatusTable(status));
}

TEST(StatusTable, StaysShortForALongJob) {
  StatusReply status = Server();
  status.jobs = {LongJob()};
  ExpectGolden("long.txt", StatusTable(status));
}

TEST(StatusTable, IsShortForTenThousandLostMembers) {
  StatusReply status = Server();
  JobStatus job = {.job = "j", .size = 10000};
  for (int32_t i = 0; i < 10000; ++i) job.members.push_back(Member(i, MemberCondition::kLost));
  status.jobs = {job};
  const std::string table = StatusTable(status);
  EXPECT_THAT(table, HasSubstr("+9968 more"));
  EXPECT_LT(std::count(table.begin(), table.end(), '\n'), 50);
}

TEST(StatusTable, SaysThatThereAreNoJobs) { ExpectGolden("empty.txt", StatusTable(Server())); }

TEST(StatusTable, PrintsNothingThatATerminalWouldObey) {
  StatusReply status = Server();
  JobStatus job = BrokenJob();
  job.errors = {
      {.code = 2, .reason = "reported_error", .message = "a\x1B[2Jb\nc" + std::string(5000, 'x')}};
  status.jobs = {job};
  const std::string table = StatusTable(status);
  EXPECT_THAT(table, Not(HasSubstr("\x1B")));
  EXPECT_THAT(table, HasSubstr("a [2Jb cxxx"));
  EXPECT_THAT(table, Not(HasSubstr(std::string(500, 'x'))));
}

TEST(StatusTable, ShowsFewConsequencesOfOneCause) {
  StatusReply status = Server();
  JobStatus job = {.job = "j"};
  for (int i = 0; i < 10; ++i) {
    job.errors.push_back(
        {.code = 1, .reason = "cluster_failed", .consequence = true, .attempt = 1});
  }
  job.errors.push_back({.code = 14, .reason = "process_ended", .attempt = 1});
  status.jobs = {job};
  const std::string table = StatusTable(status);
  EXPECT_LT(table.find("process_ended"), table.find("cluster_failed"));
  EXPECT_THAT(table, HasSubstr("+7 more"));
}

TEST(StatusJson, HasEverything) {
  StatusReply status = Server();
  status.jobs = {BrokenJob()};
  ExpectGolden("broken.json", StatusJson(status));
}

TEST(StatusJson, IsJson) {
  StatusReply status = Server();
  status.jobs = {BrokenJob(), LongJob()};
  const Json json = Json::parse(StatusJson(status));
  EXPECT_EQ(json["jobs"][0]["members"][2]["condition"], "lost");
  EXPECT_EQ(json["jobs"][1]["members"].size(), 80u);
}

TEST(InTrouble, IsAboutMembersThatAreGone) {
  JobStatus job = LongJob();
  EXPECT_FALSE(InTrouble(job));
  job.members[3].condition = MemberCondition::kLost;
  EXPECT_TRUE(InTrouble(job));
  EXPECT_TRUE(InTrouble(JobStatus{.state = AttemptState::kFailed}));
}

}  // namespace
}  // namespace lockstep::observe
