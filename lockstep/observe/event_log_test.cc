#include "lockstep/observe/event_log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/log_limiter.h"

namespace lockstep::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::native::EventKind;
using wire::native::JobEvent;
using wire::native::WatchEventsReply;

Time At(int64_t seconds) { return Time() + absl::Seconds(seconds); }

std::vector<std::string> Texts(const WatchEventsReply& reply) {
  std::vector<std::string> texts;
  for (const JobEvent& event : reply.events) texts.push_back(event.text);
  return texts;
}

TEST(EventLog, TellsWhatCameAfter) {
  EventLog log(7, 100);
  log.Note(At(1), "a", {.text = "one"});
  log.Note(At(2), "b", {.text = "two"});
  log.Note(At(3), "a", {.text = "three"});
  WatchEventsReply reply = log.After(At(5), {.job = "a"});
  EXPECT_THAT(Texts(reply), ElementsAre("one", "three"));
  EXPECT_EQ(reply.log, 7u);
  EXPECT_EQ(reply.events[0].at_ago_us, 4'000'000);
  EXPECT_EQ(reply.events[1].sequence, 3);
  EXPECT_EQ(reply.next_after, 3);
  reply = log.After(At(5), {.job = "a", .after = reply.next_after, .log = 7});
  EXPECT_THAT(Texts(reply), ElementsAre());
  EXPECT_EQ(reply.next_after, 3);
}

TEST(EventLog, BeginsAnewForWhoCountsInAnotherLog) {
  EventLog log(8, 100);
  log.Note(At(1), "a", {.text = "one"});
  EXPECT_THAT(Texts(log.After(At(1), {.job = "a", .after = 50, .log = 7})), ElementsAre("one"));
}

TEST(EventLog, ForgetsTheOldestAndSaysSo) {
  EventLog log(7, 2);
  for (const char* text : {"1", "2", "3", "4", "5"}) log.Note(At(1), "a", {.text = text});
  const WatchEventsReply reply = log.After(At(1), {.job = "a"});
  EXPECT_THAT(Texts(reply), ElementsAre("4", "5"));
  EXPECT_EQ(reply.forgotten, 3);
  log.Forget("a");
  EXPECT_THAT(Texts(log.After(At(1), {.job = "a"})), ElementsAre());
}

TEST(EventLog, Finding08_IsBoundedByBytesToo) {
  EventLog log(7, 10'000);
  for (int i = 0; i < 10'000; ++i)
    log.Note(At(1), "a", {.text = std::string(size_t{4} << 20, 'h')});
  WatchEventsReply reply = log.After(At(1), {.job = "a"});
  size_t bytes = 0;
  for (const JobEvent& event : reply.events) bytes += event.text.size();
  EXPECT_EQ(reply.events.size(), EventLog::kEventsAnsweredMax);
  EXPECT_LT(bytes, EventLog::kRingBytesMax);
  EXPECT_GT(reply.forgotten, 8'000);
}

TEST(EventLog, Finding08_AllRingsTogetherAreBoundedAndTheLargestGivesFirst) {
  constexpr size_t kMost = size_t{1} << 20;
  EventLog log(7, 100'000, kMost);
  log.Note(At(1), "small", {.text = "what became of it"});
  for (int job = 0; job < 100; ++job) {
    for (int i = 0; i < 100; ++i) {
      log.Note(At(1), "large" + std::to_string(job), {.text = std::string(1000, 'x')});
      ASSERT_LE(log.memory(), kMost);
    }
  }
  EXPECT_GT(log.memory(), kMost / 2);
  EXPECT_THAT(Texts(log.After(At(1), {.job = "small"})), ElementsAre("what became of it"));
  const WatchEventsReply large = log.After(At(1), {.job = "large0"});
  EXPECT_GT(large.forgotten, 0);
  EXPECT_FALSE(large.events.empty()) << "who came first is not forgotten for the others";
}

TEST(EventLog, Finding08_ATextOfSeveralLinesBecomesOne) {
  EventLog log(7, 10);
  log.Note(At(1), "a", {.member = "x\ny", .text = "host\n2026-01-01 error job 'b': forged\x1b[2J"});
  const JobEvent event = log.After(At(1), {.job = "a"}).events.at(0);
  EXPECT_EQ(event.text, "host 2026-01-01 error job 'b': forged [2J");
  EXPECT_EQ(event.member, "x y");
}

TEST(EventLog, AnswersPageByPage) {
  EventLog log(7, 5000);
  for (int i = 0; i < 2500; ++i) log.Note(At(1), "a", {.text = std::to_string(i)});
  wire::native::WatchEvents request{.job = "a", .log = 7};
  std::vector<size_t> sizes;
  for (int page = 0; page < 4; ++page) {
    const WatchEventsReply reply = log.After(At(1), request);
    sizes.push_back(reply.events.size());
    request.after = reply.next_after;
  }
  EXPECT_THAT(sizes, ElementsAre(1000u, 1000u, 500u, 0u));
}

TEST(EventOf, TakesWhatTheNoticeSays) {
  const JobEvent event = EventOf("digits", {.severity = coord::Severity::kError,
                                            .text = "job 'digits': task/2#1 was lost",
                                            .about = {coord::LogKind::kMemberLost, {}},
                                            .attempt = 3,
                                            .member = "task/2#1"});
  EXPECT_EQ(event.kind, EventKind::kMemberLost);
  EXPECT_EQ(event.severity, wire::native::EventSeverity::kError);
  EXPECT_EQ(event.text, "task/2#1 was lost");
  EXPECT_EQ(event.attempt, 3);
  EXPECT_EQ(event.member, "task/2#1");
}

TEST(LogLimiter, CountsWhatItLeavesOut) {
  LogLimiter limiter(2, absl::Seconds(10));
  EXPECT_EQ(limiter.Pass(At(0), "a"), "a");
  EXPECT_EQ(limiter.Pass(At(1), "b"), "b");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(limiter.Pass(At(2), "c"), std::nullopt);
  EXPECT_THAT(*limiter.Pass(At(10), "d"), HasSubstr("d (5 lines like it were left out)"));
  EXPECT_EQ(limiter.Pass(At(11), "e"), "e");
}

}  // namespace
}  // namespace lockstep::observe
