#include "lockstep/server/event_feed.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::native::EventKind;
using wire::native::WatchEvents;
using wire::native::WatchEventsReply;

// A request, and what was answered to it.
class Call {
 public:
  link::Responder Responder() {
    return link::Responder(std::weak_ptr<link::Responder::Sink>(sink_), link::LinkId(1), 5, 1);
  }

  bool answered() const { return sink_->payload.has_value(); }
  bool failed() const { return answered() && sink_->payload->failed; }
  absl::StatusOr<WatchEventsReply> Reply() const {
    return wire::native::Decode<WatchEventsReply>(sink_->payload->bytes);
  }
  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    if (!answered() || failed()) return texts;
    const auto reply = Reply();
    for (const auto& event : reply->events) texts.push_back(event.text);
    return texts;
  }

 private:
  struct Sink : link::Responder::Sink {
    void Answer(link::LinkId, link::RequestKind, uint64_t, link::Payload got) override {
      payload = std::move(got);
    }
    std::optional<link::Payload> payload;
  };
  const std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
};

coord::LogEntry NoticeOf(const std::string& text) { return {.text = text}; }

TEST(EventFeed, AnswersWhoWaitsWithWhatComes) {
  EventFeed feed(7, 100);
  feed.Tell("digits", NoticeOf("one"));
  Call first;
  feed.Watch({.job = "digits", .wait = true}, first.Responder());
  EXPECT_THAT(first.Texts(), ElementsAre("one"));
  Call waits;
  feed.Watch({.job = "digits", .after = 1, .log = 7, .wait = true}, waits.Responder());
  feed.Tell("other", NoticeOf("not for it"));
  EXPECT_FALSE(waits.answered());
  feed.Tell("digits", NoticeOf("two"));
  EXPECT_THAT(waits.Texts(), ElementsAre("two"));
}

TEST(EventFeed, AnswersAtOnceWhoDoesNotWaitOrCountsElsewhere) {
  EventFeed feed(7, 100);
  Call now;
  feed.Watch({.job = "digits", .log = 7}, now.Responder());
  ASSERT_TRUE(now.answered());
  EXPECT_THAT(now.Texts(), IsEmpty());
  Call elsewhere;
  feed.Watch({.job = "digits", .after = 9, .log = 6, .wait = true}, elsewhere.Responder());
  ASSERT_TRUE(elsewhere.answered());
  EXPECT_EQ(elsewhere.Reply()->log, 7u);
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
  EXPECT_TRUE(waits.failed());
  EXPECT_THAT(feed.Read({.job = "digits"}).events, IsEmpty());
}

TEST(EventFeed, Finding20_RefusesOneMoreWhenTooManyWait) {
  EventFeed feed(7, 100);
  std::vector<Call> calls(EventFeed::kWatchersMax + 1);
  for (Call& call : calls) feed.Watch({.job = "j", .log = 7, .wait = true}, call.Responder());
  EXPECT_TRUE(calls.back().failed());
  EXPECT_FALSE(calls[0].answered());
  feed.JobDeleted("j", absl::NotFoundError("deleted"));
}

}  // namespace
}  // namespace lockstep::server
