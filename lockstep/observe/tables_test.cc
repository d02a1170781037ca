#include "lockstep/observe/tables.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"
#include "nlohmann/json.hpp"

namespace lockstep::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JobStatus WithProgress() {
  JobStatus job = BrokenJob();
  job.members[0].step = 100;
  job.members[0].labels = {{.name = "rack", .value = "r7"}};
  job.members[3].step = 99;
  job.members[3].phase = "loading data";
  job.members[3].doing = "waits for key 'k' for 3s";
  job.barriers_open = 1;
  return job;
}

TEST(MembersTable, SaysWhereEachIs) {
  ExpectGolden("members.txt", MembersTable(WithProgress()));
  const auto json = nlohmann::json::parse(MembersJson(WithProgress()));
  EXPECT_EQ(json["members"][3]["step"], 99);
  EXPECT_EQ(json["members"][0]["labels"][0]["value"], "r7");
  EXPECT_EQ(json["members"][1]["step"], nullptr);
}

TEST(BarriersTable, SaysWhatTheMissingDo) {
  ExpectGolden("barriers.txt", BarriersTable(WithProgress()));
  EXPECT_EQ(nlohmann::json::parse(BarriersJson(WithProgress()))["barriers"][0]["id"], "loaded");
}

TEST(BarriersJson, SaysWhatTheMissingDoEachOnce) {
  JobStatus job = WithProgress();
  job.barriers.push_back(job.barriers.front());
  const auto json = nlohmann::json::parse(BarriersJson(job));
  ASSERT_EQ(json["missing"].size(), job.barriers[0].awaited.size());
  EXPECT_EQ(json["missing"][0]["index"], job.barriers[0].awaited[0]);
  EXPECT_EQ(json["missing"].back()["doing"], "waits for key 'k' for 3s");
}

TEST(BarriersTable, IsShortForTenThousand) {
  JobStatus job = LongJob();
  for (int i = 0; i < 255; ++i) job.barriers.push_back(job.barriers.front());
  job.barriers_open = 10000;
  const std::string table = BarriersTable(job);
  EXPECT_THAT(table, HasSubstr("10000 open"));
  EXPECT_THAT(table, HasSubstr("+9968 more\n"));
  EXPECT_EQ(BarriersTable({.job = "j"}), "job j: no open barriers\n");
}

TEST(JobsTable, HasOneRowAJob) {
  StatusReply status = Server();
  status.jobs = {BrokenJob(), LongJob(), {.job = "new", .size = 2}};
  ExpectGolden("jobs.txt", JobsTable(status));
  const auto json = nlohmann::json::parse(JobsJson(status));
  EXPECT_EQ(json["jobs"][0]["members"]["lost"], 1);
  EXPECT_EQ(json["server"]["pid"], 17);
  EXPECT_EQ(JobsTable(Server()), "no jobs\n");
}

TEST(Events, AreOneLineEach) {
  const JobEvent event = {.sequence = 7,
                          .at_ago_us = 500'000,
                          .kind = EventKind::kMemberLost,
                          .severity = EventSeverity::kError,
                          .attempt = 2,
                          .member = "task/2#1",
                          .text = "task/2#1 was lost:\nits process ended"};
  constexpr int64_t kNow = 1'700'000'000'500'000;
  EXPECT_EQ(
      EventLine(event, kNow),
      "2023-11-14T22:13:20.000000Z  error    member_lost        attempt 2: task/2#1 was lost: "
      "its process ended\n");
  const auto json = nlohmann::json::parse(EventJsonLine(event, "digits", kNow));
  EXPECT_EQ(json["at"], "2023-11-14T22:13:20.000000Z");
  EXPECT_EQ(json["job"], "digits");
  EXPECT_EQ(json["kind"], "member_lost");
  EXPECT_EQ(json["sequence"], 7);
}

TEST(Events, SayOnceOfWhichAttemptTheyAre) {
  const JobEvent begins = {.attempt = 4, .text = "attempt 4 begins; attempt 3 ended"};
  EXPECT_THAT(EventLine(begins, 0), HasSubstr("  attempt 4 begins; attempt 3 ended"));
  EXPECT_THAT(EventLine(begins, 0), testing::Not(HasSubstr("attempt 4: ")));
  const JobEvent other = {.attempt = 4, .text = "attempt 40 has ended"};
  EXPECT_THAT(EventLine(other, 0), HasSubstr("attempt 4: attempt 40 has ended"));
}

TEST(Events, HaveTheSameTimeWheneverTheyAreAskedFor) {
  const JobEvent event = {.at_ago_us = 500'000, .at_unix_us = 1'700'000'000'000'001};
  for (const int64_t now : {1'700'000'000'500'000, 1'700'000'000'600'000}) {
    EXPECT_THAT(EventLine(event, now), HasSubstr("2023-11-14T22:13:20.000001Z"));
  }
}

TEST(KeysTable, ShowsTheBeginningOfValues) {
  ListKeysReply keys;
  keys.entries = {{.key = "config/lr", .value = {"0.1"}, .revision = 4},
                  {.key = "blob", .value = {std::string("\xFF\0", 2)}, .revision = 123},
                  {.key = "long\x1B[2J", .value = {std::string(1000, 'x')}, .revision = 5}};
  keys.more = true;
  ExpectGolden("keys.txt", KeysTable(keys));
  EXPECT_THAT(KeysTable(keys), Not(HasSubstr("\x1B")));
  EXPECT_EQ(nlohmann::json::parse(KeysJson(keys))["entries"][0]["value"], "0.1");
}

}  // namespace
}  // namespace lockstep::observe
