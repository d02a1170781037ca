#include "lockstep/base/check.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(CheckDeathTest, ABrokenCheckNamesThePlaceAndTheCondition) {
  EXPECT_DEATH(LOCKSTEP_CHECK(1 + 1 == 3), "check_test.cc:[0-9]+: broken invariant: 1 \\+ 1 == 3");
}

TEST(CheckDeathTest, AnInvariantIsLookedAtOnlyWhereInvariantsAreChecked) {
  internal::invariants_are_checked = false;
  int looked = 0;
  LOCKSTEP_DCHECK(++looked < 0);
  EXPECT_EQ(looked, 0);
  CheckInvariants();
  LOCKSTEP_DCHECK(++looked == 1);
  EXPECT_EQ(looked, 1);
  EXPECT_DEATH(LOCKSTEP_DCHECK(looked == 2), "broken invariant: looked == 2");
}

}  // namespace
}  // namespace lockstep
