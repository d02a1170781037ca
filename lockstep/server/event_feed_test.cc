#include "lockstep/server/event_feed.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::native::EventKind;
using wire::native::WatchEvents;
using wire::native::WatchEventsReply;

// What was answered to a request.
struct Call {
  std::optional<absl::StatusOr<std::string>> answer;

  // Where the answer goes, as a server would take it.
  struct Sink final : link::Responder::Sink {
    explicit Sink(Call& to) : call(to) {}
    void Answer(link::LinkId, link::RequestKind, uint64_t, link::Payload payload) override {
      if (!payload.failed) {
        call.answer = std::move(payload.bytes);
        return;
      }
      const auto error = wire::native::Decode<wire::native::ErrorReply>(payload.bytes);
      call.answer = wire::native::ToStatus(*error);
    }
    Call& call;
  };
  std::shared_ptr<Sink> sink = std::make_shared<Sink>(*this);

  link::Responder Responder() { return link::Responder(sink, link::LinkId(1), 5, 1); }
  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    if (!answer || !answer->ok()) return texts;
    const auto reply = wire::native::Decode<WatchEventsReply>(**answer);
    for (const auto& event : reply->events) texts.push_back(event.text);
    return texts;
  }
};

coord::Notice NoticeOf(const std::string& text) { return {.text = text}; }

TEST(EventFeed, AnswersWhoWaitsWithWhatComes) {
  EventFeed feed(7, 100);
  feed.Tell("digits", NoticeOf("one"));
  Call first;
  feed.Watch({.job = "digits", .wait = true}, first.Responder());
  EXPECT_THAT(first.Texts(), ElementsAre("one"));
  Call waits;
  feed.Watch({.job = "digits", .after = 1, .log = 7, .wait = true}, waits.Responder());
  feed.Tell("other", NoticeOf("not for it"));
  EXPECT_FALSE(waits.answer);
  feed.Tell("digits", NoticeOf("two"));
  EXPECT_THAT(waits.Texts(), ElementsAre("two"));
}

TEST(EventFeed, AnswersAtOnceWhoDoesNotWaitOrCountsElsewhere) {
  EventFeed feed(7, 100);
  Call now;
  feed.Watch({.job = "digits", .log = 7}, now.Responder());
  ASSERT_TRUE(now.answer);
  EXPECT_THAT(now.Texts(), IsEmpty());
  Call elsewhere;
  feed.Watch({.job = "digits", .after = 9, .log = 6, .wait = true}, elsewhere.Responder());
  ASSERT_TRUE(elsewhere.answer);
  EXPECT_EQ(wire::native::Decode<WatchEventsReply>(**elsewhere.answer)->log, 7u);
}

TEST(EventFeed, TellsOfJobsToBothWhoFollow) {
  EventFeed feed(7, 100);
  Call server;
  feed.Watch({.log = 7, .wait = true}, server.Responder());
  feed.TellOfJob("digits", EventKind::kJobCreated, "job 'digits' is served");
  EXPECT_THAT(server.Texts(), ElementsAre("job 'digits' is served"));
  EXPECT_EQ(feed.Read({.job = "digits"}).events.size(), 1u);
}

TEST(EventFeed, ADeletedJobEndsItsFollowers) {
  EventFeed feed(7, 100);
  feed.Tell("digits", NoticeOf("one"));
  Call waits;
  feed.Watch({.job = "digits", .after = 1, .log = 7, .wait = true}, waits.Responder());
  feed.JobDeleted("digits", absl::NotFoundError("deleted"));
  ASSERT_TRUE(waits.answer);
  EXPECT_EQ(waits.answer->status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(feed.Read({.job = "digits"}).events, IsEmpty());
}

TEST(EventFeed, AnswersTheOldestWhenTooManyWait) {
  EventFeed feed(7, 100);
  std::vector<Call> calls(EventFeed::kWatchersMax + 1);
  for (Call& call : calls) feed.Watch({.job = "j", .log = 7, .wait = true}, call.Responder());
  ASSERT_TRUE(calls[0].answer);
  EXPECT_THAT(calls[0].Texts(), IsEmpty());
  EXPECT_FALSE(calls[1].answer);
  feed.JobDeleted("j", absl::NotFoundError("deleted"));
}

}  // namespace
}  // namespace lockstep::server
