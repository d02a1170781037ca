#include "lockstep/observe/status_text.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace wire::native;  // NOLINT: the messages are what this file is about

constexpr int64_t kSecond = 1'000'000;

// Compares with the file; LOCKSTEP_UPDATE_GOLDEN=1 writes it instead.
void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = std::string(LOCKSTEP_GOLDEN_DIR) + "/" + name;
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ostringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, expected.str()) << "in " << path;
}

MemberStatus Member(int32_t index, MemberCondition condition) {
  MemberStatus member = {.index = index,
                         .name = "task/" + std::to_string(index) + "#1",
                         .condition = condition,
                         .since_ago_us = 130 * kSecond,
                         .last_heard_ago_us = 12000 + index,
                         .peer = "127.0.0.1:" + std::to_string(40000 + index)};
  if (condition == MemberCondition::kMissing) {
    member.name = "task/" + std::to_string(index);
    member.last_heard_ago_us.reset();
    member.peer.clear();
  }
  return member;
}

StatusReply Server() {
  return {.server = {.version = "0.1.0",
                     .pid = 17,
                     .started_ago_us = 3700 * kSecond,
                     .listen = "127.0.0.1:7070"}};
}

// Four members, one of which was killed while the others wait for it.
JobStatus BrokenJob() {
  JobStatus job = {.job = "digits",
                   .size = 4,
                   .attempt = 2,
                   .state = AttemptState::kFailed,
                   .service_incarnation = 12345678901234567890u,
                   .started_ago_us = 130 * kSecond,
                   .keys = 12,
                   .key_bytes = 3456,
                   .waits = 5,
                   .grpc = "127.0.0.1:27002"};
  for (int32_t i = 0; i < 4; ++i) job.members.push_back(Member(i, MemberCondition::kConnected));
  job.members[2] = {.index = 2,
                    .name = "task/2#1",
                    .condition = MemberCondition::kLost,
                    .since_ago_us = 340000,
                    .last_heard_ago_us = 2300000,
                    .why = "its process was killed by signal 9",
                    .peer = "127.0.0.1:40002",
                    .host = "host7",
                    .pid = 4711};
  job.members[3].condition = MemberCondition::kSuspect;
  job.members[3].why = "stopped by a signal";
  job.barriers = {{.id = "loaded",
                   .counter = 3,
                   .opened_ago_us = 41 * kSecond,
                   .deadline_in_us = 19 * kSecond,
                   .waiting = {0, 1},
                   .awaited = {2, 3}}};
  job.key_waits = {
      {.key = "config/lr", .waiters = 2, .since_ago_us = 5 * kSecond, .members = {0, 1}}};
  job.errors = {{.at_ago_us = 100 * kSecond,
                 .code = 4,
                 .reason = "registration_failed",
                 .message = "only 3 of 4 came",
                 .attempt = 1},
                {.at_ago_us = 300000,
                 .code = 1,
                 .reason = "cluster_failed",
                 .message = "set to error with everybody else",
                 .origin = "task/0#1",
                 .consequence = true,
                 .attempt = 2},
                {.at_ago_us = 340000,
                 .code = 14,
                 .reason = "process_ended",
                 .message = "task/2#1: its process was killed by signal 9",
                 .origin = "task/2#1",
                 .attempt = 2}};
  return job;
}

// Eighty members, of which a few are not there.
JobStatus LongJob() {
  JobStatus job = {.job = "wide",
                   .size = 80,
                   .attempt = 1,
                   .state = AttemptState::kWaiting,
                   .started_ago_us = 20 * kSecond,
                   .grpc = "127.0.0.1:27003"};
  for (int32_t i = 0; i < 80; ++i) {
    const bool missing = i == 7 || i >= 75;
    job.members.push_back(
        Member(i, missing ? MemberCondition::kMissing : MemberCondition::kConnected));
  }
  job.members[11].condition = MemberCondition::kSuspect;
  job.members[11].why = "nothing heard for 41s";
  std::vector<int32_t> waiting;
  for (int32_t i = 0; i < 80; i += 2) waiting.push_back(i);
  job.barriers = {
      {.id = "all", .opened_ago_us = kSecond, .waiting = waiting, .awaited = {7, 11, 75, 76, 77}}};
  return job;
}

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

TEST(DurationText, UsesTheUnitThatAReaderNeeds) {
  EXPECT_EQ(DurationText(-1), "0us");
  EXPECT_EQ(DurationText(340), "340us");
  EXPECT_EQ(DurationText(12345), "12ms");
  EXPECT_EQ(DurationText(2'345'678), "2.3s");
  EXPECT_EQ(DurationText(41 * kSecond), "41s");
  EXPECT_EQ(DurationText(303 * kSecond), "5m03s");
  EXPECT_EQ(DurationText((3 * 3600 + 12 * 60) * kSecond), "3h12m");
  EXPECT_EQ(DurationText((4 * 24 + 6) * 3600 * kSecond), "4d06h");
}

TEST(RangesText, JoinsNeighbours) {
  EXPECT_EQ(RangesText({}, 3), "");
  EXPECT_EQ(RangesText({4}, 3), "4");
  EXPECT_EQ(RangesText({0, 1, 2, 5, 7, 8}, 3), "0-2,5,7-8");
  EXPECT_EQ(RangesText({0, 1, 2, 5, 7, 8}, 2), "0-2,5,+2 more");
}

}  // namespace
}  // namespace lockstep::observe
