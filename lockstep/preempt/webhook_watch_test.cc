#include "lockstep/preempt/webhook_watch.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lockstep/preempt/connection.h"
#include "lockstep/preempt/http_exchange.h"
#include "lockstep/testing/running_source.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::MakeOne;
using lockstep::testing::Running;
using lockstep::testing::TestDirectory;
using lockstep::testing::WriteFile;

BaseUrl UrlOf(const Running& http) {
  const std::string detail = http.set.health().at(0).detail;
  return *ParseBaseUrl(absl::StripSuffix(detail, "/notices"));
}

runtime::Address AddressOf(const BaseUrl& url) {
  return {.host = url.host, .port = static_cast<uint16_t>(url.port)};
}

TEST(HttpSource, APostIsANoticeAndADeleteWithdrawsIt) {
  Running http("http");
  const HttpExchange say = PlainExchange(UrlOf(http));
  auto answer =
      say({.method = "POST", .target = "/notices", .body = R"({"id": "a", "left": "10m"})"}, -1);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 200);
  const SourceEvent event = http.log.Next();
  EXPECT_EQ(event.source, "http");
  EXPECT_EQ(event.id, "a");
  EXPECT_GT(event.left, absl::Minutes(9));

  answer = say({.method = "DELETE", .target = "/notices/a"}, -1);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(http.log.Next().withdrawn);
}

TEST(HttpSource, ATokenFromAFileMustBeSaid) {
  const TestDirectory directory;
  WriteFile(directory / "token", "S3CRET\n");
  Running http("http:token-file=" + directory / "token");
  const HttpExchange say = PlainExchange(UrlOf(http));
  EXPECT_EQ(say({.method = "POST", .target = "/notices"}, -1)->status, 401);
  EXPECT_EQ(
      say({.method = "POST", .target = "/notices", .headers = {{"Authorization", "Bearer S3CRET"}}},
          -1)
          ->status,
      200);
  http.log.Next();
  http.set.Stop();
  EXPECT_FALSE(absl::StrContains(http.log.text(), "S3CRET"));
}

TEST(HttpSource, WhoSendsGarbageOrTooMuchIsAnsweredAndHeardNoLonger) {
  Running http("http");
  const BaseUrl url = UrlOf(http);
  for (const auto& [bytes, answer] :
       {std::pair{"garbage\r\n\r\n", "HTTP/1.1 400"},
        std::pair{"POST /notices HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", "HTTP/1.1 413"}}) {
    Connection connection({});
    ASSERT_TRUE(connection.Dial(AddressOf(url), absl::Minutes(1)).ok());
    LayerStream stream(connection, connection.socket());
    ASSERT_TRUE(stream.Write(bytes).ok());
    EXPECT_TRUE(absl::StartsWith(*stream.Read(), answer));
  }
  EXPECT_EQ(PlainExchange(url)({.method = "DELETE", .target = "/notices"}, -1)->status, 200);
}

TEST(HttpSource, AnAddressInUseAndOneForOthersAreRefused) {
  Running http("http");
  const BaseUrl url = UrlOf(http);
  SourceSet second(MakeOne(absl::StrCat("http:listen=127.0.0.1:", url.port)), {});
  EXPECT_EQ(second.Start().code(), absl::StatusCode::kUnavailable);
  for (const char* at : {"0.0.0.0:80", "127.example.org:80", "localhost:80", "[::]:80"}) {
    EXPECT_FALSE(MakeSources({absl::StrCat("http:listen=", at)}, BuiltinSources(), {}).ok()) << at;
  }
}

TEST(HttpSource, AConnectionThatSaysNothingDoesNotHoldUpTheStop) {
  Running http("http");
  const BaseUrl url = UrlOf(http);
  Connection connection({});
  ASSERT_TRUE(connection.Dial(AddressOf(url), absl::Minutes(1)).ok());
  http.set.Stop();
}

}  // namespace
}  // namespace lockstep::preempt
