#include "lockstep/stock/tensorflow/roles.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::wire::tensorflow {
namespace {

using ::testing::HasSubstr;

std::optional<MemberIndex> Found(const Roles& roles, std::string_view role, int32_t index) {
  auto found = roles.Find(role, index);
  if (auto* member = std::get_if<MemberIndex>(&found)) return *member;
  return std::nullopt;
}

coord::ErrorPtr Refused(const Roles& roles, std::string_view role, int32_t index) {
  auto found = roles.Find(role, index);
  auto* error = std::get_if<coord::ErrorPtr>(&found);
  return error ? *error : nullptr;
}

TEST(Roles, MembersOfTheFirstRoleComeFirst) {
  const Roles roles({{"worker", 2}, {"ps", 3}});
  EXPECT_EQ(Found(roles, "worker", 0), MemberIndex(0));
  EXPECT_EQ(Found(roles, "worker", 1), MemberIndex(1));
  EXPECT_EQ(Found(roles, "ps", 0), MemberIndex(2));
  EXPECT_EQ(Found(roles, "ps", 2), MemberIndex(4));
  EXPECT_EQ(roles.NameOf(MemberIndex(4), "worker").role, "ps");
  EXPECT_EQ(roles.NameOf(MemberIndex(4), "worker").index, 2);
  EXPECT_EQ(roles.NameOf(MemberIndex(1), "ps").role, "worker");
}

TEST(Roles, Row029AnUnknownRoleIsRefusedWithTheKnownOnes) {
  const Roles roles({{"chief", 1}, {"worker", 2}});
  coord::ErrorPtr error = Refused(roles, "evaluator", 0);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error->reason, coord::Reason::kUnknownRole);
  EXPECT_THAT(error->message, HasSubstr("not in the cluster"));
  EXPECT_THAT(error->message, HasSubstr("chief:1, worker:2"));
  EXPECT_NE(Refused(roles, "", 0), nullptr);  // nobody knows which
}

TEST(Roles, AnIndexOutsideTheRoleIsRefused) {
  const Roles roles({{"chief", 1}, {"worker", 2}});
  for (int32_t index : {1, 2, -1, 1 << 30}) {
    coord::ErrorPtr error = Refused(roles, "chief", index);
    ASSERT_NE(error, nullptr) << index;
    EXPECT_EQ(error->reason, coord::Reason::kUnknownMember);
    EXPECT_EQ(roles.FindOrStranger("chief", index), MemberIndex(-1));
  }
}

TEST(Roles, TheOnlyRoleIsMeantByWhoNamesNone) {
  const Roles roles({{"worker", 2}});
  EXPECT_EQ(Found(roles, "", 1), MemberIndex(1));
  EXPECT_EQ(Found(roles, "worker", 1), MemberIndex(1));
  EXPECT_EQ(Found(roles, "jax_worker", 1), std::nullopt);
  EXPECT_EQ(roles.NameOf(MemberIndex(1), "").role, "");
  EXPECT_EQ(roles.NameOf(MemberIndex(1), "worker").role, "worker");
}

TEST(Roles, ARoleWithoutANameIsCalledAsTheCallerCallsIt) {
  const Roles roles;
  EXPECT_EQ(Found(roles, "jax_worker", 7), MemberIndex(7));
  EXPECT_EQ(Found(roles, "", -3), MemberIndex(-3));  // the machine refuses it
  EXPECT_EQ(roles.NameOf(MemberIndex(7), "jax_worker").role, "jax_worker");
  EXPECT_EQ(roles.NameOf(MemberIndex(7), "").role, "");
  EXPECT_EQ(roles.NameOf(MemberIndex(7), "").index, 7);
}

}  // namespace
}  // namespace lockstep::wire::tensorflow
