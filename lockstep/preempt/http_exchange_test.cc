// What an exchange does and does not, over real sockets.
#include "lockstep/preempt/http_exchange.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstdlib>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "lockstep/preempt/connection.h"
#include "lockstep/testing/fake_http_server.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::DrippingServer;
using lockstep::testing::FakeHttpServer;
using lockstep::testing::WireAnswer;

constexpr const char* kSecret = "S3CRET";
constexpr absl::Duration kShort = absl::Milliseconds(100);

BaseUrl AtPort(int port) { return {.host = "127.0.0.1", .port = port}; }

// Asks a server that answers everything so.
absl::StatusOr<HttpMessage> AskOneThatSays(const std::string& bytes) {
  FakeHttpServer server;
  server.Serve([&bytes](const HttpMessage&, FakeHttpServer::Lock&) { return bytes; });
  auto answer = PlainExchange(*ParseBaseUrl(server.url()))(
      {.target = "/", .headers = {{"X-Token", kSecret}}, .timeout = absl::Minutes(1)}, -1);
  EXPECT_EQ(server.requests().size(), 1);  // nothing is followed, and nothing asked again
  server.Stop();
  return answer;
}

// A descriptor that breaks an exchange off.
class Interrupt {
 public:
  int get() const { return fd_.get(); }
  void Set() { ::eventfd_write(fd_.get(), 1); }

 private:
  const Descriptor fd_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// Nobody accepts there, and the queue of those that wait for it is full.
class FullServer {
 public:
  FullServer() {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(::bind(listening_.get(), address, size), 0);
    EXPECT_EQ(::listen(listening_.get(), 0), 0);
    ::getsockname(listening_.get(), address, &size);
    port_ = ntohs(at.sin_port);
    for (const Descriptor& one : waiting_) ::connect(one.get(), address, size);
  }
  int port() const { return port_; }

 private:
  static Descriptor Socket() {
    return Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  }
  const Descriptor listening_ = Socket();
  const Descriptor waiting_[4] = {Socket(), Socket(), Socket(), Socket()};
  int port_ = 0;
};

TEST(PlainExchange, SaysWhatItIsToldAndNothingElse) {
  // What a proxy's variables say must change nothing.
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  ::setenv("all_proxy", "http://127.0.0.1:1", 1);
  FakeHttpServer server;
  HttpMessage asked;
  server.Serve([&asked](const HttpMessage& request, FakeHttpServer::Lock&) {
    asked = request;
    return WireAnswer(200, "pong", {{"Set-Cookie", "a=b"}, {"ETag", "e1"}});
  });
  const HttpExchange exchange = PlainExchange(*ParseBaseUrl(server.url() + "/base"));
  for (int i = 0; i < 2; ++i) {
    const auto answer = exchange(
        {.method = "PUT", .target = "/x?y=z", .headers = {{"A", "b c"}}, .body = "ping"}, -1);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->header("etag"), "e1");
    EXPECT_EQ(answer->body, "pong");
  }
  server.Stop();
  EXPECT_EQ(asked.method, "PUT");
  EXPECT_EQ(asked.target, "/base/x?y=z");
  EXPECT_EQ(asked.body, "ping");
  EXPECT_EQ(asked.headers,
            (HttpHeaders{{"host", std::string(absl::StripPrefix(server.url(), "http://"))},
                         {"connection", "close"},
                         {"accept-encoding", "identity"},
                         {"a", "b c"},
                         {"content-length", "4"}}));
  ::unsetenv("http_proxy");
  ::unsetenv("all_proxy");
}

TEST(PlainExchange, ARedirectIsAnAnswer) {
  EXPECT_EQ(AskOneThatSays(WireAnswer(302, "", {{"Location", "/elsewhere"}}))->status, 302);
}

TEST(PlainExchange, WhatIsNoAnswerIsAnErrorThatQuotesNothing) {
  using Code = absl::StatusCode;
  const std::string secret = kSecret;
  for (const auto& [bytes, code] :
       {std::pair{std::string(), Code::kUnavailable},
        std::pair{secret + " is no HTTP\r\n\r\n", Code::kDataLoss},
        std::pair{"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + secret, Code::kUnavailable},
        std::pair{"HTTP/1.1 200 OK\r\nX: " + std::string(1 << 20, 'x'), Code::kDataLoss},
        std::pair{WireAnswer(200, std::string(1 << 20, 'x')), Code::kResourceExhausted},
        std::pair{"HTTP/1.1 200 OK\r\n\r\n" + std::string(1 << 20, 'x'),
                  Code::kResourceExhausted}}) {
    const auto answer = AskOneThatSays(bytes);
    EXPECT_EQ(answer.status().code(), code) << answer.status();
    EXPECT_FALSE(absl::StrContains(answer.status().message(), secret));
  }
}

TEST(PlainExchange, WhatWouldBreakOutOfAHeaderIsNotSaid) {
  const auto answer = PlainExchange(AtPort(1))(
      {.target = "/", .headers = {{"X-Token", absl::StrCat(kSecret, "\r\nX: y")}}}, -1);
  EXPECT_FALSE(answer.ok());
  EXPECT_FALSE(absl::StrContains(answer.status().message(), kSecret));
}

TEST(PlainExchange, ThereIsOneDeadlineForAllOfItAlsoForWhoDrips) {
  for (const char* head : {"HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"}) {
    const DrippingServer server(head);
    const auto answer =
        PlainExchange(AtPort(server.port()))({.target = "/", .timeout = kShort}, -1);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded)
        << head << answer.status();
  }
}

TEST(PlainExchange, ConnectingHasADeadlineOfItsOwn) {
  const FullServer server;
  const auto answer = PlainExchange(AtPort(server.port()))(
      {.target = "/", .connect_timeout = kShort, .timeout = absl::Minutes(10)}, -1);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded) << answer.status();
}

TEST(PlainExchange, ItIsBrokenOffWhileNobodyAnswers) {
  const auto listening = ListenAt({.host = "127.0.0.1"});
  ASSERT_TRUE(listening.ok());
  Interrupt interrupt;
  std::thread breaks_off([&] {
    // Connected: the kernel has done that.
    WaitFor(listening->socket.get(), POLLIN, -1, Time::Infinite());
    interrupt.Set();
  });
  const auto answer = PlainExchange(AtPort(listening->port))(
      {.target = "/", .timeout = absl::InfiniteDuration()}, interrupt.get());
  breaks_off.join();
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled) << answer.status();
}

TEST(PlainExchange, ItIsBrokenOffWhileConnecting) {
  const FullServer server;
  Interrupt interrupt;
  interrupt.Set();
  const auto answer = PlainExchange(AtPort(server.port()))(
      {.target = "/", .connect_timeout = absl::Minutes(10), .timeout = absl::Minutes(10)},
      interrupt.get());
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled) << answer.status();
}

TEST(PlainExchange, ALookUpOfANameIsWaitedForNoLongerThanForAConnection) {
  // Where there is no name server it lasts for many seconds, where there is one it fails.
  const auto answer = PlainExchange({.host = "nobody.invalid"})(
      {.target = "/", .connect_timeout = kShort, .timeout = absl::Minutes(10)}, -1);
  EXPECT_FALSE(answer.ok());
}

TEST(PlainExchange, WithoutDescriptorsItFails) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP()
      << "the sanitizer of undefined behaviour takes descriptors itself to look at objects";
#endif
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto answer = PlainExchange(AtPort(1))({.target = "/"}, -1);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable) << answer.status();
}

}  // namespace
}  // namespace lockstep::preempt
