#include "lockstep/server/http_request.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::server {
namespace {

TEST(HttpRequest, TargetsAreTakenApart) {
  const HttpTarget target = *ParseHttpTarget("/v1/why.json?job=a%2Fb+c&after=&x&job=d%20e");
  EXPECT_EQ(target.path, "/v1/why.json");
  EXPECT_EQ(target.parameter("job"), "d e");
  EXPECT_EQ(target.parameter("after"), "");
  EXPECT_EQ(target.parameter("absent"), "");
  EXPECT_EQ(ParseHttpTarget("/%68ealthz")->path, "/healthz");
  for (const char* wrong : {"", "healthz", "http://x/", "/%", "/%2", "/%zz", "/?a=%g0"}) {
    EXPECT_FALSE(ParseHttpTarget(wrong).ok()) << wrong;
  }
}

TEST(HttpRequest, Finding04_HostsAreNumbersOrNamesThatWereGiven) {
  const std::vector<std::string> names = {"coordinator"};
  for (const char* ours : {"", "10.0.0.1", "10.0.0.1:80", "[::1]", "[fe80::1]:80", "LOCALHOST:1",
                           "coordinator", "Coordinator:7070"}) {
    EXPECT_TRUE(HostIsOurs(ours, names)) << ours;
  }
  for (const char* foreign : {"evil.example", "coordinator.evil.example", "[", "[::1", "[evil]",
                              "10.0.0.1.evil", ":", ":80", "localhost.evil"}) {
    EXPECT_FALSE(HostIsOurs(foreign, names)) << foreign;
  }
}

TEST(HttpRequest, BearerTokensAreFound) {
  EXPECT_EQ(BearerToken("Bearer abc"), "abc");
  EXPECT_EQ(BearerToken("bEARER   abc "), "abc");
  for (const char* none : {"", "Bearer", "Bearer ", "Basic abc", "Bearerabc", "abc"}) {
    EXPECT_EQ(BearerToken(none), "") << none;
  }
}

TEST(HttpRequest, AnAnswerSaysHowToAuthenticateWhereThatHelps) {
  const HttpAnswer plain = {.status = 401, .body = "x"};
  EXPECT_EQ(Encode(plain, false).find("WWW-Authenticate"), std::string::npos);
  const HttpAnswer challenge = {.status = 401, .body = "x", .challenge = "Bearer"};
  EXPECT_NE(Encode(challenge, false).find("401 Unauthorized\r\n"), std::string::npos);
  EXPECT_NE(Encode(challenge, true).find("\r\nWWW-Authenticate: Bearer\r\n"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::server
