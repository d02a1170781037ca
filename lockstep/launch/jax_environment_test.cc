#include "lockstep/launch/jax_environment.h"

#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

TEST(JaxEnvironment, ReadsRecoverabilityAsJaxDoes) {
  for (const char* yes : {"1", "true", "True", "ON", "y", "yes", "t"}) {
    EXPECT_EQ(JaxRecoverability({{"JAX_ENABLE_RECOVERABILITY", yes}}, {}), true) << yes;
  }
  for (const char* no : {"0", "false", "False", "off", "N", "no", "f"}) {
    EXPECT_EQ(JaxRecoverability({{"JAX_ENABLE_RECOVERABILITY", no}}, {}), false) << no;
  }
  EXPECT_EQ(JaxRecoverability({{"JAX_ENABLE_X64", "1"}}, {}), std::nullopt);
  EXPECT_EQ(JaxRecoverability({{"JAX_ENABLE_RECOVERABILITY", "perhaps"}}, {}), std::nullopt)
      << "JAX itself says what is wrong";
}

TEST(JaxEnvironment, WhatTheRunGivesCountsBeforeWhatIsInherited) {
  const Environment yes = {{"JAX_ENABLE_RECOVERABILITY", "1"}};
  const Environment no = {{"JAX_ENABLE_RECOVERABILITY", "0"}};
  EXPECT_EQ(JaxRecoverability(yes, no), false);
  EXPECT_EQ(JaxRecoverability({}, yes), true);
}

}  // namespace
}  // namespace lockstep::launch
