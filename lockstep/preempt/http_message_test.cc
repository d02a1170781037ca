#include "lockstep/preempt/http_message.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace lockstep::preempt {
namespace {

TEST(ParseBaseUrl, WhatItTakesAndWhatNot) {
  EXPECT_EQ(ParseBaseUrl("https://[fd00:ec2::254]:6443")->text(), "https://[fd00:ec2::254]:6443");
  EXPECT_EQ(ParseBaseUrl("http://h")->port, 80);
  EXPECT_EQ(ParseBaseUrl("https://h/a/")->prefix, "/a");
  for (const char* text : {"", "h", "ftp://h", "http://", "http://h:0", "http://h:x", "http://[::1",
                           "http://user:SECRET@h", "http://h/a?b", "http://h\r\n"}) {
    const auto url = ParseBaseUrl(text);
    EXPECT_FALSE(url.ok()) << text;
    EXPECT_FALSE(absl::StrContains(url.status().message(), "SECRET"));
  }
}

}  // namespace
}  // namespace lockstep::preempt
