#include "lockstep/data/engine/function_allowance.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::engine {
namespace {

using ::testing::HasSubstr;

TEST(FunctionAllowance, Finding01_AllowsNothingByDefault) {
  const absl::Status refused = FunctionAllowance().Find("my_package.text:encode").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(plan::ReasonOf(refused), plan::kFunctionRefused);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("--allow-function my_package.text:encode (or all of my_package.text)"));
}

TEST(FunctionAllowance, Finding01_AllowsModulesAndNames) {
  const auto allowance = *FunctionAllowance::Parse({"plain", "exact:f", "exact:Class._g"});
  EXPECT_EQ(*allowance.Find("plain:f"), FunctionGrant::kByModule);
  EXPECT_EQ(*allowance.Find("exact:f"), FunctionGrant::kByName);
  EXPECT_EQ(*allowance.Find("exact:Class._g"), FunctionGrant::kByName);
  for (const char* refused : {"plain:Class.f", "plain:_f", "plain.below:f", "exact:g", "other:f",
                              "plain", "plain:", ":f", "plain:f:g", "plain:f\n", ""}) {
    EXPECT_EQ(plan::ReasonOf(allowance.Find(refused).status()), plan::kFunctionRefused) << refused;
  }
  EXPECT_FALSE(allowance.Find("plain:" + std::string(1'000'000, 'f')).ok());
}

TEST(FunctionAllowance, Finding01_WhatReachesAnythingCannotBeAllowed) {
  for (const char* text : {"builtins", "builtins:exec", "os:system", "os.path", "subprocess",
                           "importlib.util:find_spec", "pickle:loads", "ctypes", "sys:exit"}) {
    EXPECT_EQ(FunctionAllowance::Parse({text}).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
  for (const char* text : {"", ":f", "m:", "m:f:g", "1m", "m..n", "m n", "m:f()", "../m"}) {
    EXPECT_FALSE(FunctionAllowance::Parse({text}).ok()) << text;
  }
}

}  // namespace
}  // namespace lockstep::engine
