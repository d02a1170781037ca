#include "lockstep/launch/output_routing.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

TEST(OutputRoutingTest, WithoutFlagsAllGoesEverywhere) {
  OutputRouting routing;
  EXPECT_TRUE(routing.ToConsole(0, kErrorStream));
  EXPECT_FALSE(routing.ToFile(0, kErrorStream)) << "there is no folder";
  routing.files = true;
  EXPECT_TRUE(routing.ToConsole(0, kOutputStream));
  EXPECT_TRUE(routing.ToFile(0, kOutputStream));
}

TEST(OutputRoutingTest, RedirectsGoToFilesOnlyAndTeesToBoth) {
  OutputRouting routing{.files = true,
                        .redirects = *StreamsOfRanks::Parse("0:3,1:1"),
                        .tee = *StreamsOfRanks::Parse("1:2")};
  EXPECT_FALSE(routing.ToConsole(0, kOutputStream));
  EXPECT_TRUE(routing.ToFile(0, kErrorStream));
  EXPECT_FALSE(routing.ToConsole(1, kOutputStream));
  EXPECT_TRUE(routing.ToConsole(1, kErrorStream));
  EXPECT_TRUE(routing.ToFile(1, kErrorStream));
  EXPECT_TRUE(routing.ToConsole(2, kOutputStream));
  EXPECT_FALSE(routing.ToFile(2, kOutputStream));
}

TEST(OutputRoutingTest, OnlySomeRanksAreShown) {
  OutputRouting routing{.files = true, .shown = *ParseRanks("0,2")};
  EXPECT_TRUE(routing.ToConsole(2, kOutputStream));
  EXPECT_FALSE(routing.ToConsole(1, kOutputStream));
  EXPECT_TRUE(routing.ToFile(1, kOutputStream));
}

TEST(OutputRoutingTest, NoneIsOfNoProcess) {
  EXPECT_TRUE(StreamsOfRanks::Parse("0")->none());
  EXPECT_TRUE(StreamsOfRanks::Parse("1:0")->none());
  EXPECT_FALSE(StreamsOfRanks::Parse("2")->none());
  EXPECT_FALSE(StreamsOfRanks::Parse("0:0,1:2")->none());
}

TEST(OutputRoutingTest, WhatMakesNoSenseIsRefused) {
  for (const char* wrong : {"", "4", "x", "0", "0:4", "1:", "a:1", "-1:3", "0:3,", "3,0"}) {
    EXPECT_EQ(StreamsOfRanks::Parse(wrong).ok(), std::string(wrong) == "0") << wrong;
  }
  EXPECT_FALSE(ParseRanks("0,x").ok());
  EXPECT_FALSE(ParseRanks("").ok());
}

}  // namespace
}  // namespace lockstep::launch
