#include "lockstep/platform/runtime/reached_at.h"

#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

TEST(ReachedAt, AWildcardIsTheHostThatWasDialed) {
  EXPECT_EQ(ReachedAt("0.0.0.0:7071", "head.example:7070"), "head.example:7071");
  EXPECT_EQ(ReachedAt("[::]:7071", "[fd00::7]:7070"), "[fd00::7]:7071");
}

TEST(ReachedAt, WhatSaysWhereItIsStays) {
  EXPECT_EQ(ReachedAt("10.0.0.7:7071", "head:7070"), "10.0.0.7:7071");
  EXPECT_EQ(ReachedAt("", "head:7070"), "");
  EXPECT_EQ(ReachedAt("0.0.0.0:7071", "nonsense"), "0.0.0.0:7071");
}

}  // namespace
}  // namespace lockstep::runtime
