#include "lockstep/stock/tcpstore/listener/progress_check.h"

#include <string>

#include "gmock/gmock.h"

namespace lockstep::net {
namespace {

using testing::HasSubstr;
using Sight = ProgressCheck::Sight;

// What the last of so many looks at the same thing says.
std::string LookTimes(ProgressCheck& check, int times, const Sight& sight) {
  std::string why;
  for (int i = 0; i < times; ++i) why = check.Look(sight);
  return why;
}

TEST(ProgressCheck, AConnectionThatRestsStays) {
  ProgressCheck check;
  EXPECT_EQ(LookTimes(check, 10, {.commands = 7, .reads = true, .sent = 100}), "");
}

TEST(ProgressCheck, ClosesAConnectionThatReadsNoAnswerForThreeLooks) {
  ProgressCheck check;
  check.Look({.commands = 1});
  const Sight unread = {.commands = 1, .unsent = 500};
  EXPECT_EQ(LookTimes(check, 2, unread), "");
  EXPECT_THAT(check.Look(unread), HasSubstr("not read any of 500 bytes"));
}

TEST(ProgressCheck, ClosesAConnectionThatLeavesARequestHalfSent) {
  ProgressCheck check;
  check.Look({.commands = 1});
  const Sight half = {.commands = 1, .pending = 9, .reads = true};
  EXPECT_EQ(LookTimes(check, 2, half), "");
  EXPECT_THAT(check.Look(half), HasSubstr("of which 9 bytes arrived"));
}

TEST(ProgressCheck, WhatTheServerHoldsUpIsNotTheClientsFault) {
  ProgressCheck check;
  EXPECT_EQ(LookTimes(check, 10, {.commands = 1, .pending = 9, .reads = false}), "");
}

TEST(ProgressCheck, ALongRequestThatGrowsQuicklyStays) {
  ProgressCheck check;
  Sight sight = {.reads = true};
  for (int i = 0; i < 10; ++i) {
    sight.pending += ProgressCheck::kRequestBytesMin;
    EXPECT_EQ(check.Look(sight), "");
  }
}

TEST(ProgressCheck, ProgressStartsTheCountAnew) {
  ProgressCheck check;
  check.Look({});
  EXPECT_EQ(LookTimes(check, 2, {.unsent = 500}), "");
  EXPECT_EQ(LookTimes(check, 3, {.unsent = 400, .sent = 100}), "");
  EXPECT_NE(check.Look({.unsent = 400, .sent = 100}), "");
}

}  // namespace
}  // namespace lockstep::net
