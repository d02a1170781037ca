#include "lockstep/platform/link/reporter.h"

#include <atomic>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/native_service.h"
#include "lockstep/platform/link/testing.h"

namespace lockstep::link {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kLong;
using testing::Seen;
using testing::TestServer;
using wire::native::ProcessReport;

ProcessReport Report(int64_t pid) { return {.job = "digits", .member = 1, .pid = pid}; }

// Takes reports; refuses those without a pid.
Server::Handler Collect(Seen<int64_t>& seen) {
  return MakeHandler(
      {.status = nullptr, .report = [&seen](const ProcessReport& report, const Rights&) {
         if (report.pid == 0) return absl::InvalidArgumentError("no pid");
         seen.Add(report.pid);
         return absl::OkStatus();
       }});
}

Reporter::Options Quick(Seen<std::string>& lines) {
  return {.backoff_first = absl::Milliseconds(5),
          .backoff_last = absl::Milliseconds(20),
          .log = [&lines](std::string text) { lines.Add(std::move(text)); }};
}

TEST(Reporter, SendsInOrder) {
  Seen<int64_t> seen;
  TestServer server(Collect(seen));
  Reporter reporter(server.address());
  for (const int64_t pid : {1, 2, 3, 4}) reporter.Report(Report(pid));
  EXPECT_TRUE(reporter.Flush(kLong));
  EXPECT_THAT(seen.WaitForCount(4), ElementsAre(1, 2, 3, 4));
}

TEST(Reporter, KeepsReportsUntilTheServerIsThereAgain) {
  Seen<int64_t> seen;
  Seen<std::string> lines;
  auto first = std::make_unique<TestServer>(Collect(seen));
  const std::string address = first->address();
  Reporter reporter(address, Quick(lines));
  reporter.Report(Report(1));
  EXPECT_TRUE(reporter.Flush(kLong));

  first.reset();
  reporter.Report(Report(2));
  reporter.Report(Report(3));
  EXPECT_THAT(lines.WaitForCount(1), ElementsAre(HasSubstr("reports wait: ")));
  EXPECT_FALSE(reporter.Flush(absl::ZeroDuration()));

  TestServer second(Collect(seen), {.listen = address});
  EXPECT_TRUE(reporter.Flush(kLong));
  EXPECT_THAT(seen.WaitForCount(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(lines.WaitForCount(2), Contains("reports go through again"));
}

TEST(Reporter, GoesOnWithTheServerThatComesToLead) {
  Seen<int64_t> of_first;
  Seen<int64_t> of_second;
  Seen<std::string> lines;
  std::atomic<bool> second_leads = false;
  auto first = std::make_unique<TestServer>(Collect(of_first));
  TestServer second(ServerEvents{.request = Collect(of_second), .leadership = [&] {
                                   return Leadership{.leads = second_leads, .epoch = 2};
                                 }});
  Reporter reporter(second.address() + "," + first->address(), Quick(lines));
  reporter.Report(Report(1));
  EXPECT_TRUE(reporter.Flush(kLong));
  EXPECT_THAT(of_first.Now(), ElementsAre(1));
  first.reset();
  reporter.Report(Report(2));
  EXPECT_THAT(lines.WaitForCount(1), ElementsAre(HasSubstr("reports wait: ")));
  second_leads = true;
  EXPECT_TRUE(reporter.Flush(kLong));
  EXPECT_THAT(of_second.Now(), ElementsAre(2));
}

TEST(Reporter, UseA05_TellsAtOnceThatALinkBroke) {
  Seen<int64_t> seen;
  Seen<std::string> lines;
  Seen<std::string> lost;
  auto server = std::make_unique<TestServer>(Collect(seen));
  Reporter::Options options = Quick(lines);
  options.lost = [&](std::string why) { lost.Add(std::move(why)); };
  Reporter reporter(server->address(), std::move(options));
  reporter.Report(Report(1));
  EXPECT_TRUE(reporter.Flush(kLong));
  server.reset();
  EXPECT_THAT(lost.WaitForCount(1), ElementsAre(HasSubstr("closed the connection")));
  EXPECT_THAT(lines.WaitForCount(1), ElementsAre(HasSubstr("reports wait: ")));
}

TEST(Reporter, UseA05_TellsThatThereIsALinkAgainThoughThereIsNothingToReport) {
  Seen<int64_t> seen;
  Seen<std::string> lines;
  Seen<std::string> told;
  auto first = std::make_unique<TestServer>(Collect(seen));
  const std::string address = first->address();
  Reporter::Options options = Quick(lines);
  options.lost = [&](const std::string&) { told.Add("lost"); };
  options.found = [&] { told.Add("found"); };
  Reporter reporter(address, std::move(options));
  reporter.Report(Report(1));
  EXPECT_TRUE(reporter.Flush(kLong));
  first.reset();
  EXPECT_THAT(told.WaitForCount(1), ElementsAre("lost"));
  TestServer second(Collect(seen), {.listen = address});
  EXPECT_THAT(told.WaitForCount(2), ElementsAre("lost", "found"));
}

TEST(Reporter, SendsAReportAgainWhenTheServerDiedBeforeItsAnswer) {
  Seen<int64_t> seen;
  Seen<std::string> lines;
  Seen<bool> asked;
  std::vector<Responder> held;
  auto first = std::make_unique<TestServer>([&](const Request&, Responder responder) {
    held.push_back(std::move(responder));
    asked.Add(true);
  });
  const std::string address = first->address();
  Reporter reporter(address, Quick(lines));
  reporter.Report(Report(1));
  asked.WaitForCount(1);
  first.reset();
  TestServer second(Collect(seen), {.listen = address});
  EXPECT_TRUE(reporter.Flush(kLong));
  EXPECT_THAT(seen.WaitForCount(1), ElementsAre(1));
}

TEST(Reporter, TriesAgainWhenNoAnswerComes) {
  Seen<int64_t> seen;
  Seen<std::string> lines;
  std::vector<Responder> held;
  const auto take = Collect(seen);
  TestServer server([&](Request request, Responder responder) {
    if (held.empty()) return held.push_back(std::move(responder));
    take(std::move(request), std::move(responder));
  });
  Reporter::Options options = Quick(lines);
  options.attempt_timeout = absl::Milliseconds(100);
  Reporter reporter(server.address(), options);
  reporter.Report(Report(1));
  EXPECT_TRUE(reporter.Flush(kLong));
  EXPECT_THAT(lines.WaitForCount(1), Contains(HasSubstr("did not answer within 100ms")));
  server.thread().Do([&] { held.clear(); });
}

TEST(Reporter, GoesOnAfterAReportThatWasRefused) {
  Seen<int64_t> seen;
  Seen<std::string> lines;
  TestServer server(Collect(seen));
  Reporter reporter(server.address(), Quick(lines));
  reporter.Report(Report(0));
  reporter.Report(Report(1));
  EXPECT_TRUE(reporter.Flush(kLong));
  EXPECT_THAT(seen.WaitForCount(1), ElementsAre(1));
  EXPECT_THAT(lines.WaitForCount(1),
              ElementsAre("the server did not take a report on member 1 of job 'digits': no pid"));
}

TEST(Reporter, DropsTheOldestWhenTooManyWait) {
  Seen<int64_t> seen;
  Seen<std::string> lines;
  Seen<bool> asked;
  std::vector<Responder> held;
  const auto take = Collect(seen);
  TestServer server([&](Request request, Responder responder) {
    take(std::move(request), std::move(responder));
    asked.Add(true);
  });
  // The reporter's thread is held in its first notice until the queue has run over.
  Seen<bool> release;
  Reporter::Options options = Quick(lines);
  options.reports_max = 2;
  options.log = [&](std::string text) {
    lines.Add(std::move(text));
    release.WaitForCount(1);
  };
  Reporter reporter(server.address(), options);
  reporter.Report(Report(0));  // refused, with a notice
  lines.WaitForCount(1);
  for (const int64_t pid : {1, 2, 3, 4}) reporter.Report(Report(pid));
  release.Add(true);
  EXPECT_TRUE(reporter.Flush(kLong));
  EXPECT_THAT(seen.WaitForCount(2), ElementsAre(3, 4));
  EXPECT_THAT(lines.WaitForCount(2), Contains(HasSubstr("dropped the 2 oldest reports")));
}

TEST(Reporter, EndsWithoutAServer) {
  Seen<std::string> lines;
  {
    Reporter reporter("127.0.0.1:1", Quick(lines));
    reporter.Report(Report(1));
    EXPECT_FALSE(reporter.Flush(absl::Milliseconds(20)));
  }
  EXPECT_THAT(lines.WaitForCount(1), ElementsAre(HasSubstr("cannot connect to 127.0.0.1:1")));
}

}  // namespace
}  // namespace lockstep::link
