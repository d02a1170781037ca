#include "lockstep/coord/kept_agreements.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep::coord {
namespace {

class KeptAgreementsTest : public testing::Test {
 protected:
  KeptAgreementsTest() { options_.kept_barriers_max = 2; }

  void Keep(const std::string& name, int64_t counter) { kept_.Keep(name, {.counter = counter}); }
  std::string Names() const {
    std::vector<TimedRecord> records;
    kept_.Snapshot(records);
    std::string names;
    for (const TimedRecord& each : records) {
      const auto& agreed = std::get<record::IndexAgreed>(each.record);
      absl::StrAppend(&names, agreed.name, agreed.counter, " ");
    }
    return names;
  }

  CoordinatorOptions options_;
  KeptAgreements kept_{options_};
};

TEST_F(KeptAgreementsTest, ForgetsTheOldestBeyondTheLimit) {
  Keep("a", 0);
  Keep("b", 0);
  Keep("a", 1);
  EXPECT_FALSE(kept_.forgot_some());
  Keep("c", 0);
  kept_.ForgetOldest();
  EXPECT_EQ(Names(), "a1 c0 ");
  EXPECT_TRUE(kept_.forgot_some());
  EXPECT_EQ(kept_.Find("b"), nullptr);
}

TEST_F(KeptAgreementsTest, ForgetsNoNameThatIsHeld) {
  Keep("a", 0);
  kept_.Hold("a");
  for (const char* name : {"b", "c", "d"}) Keep(name, 0);
  kept_.ForgetOldest();
  EXPECT_EQ(Names(), "c0 d0 a0 ");
  kept_.Release("a");
  kept_.ForgetOldest();
  EXPECT_EQ(Names(), "d0 a0 ");
}

TEST_F(KeptAgreementsTest, HoldsNothingThatIsNotKept) {
  kept_.Hold("a");
  kept_.Release("a");
  EXPECT_EQ(kept_.Find("a"), nullptr);
  EXPECT_EQ(kept_.size(), 0u);
}

}  // namespace
}  // namespace lockstep::coord
