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

}  // namespace
}  // namespace lockstep::server
