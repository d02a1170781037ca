#include "lockstep/preempt/webhook_book.h"

#include "absl/strings/match.h"
#include "lockstep/testing/sights.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::At;

HttpMessage Request(const std::string& method, const std::string& target,
                    const std::string& body = "", HttpHeaders more = {}) {
  more.emplace_back("host", "127.0.0.1:8477");
  return {.method = method, .target = target, .headers = std::move(more), .body = body};
}
bool Is(const std::string& answer, int status) {
  return absl::StartsWith(answer, absl::StrCat("HTTP/1.1 ", status, " "));
}

TEST(WebhookBook, APostIsANoticeAndADeleteWithdrawsIt) {
  WebhookBook book("");
  const std::string answer =
      book.Answer(At(), Request("POST", "/notices", R"({"id": "a", "left": "30s"})"));
  EXPECT_TRUE(Is(answer, 200));
  EXPECT_TRUE(absl::StrContains(answer, R"({"ids":["a"]})"));
  ASSERT_EQ(book.notices().size(), 1);
  EXPECT_EQ(book.notices()[0].death, At(absl::Seconds(30)).steady);

  EXPECT_TRUE(Is(book.Answer(At(), Request("DELETE", "/notices/b")), 404));
  EXPECT_TRUE(Is(book.Answer(At(), Request("DELETE", "/notices/a")), 200));
  EXPECT_TRUE(book.notices().empty());
}

TEST(WebhookBook, TheSameIdAgainReplaces) {
  WebhookBook book("");
  book.Answer(At(), Request("POST", "/notices", R"({"id": "a", "left": "30s"})"));
  book.Answer(At(), Request("POST", "/notices", R"({"id": "a", "left": "60s"})"));
  ASSERT_EQ(book.notices().size(), 1);
  EXPECT_EQ(book.notices()[0].death, At(absl::Seconds(60)).steady);
  book.Answer(At(), Request("POST", "/notices", "10s"));
  EXPECT_EQ(book.notices().size(), 2);
  EXPECT_TRUE(Is(book.Answer(At(), Request("DELETE", "/notices")), 200));
  EXPECT_TRUE(book.notices().empty());
}

TEST(WebhookBook, WebPagesAndProxiesAreRefused) {
  WebhookBook book("");
  EXPECT_TRUE(
      Is(book.Answer(At(), Request("POST", "/notices", "", {{"origin", "http://x"}})), 403));
  EXPECT_TRUE(
      Is(book.Answer(At(), Request("POST", "/notices", "", {{"x-forwarded-for", "1"}})), 403));
  HttpMessage rebound = Request("POST", "/notices");
  rebound.headers = {{"host", "127.0.0.1.evil.example"}};
  EXPECT_TRUE(Is(book.Answer(At(), rebound), 403));
  EXPECT_TRUE(book.notices().empty());
}

TEST(WebhookBook, WithATokenItMustBeSaid) {
  WebhookBook book("SECRET");
  for (const char* said : {"", "Bearer SECRES", "Bearer SECRET2", "SECRET"}) {
    const std::string answer =
        book.Answer(At(), Request("POST", "/notices", "", {{"authorization", said}}));
    EXPECT_TRUE(Is(answer, 401)) << said;
    EXPECT_FALSE(absl::StrContains(answer, "SECRET"));
  }
  EXPECT_TRUE(
      Is(book.Answer(At(), Request("POST", "/notices", "", {{"authorization", "Bearer SECRET"}})),
         200));
}

TEST(WebhookBook, OtherPathsMethodsAndPayloadsAreRefused) {
  WebhookBook book("");
  EXPECT_TRUE(Is(book.Answer(At(), Request("POST", "/")), 404));
  EXPECT_TRUE(Is(book.Answer(At(), Request("POST", "/noticesx")), 404));
  EXPECT_TRUE(Is(book.Answer(At(), Request("GET", "/notices")), 405));
  EXPECT_TRUE(Is(book.Answer(At(), Request("POST", "/notices", "{\"id\"")), 400));
}

TEST(WebhookBook, HoldsNoMoreThanItsBound) {
  WebhookBook book("");
  for (int i = 0; i < 64; ++i) {
    book.Answer(At(), Request("POST", "/notices", absl::StrCat("text ", i)));
  }
  EXPECT_TRUE(Is(book.Answer(At(), Request("POST", "/notices", "one more")), 503));
  EXPECT_EQ(book.notices().size(), 64);
}

}  // namespace
}  // namespace lockstep::preempt
