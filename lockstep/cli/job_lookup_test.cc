#include "lockstep/cli/job_lookup.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;

wire::native::StatusReply Reply(const std::vector<std::pair<std::string, int32_t>>& jobs) {
  wire::native::StatusReply reply;
  for (const auto& [name, size] : jobs) {
    wire::native::JobStatus job;
    job.job = name;
    job.size = size;
    job.grpc = "127.0.0.1:20001";
    reply.jobs.push_back(job);
  }
  return reply;
}

std::string Refusal(const wire::native::StatusReply& reply, const std::string& job,
                    int32_t processes) {
  const auto found = ChooseJob(reply, "h:7070", "h:7070", job, processes);
  return found.ok() ? "" : std::string(found.status().message());
}

TEST(JobLookupTest, FindsTheJobByName) {
  const auto found = ChooseJob(Reply({{"a", 2}, {"digits", 4}}), "h:7070", "h:7070", "digits", 4);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->size, 4);
  EXPECT_EQ(found->address.job, "digits");
  EXPECT_EQ(found->address.link, "h:7070");
  EXPECT_EQ(found->address.grpc, "127.0.0.1:20001");
}

TEST(JobLookupTest, OnlyJobNeedsNoNameAndGivesTheSize) {
  const auto found = ChooseJob(Reply({{"digits", 4}}), "h:7070", "h:7070", "", 0);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->address.job, "digits");
  EXPECT_EQ(found->size, 4);
}

TEST(JobLookupTest, TheRootCauseIsOfThisAttemptAndAboutAMember) {
  wire::native::JobStatus job;
  job.attempt = 2;
  job.members = {{.index = 0, .name = "task/0#2"}, {.index = 1, .name = "task/1#2"}};
  EXPECT_FALSE(RootCauseIn(job).has_value());
  job.errors = {{.origin = "task/0#1", .attempt = 1},
                {.origin = "", .attempt = 2},
                {.origin = "task/0#2", .consequence = true, .attempt = 2},
                {.origin = "task/1#2", .attempt = 2}};
  EXPECT_EQ(RootCauseIn(job), MemberIndex(1));
}

TEST(JobLookupTest, AnotherRunOfTheJobIsTold) {
  wire::native::StatusReply reply = Reply({{"digits", 8}});
  for (int32_t i = 0; i < 8; ++i) {
    reply.jobs[0].members.push_back({.index = i,
                                     .name = absl::StrCat("task/", i),
                                     .host = "host7",
                                     .pid = 100 + i,
                                     .process = wire::native::ProcessState::kEnded});
  }
  EXPECT_EQ(RunsAlreadyText(*ChooseJob(reply, "h:7070", "h:7070", "digits", 8)), "");
  reply.jobs[0].members[5].process = wire::native::ProcessState::kRunning;
  EXPECT_THAT(
      RunsAlreadyText(*ChooseJob(reply, "h:7070", "h:7070", "digits", 8)),
      HasSubstr(
          "last reported: task/5 (host7:105); if that run is still active, end one of the two"));
  for (auto& member : reply.jobs[0].members) member.process = wire::native::ProcessState::kRunning;
  EXPECT_THAT(RunsAlreadyText(*ChooseJob(reply, "h:7070", "h:7070", "digits", 8)),
              HasSubstr("task/0 (host7:100), task/1 (host7:101), task/2 (host7:102), +5 more;"));
}

TEST(JobLookupTest, OtherPortsAreReachedAtTheServerThatLeads) {
  auto reply = Reply({{"digits", 4}});
  reply.jobs[0].grpc = "0.0.0.0:20001";
  const auto found = ChooseJob(reply, "a:7070,b:7070", "b:7070", "digits", 4);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->address.link, "a:7070,b:7070");
  EXPECT_EQ(found->address.grpc, "b:20001");
  EXPECT_THAT(
      std::string(ChooseJob(reply, "a:7070,b:7070", "b:7070", "other", 4).status().message()),
      HasSubstr("the server at b:7070 has no job \"other\""));
}

TEST(JobLookupTest, AJobThatIsNotAsTheProcessesAskIsToldWithWhatToDo) {
  EXPECT_EQ(RecoverabilityText("a", true, true), "");
  EXPECT_EQ(RecoverabilityText("a", false, false), "");
  EXPECT_THAT(RecoverabilityText("a", false, true),
              testing::AllOf(HasSubstr("JAX_ENABLE_RECOVERABILITY"),
                             HasSubstr("job \"a\" is not recoverable"),
                             HasSubstr("--recoverable a of the server")));
  EXPECT_THAT(RecoverabilityText("a", true, false), HasSubstr("job \"a\" is recoverable, but"));
}

TEST(JobLookupTest, RefusalsSayWhatThereIs) {
  EXPECT_THAT(Refusal(Reply({{"a", 2}, {"b", 3}}), "digits", 4),
              HasSubstr("has no job \"digits\": it has \"a\" (size 2), \"b\" (size 3)"));
  EXPECT_THAT(Refusal(Reply({{"a", 2}, {"b", 3}}), "", 2), HasSubstr("--job is required"));
  EXPECT_THAT(
      Refusal(Reply({}), "", 2),
      HasSubstr("it has none; create one with lockstep job create NAME=SIZE. A run on several "
                "nodes creates "));
  EXPECT_THAT(Refusal(Reply({{"digits", 4}}), "digits", 3),
              HasSubstr("has size 4, but -n asks for 3 processes"));
  EXPECT_THAT(Refusal(Reply({{"digits", 5000}}), "digits", 0), HasSubstr("run_processes_max"));
}

TEST(JobLookupTest, NamesAFewJobsAndCountsTheRest) {
  std::vector<std::pair<std::string, int32_t>> jobs;
  for (int i = 0; i < 25; ++i) jobs.emplace_back("job" + std::to_string(i), 1);
  EXPECT_THAT(Refusal(Reply(jobs), "digits", 1), HasSubstr("\"job9\" (size 1), +15 more"));
}

TEST(JobLookupTest, JobWithoutAnAddressIsRefused) {
  wire::native::StatusReply reply = Reply({{"digits", 4}});
  reply.jobs[0].grpc.clear();
  EXPECT_THAT(Refusal(reply, "digits", 4), HasSubstr("reports no address"));
}

}  // namespace
}  // namespace lockstep::cli
