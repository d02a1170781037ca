#include "lockstep/preempt/http_wire.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace lockstep::preempt {
namespace {

// Reads `bytes` given whole, then one by one; both must come to the same.
absl::StatusOr<HttpMessage> Read(const std::string& bytes, bool end = false,
                                 bool first_line_only = false, size_t body_max = 100) {
  HttpReader whole(HttpReader::Kind::kAnswer, body_max, first_line_only);
  absl::Status status = whole.Take(bytes);
  if (status.ok() && end) status = whole.End();

  HttpReader slow(HttpReader::Kind::kAnswer, body_max, first_line_only);
  absl::Status slow_status;
  for (const char c : bytes) {
    if (slow_status.ok()) slow_status = slow.Take(std::string(1, c));
  }
  if (slow_status.ok() && end) slow_status = slow.End();
  EXPECT_EQ(status.code(), slow_status.code()) << bytes;
  EXPECT_EQ(whole.done(), slow.done()) << bytes;
  EXPECT_EQ(whole.message().body, slow.message().body);

  if (!status.ok()) return status;
  if (!whole.done()) return absl::UnavailableError("more must come");
  return whole.message();
}

TEST(HttpReader, ABodyOfAGivenLength) {
  const auto message = Read("HTTP/1.1 200 OK\r\nETag: a1\r\nContent-Length: 3\r\n\r\nabc");
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->status, 200);
  EXPECT_EQ(message->header("etag"), "a1");
  EXPECT_EQ(message->body, "abc");
}

TEST(HttpReader, AChunkedBody) {
  const auto message = Read(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n");
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->body, "abcde");
}

TEST(HttpReader, ABodyUntilTheEnd) {
  EXPECT_EQ(Read("HTTP/1.0 200 OK\r\n\r\nabc", true)->body, "abc");
  EXPECT_EQ(Read("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n")->status, 204);
}

TEST(HttpReader, TheFirstLineOfAnAnswerThatGoesOn) {
  const auto message =
      Read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n6\r\n{1}\n{2\r\n",
           false, true);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->body, "{1}");
  // A watch that ends without news.
  EXPECT_EQ(
      Read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false, true)->body,
      "");
}

TEST(HttpReader, WhatIsNotWholeIsAnError) {
  EXPECT_FALSE(Read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", true).ok());
  EXPECT_FALSE(Read("HTTP/1.1 200 OK\r\nContent-Le", true).ok());
  EXPECT_FALSE(Read("", true).ok());
}

TEST(HttpReader, WhatIsNoHttpIsRefusedAndNotQuoted) {
  for (const char* bytes :
       {"SECRET SECRET\r\n\r\n", "HTTP/1.1 SECRET\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nSECRET\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: SECRET\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nSECRET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nSECRET\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"}) {
    const auto message = Read(bytes, true);
    EXPECT_EQ(message.status().code(), absl::StatusCode::kDataLoss) << bytes;
    EXPECT_FALSE(absl::StrContains(message.status().message(), "SECRET"));
  }
}

TEST(HttpReader, WhatComesByteByByteAfterNothingIsReadToo) {
  // An empty chunked body, which Beast's own assertions do not take in pieces.
  EXPECT_EQ(Read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")->body, "");
}

TEST(HttpReader, WhatIsTooLongIsRefused) {
  const std::string head = "HTTP/1.1 200 OK\r\n";
  EXPECT_EQ(Read(head + "Content-Length: 101\r\n\r\n").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Read(head + "Content-Length: 101\r\n\r\n" + std::string(101, 'x')).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Read(head + "\r\n" + std::string(101, 'x')).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(Read(head + "X: " + std::string(17 << 10, 'x') + "\r\n\r\n").ok());
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(Read(chunked + "65\r\n").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Read(chunked + "1;" + std::string(17 << 10, 'x')).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_FALSE(Read(chunked + "0\r\nX: " + std::string(17 << 10, 'x')).ok());
}

TEST(Encode, WritesARequest) {
  const auto base = ParseBaseUrl("http://127.0.0.1:80/base/");
  ASSERT_TRUE(base.ok());
  EXPECT_EQ(
      *Encode(*base, {.method = "POST", .target = "/x", .headers = {{"A", "b c"}}, .body = "hi"}),
      "POST /base/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAccept-Encoding: "
      "identity\r\nA: b c\r\nContent-Length: 2\r\n\r\nhi");
}

TEST(Encode, NothingBreaksOutOfItsPlace) {
  const BaseUrl base = *ParseBaseUrl("http://h");
  EXPECT_FALSE(Encode(base, {.target = "/a b"}).ok());
  EXPECT_FALSE(Encode(base, {.target = "/a\r\nX: y"}).ok());
  const auto bad = Encode(base, {.target = "/", .headers = {{"T", "SECRET\r\nX: y"}}});
  EXPECT_FALSE(bad.ok());
  EXPECT_FALSE(absl::StrContains(bad.status().message(), "SECRET"));
}

}  // namespace
}  // namespace lockstep::preempt
