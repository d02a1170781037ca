#include "lockstep/coord/kept_verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

using ::testing::ElementsAre;

class KeptVerdictsTest : public testing::Test {
 protected:
  KeptVerdictsTest()
      : job_({.size = 3, .kept_barrier_values_bytes_max = 10, .kept_barriers_max = 2}),
        kept_(job_) {
    CheckInvariants();
  }

  void Keep(const std::string& id, int64_t counter, std::string value = "") {
    MemberValues values;
    if (!value.empty()) {
      values = std::make_shared<const std::vector<MemberValue>>(
          std::vector<MemberValue>{{MemberIndex(0), std::move(value)}});
    }
    kept_.Keep(id, {counter, job_.everybody, nullptr, std::move(values)});
    kept_.ForgetOldest();
  }

  std::vector<std::string> Ids() const {
    std::vector<TimedRecord> records;
    kept_.Snapshot(records);
    std::vector<std::string> ids;
    for (const TimedRecord& timed : records) {
      ids.push_back(std::get<record::BarrierEnded>(timed.record).id);
    }
    return ids;
  }

  JobRecord job_;
  KeptVerdicts kept_;
};

TEST_F(KeptVerdictsTest, TheOldestIsForgottenAndAnAgainKeptOneIsTheNewest) {
  Keep("a", 0);
  Keep("b", 0);
  EXPECT_FALSE(kept_.Find("c"));
  Keep("a", 1);
  EXPECT_THAT(Ids(), ElementsAre("b", "a"));
  Keep("c", 0);
  EXPECT_THAT(Ids(), ElementsAre("a", "c"));
  EXPECT_EQ(kept_.Find("a")->counter, 1);
}

TEST_F(KeptVerdictsTest, ThatSomeMayBeForgottenIsKnownFromWhatIsLeft) {
  Keep("a", 0);
  EXPECT_FALSE(kept_.forgot_some());
  Keep("b", 0);
  EXPECT_TRUE(kept_.forgot_some());
}

TEST_F(KeptVerdictsTest, AHeldOneIsNotForgottenAndIsTheNewestWhenReleased) {
  Keep("a", 0);
  kept_.Hold("a");
  for (const char* id : {"b", "c", "d"}) Keep(id, 0);
  EXPECT_EQ(kept_.size(), 2u);
  EXPECT_THAT(Ids(), ElementsAre("c", "d", "a"));
  kept_.Release("a");
  kept_.ForgetOldest();
  EXPECT_THAT(Ids(), ElementsAre("d", "a"));
  kept_.Release("never seen");
}

TEST_F(KeptVerdictsTest, TheOldestValuesAreForgottenBeforeTheirVerdict) {
  Keep("a", 0, "123456");
  Keep("b", 0, "123456");
  EXPECT_EQ(kept_.Find("a")->values, nullptr);
  EXPECT_TRUE(kept_.Find("a")->values_forgotten);
  EXPECT_FALSE(kept_.Find("b")->values_forgotten);
  // Also of an id whose next instance is open, and by itself when it is too large.
  kept_.Hold("b");
  Keep("c", 0, "12345678901");
  EXPECT_TRUE(kept_.Find("b")->values_forgotten);
  EXPECT_TRUE(kept_.Find("c")->values_forgotten);
}

TEST_F(KeptVerdictsTest, NothingIsCountedOfWhatIsForgotten) {
  Keep("a", 0, "1234");
  Keep("b", 0);
  const size_t two = kept_.memory();
  EXPECT_GT(two, 0u);
  Keep("c", 0);
  Keep("a", 0, "1234");
  EXPECT_EQ(kept_.memory(), two);
}

}  // namespace
}  // namespace lockstep::coord
