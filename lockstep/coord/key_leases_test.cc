#include "lockstep/coord/key_leases.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace lockstep::coord {
namespace {

constexpr MemberIndex kOwner(1);

Time At(int64_t seconds) { return Time() + absl::Seconds(seconds); }

TEST(KeyLeases, FindsTheKeyThatWasDueFirst) {
  KeyLeases leases;
  leases.Grant("late", nullptr, {.expires = At(9)});
  leases.Grant("soon", nullptr, {.expires = At(5)});
  leases.Grant("never", nullptr, {});
  EXPECT_EQ(leases.FirstExpiry(), At(5));
  EXPECT_EQ(leases.FindExpired(At(4)), nullptr);
  ASSERT_NE(leases.FindExpired(At(5)), nullptr);
  EXPECT_EQ(*leases.FindExpired(At(10)), "soon");

  leases.Grant("soon", std::make_unique<StoredKey>(StoredKey{.expires = At(5)}).get(),
               {.expires = At(20)});
  EXPECT_EQ(*leases.FindExpired(At(10)), "late") << "a new lease replaces the old one";
  leases.End("late", {.expires = At(9)});
  leases.End("soon", {.expires = At(20)});
  EXPECT_EQ(leases.FirstExpiry(), Time::Infinite());
}

TEST(KeyLeases, ListsWhatAMemberOwnedOnceItIsGone) {
  const StoredKey owned{.owner = kOwner};
  KeyLeases leases;
  leases.Grant("a", nullptr, owned);
  leases.Grant("b", nullptr, owned);
  EXPECT_FALSE(leases.Dies("a", owned));
  EXPECT_FALSE(leases.OwnerGone(MemberIndex(2)));
  EXPECT_TRUE(leases.OwnerGone(kOwner));
  EXPECT_TRUE(leases.Dies("a", owned));
  EXPECT_EQ(leases.TakeDying(), "a");
  EXPECT_TRUE(leases.any_dying());
  EXPECT_EQ(leases.TakeDying(), "b");
  EXPECT_FALSE(leases.any_dying());
  EXPECT_EQ(leases.TakeDying(), std::nullopt);
}

TEST(KeyLeases, TellsKeysOfANewLifeFromThoseThatDie) {
  const StoredKey owned{.owner = kOwner};
  KeyLeases leases;
  leases.Grant("old", nullptr, owned);
  leases.OwnerGone(kOwner);
  leases.Grant("new", nullptr, owned);
  EXPECT_TRUE(leases.Dies("old", owned));
  EXPECT_FALSE(leases.Dies("new", owned));
  leases.Grant("old", &owned, owned);
  EXPECT_FALSE(leases.Dies("old", owned)) << "it was set again";
  EXPECT_EQ(leases.TakeDying(), "old") << "its name is still listed; the table asks Dies";
}

}  // namespace
}  // namespace lockstep::coord
