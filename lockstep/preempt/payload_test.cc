#include "lockstep/preempt/payload.h"

#include "absl/strings/match.h"
#include "lockstep/testing/sights.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::At;

Notice One(const std::string& text, const std::string& id = "") {
  const auto notices = ParsePayload(At(), text, id);
  EXPECT_TRUE(notices.ok()) << notices.status();
  EXPECT_TRUE(notices.ok() && notices->size() == 1) << text;
  return notices.ok() && notices->size() == 1 ? notices->front() : Notice{};
}

TEST(Payload, NothingADurationAndATextAreNotices) {
  EXPECT_EQ(One("", "file").id, "file");
  EXPECT_EQ(One(" 1m30s\n").lead, absl::Seconds(90));
  EXPECT_EQ(One("rack 12 \x1b[31mis moved\n").text, "rack 12 [31mis moved");
  EXPECT_EQ(One("true").text, "");
}

TEST(Payload, AnObjectSaysMore) {
  const Notice notice =
      One(R"({"id": "d-7", "kind": "maintenance", "left": "5m", "text": "moved"})", "file");
  EXPECT_EQ(notice.id, "d-7");
  EXPECT_EQ(notice.kind, NoticeKind::kMaintenance);
  EXPECT_EQ(notice.lead, absl::Minutes(5));
  EXPECT_EQ(notice.text, "moved");
  EXPECT_EQ(One(R"({"left": 30})").lead, absl::Seconds(30));
  EXPECT_EQ(One(R"({"at": "2026-03-01T12:00:10Z"})").death, At(absl::Seconds(10)).steady);
}

TEST(Payload, WithoutAnIdItIsNamedByWhatItSays) {
  EXPECT_EQ(One(R"({"left": 30})").id, One(R"({ "left":30 })").id);
  EXPECT_NE(One(R"({"left": 30})").id, One(R"({"left": 31})").id);
}

TEST(Payload, SeveralInAnArray) {
  const auto notices = ParsePayload(At(), R"([{"id": "a"}, {"id": "b"}])", "file");
  ASSERT_TRUE(notices.ok());
  ASSERT_EQ(notices->size(), 2);
  EXPECT_EQ((*notices)[1].id, "b");
}

TEST(Payload, NullFalseAndEmptyAreNone) {
  for (const char* text : {"null", "false", "{}", "[]", " [ ]\n"}) {
    const auto notices = ParsePayload(At(), text);
    EXPECT_TRUE(notices.ok() && notices->empty()) << text;
  }
}

TEST(Payload, WhatIsHalfWrittenOrWrongIsRefusedWithoutQuotingIt) {
  for (const char* text :
       {R"({"id": "SECRET)", R"({"left": "SECRET"})", R"({"left": -5})", R"({"kind": "SECRET"})",
        R"({"at": "SECRET"})", R"(["SECRET"])", R"({"left": 1e300})"}) {
    const auto notices = ParsePayload(At(), text);
    EXPECT_FALSE(notices.ok()) << text;
    EXPECT_FALSE(absl::StrContains(notices.status().message(), "SECRET")) << notices.status();
  }
  EXPECT_FALSE(ParsePayload(At(), std::string(kPayloadBytesMax + 1, 'x')).ok());
  EXPECT_FALSE(ParsePayload(At(), std::string(60000, '[')).ok());
}

}  // namespace
}  // namespace lockstep::preempt
