#include "lockstep/coord/job_lives.h"

#include <gtest/gtest.h>

namespace lockstep::coord {
namespace {

constexpr MemberIndex kMember(1);

TEST(JobLives, TellsAFormerLifeFromANewOne) {
  JobLives lives(2);
  EXPECT_TRUE(lives.Begin(kMember, Incarnation(7)));
  EXPECT_FALSE(lives.Begin(kMember, Incarnation(7))) << "it is the newest already";
  EXPECT_TRUE(lives.Begin(kMember, Incarnation(8)));

  EXPECT_TRUE(lives.IsFormer(kMember, Incarnation(7)));
  EXPECT_FALSE(lives.IsFormer(kMember, Incarnation(8)));
  EXPECT_FALSE(lives.IsFormer(kMember, Incarnation(9)));
  EXPECT_TRUE(lives.IsNew(kMember, Incarnation(9)));
  EXPECT_FALSE(lives.IsNew(kMember, Incarnation(7)));
  EXPECT_EQ(lives.Count(kMember), 2);
  EXPECT_EQ(lives.Count(MemberIndex(0)), 0);
}

TEST(JobLives, NumbersLivesOnWhenTheOldestAreForgotten) {
  JobLives lives(2);
  for (uint64_t life = 1; life <= kLivesKeptMax + 2; ++life) {
    lives.Begin(kMember, Incarnation(life));
  }
  EXPECT_TRUE(lives.IsNew(kMember, Incarnation(2))) << "it is forgotten";

  JobLives restored(2);
  for (const record::MemberChanged& life : lives.RecordsOf(kMember)) {
    restored.Restore(life.member, life.incarnation, life.life);
  }
  EXPECT_EQ(restored.Of(kMember), lives.Of(kMember));
  EXPECT_EQ(restored.Count(kMember), lives.Count(kMember));
}

}  // namespace
}  // namespace lockstep::coord
