#include "lockstep/stock/tcpstore/key_space.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"

namespace lockstep::tcpstore {
namespace {

using testing::ElementsAre;

ValuePtr Of(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

TEST(KeySpace, AValueReplacesTheOneBefore) {
  KeySpace keys;
  keys.Put("/a", Of("long"));
  keys.Put("/a", Of("x"));
  EXPECT_EQ(*keys.Value("/a"), "x");
  EXPECT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys.bytes(), 3u);
  EXPECT_TRUE(keys.InvariantsHold());
}

TEST(KeySpace, WhoHasAValueKeepsItWhenItIsLengthened) {
  KeySpace keys;
  keys.Put("/a", Of("1"));
  const ValuePtr before = keys.Value("/a");
  keys.Lengthen("/a", "2");
  EXPECT_EQ(*before, "1");
  EXPECT_EQ(*keys.Value("/a"), "12");
  keys.Lengthen("/b", "3");
  EXPECT_EQ(*keys.Value("/b"), "3") << "where there was none, it is the value";
  EXPECT_TRUE(keys.InvariantsHold());
}

TEST(KeySpace, AQueueExistsWhileItHoldsSomething) {
  KeySpace keys;
  keys.Push("/q", Of("1"));
  EXPECT_TRUE(keys.Exists("/q"));
  EXPECT_FALSE(keys.HasValue("/q"));
  EXPECT_FALSE(keys.Delete("/q")) << "which deletes a value";
  EXPECT_EQ(*keys.Pop("/q"), "1");
  EXPECT_FALSE(keys.Exists("/q"));
  EXPECT_EQ(keys.Pop("/q"), nullptr);
  EXPECT_EQ(keys.bytes(), 0u);
  EXPECT_TRUE(keys.InvariantsHold());
}

TEST(KeySpace, TheGroupIsForgottenByItself) {
  KeySpace keys;
  keys.Put("/a", Of("1"));
  keys.Put("/default_pg/a", Of("2"));
  keys.Push("/default_pg/q", Of("3"));
  EXPECT_EQ(keys.ForgetGroup(), 1u);
  EXPECT_TRUE(keys.HasValue("/a"));
  EXPECT_EQ(keys.QueueLength("/default_pg/q"), 1u) << "a queue is no key of the group";
  EXPECT_TRUE(keys.has_gone());
  EXPECT_TRUE(keys.InvariantsHold());
  keys.ForgetAll();
  EXPECT_EQ(keys.size(), 0u);
  EXPECT_TRUE(keys.InvariantsHold());
}

std::vector<std::string> NamesFrom(const KeySpace& keys, absl::string_view from, size_t max = 100) {
  std::vector<std::string> names;
  keys.VisitNames(from, [&](absl::string_view name) {
    names.emplace_back(name);
    return names.size() < max;
  });
  return names;
}

TEST(KeySpace, NamesAreInOrderWhicheverTableTheyAreIn) {
  KeySpace keys;
  keys.Put("/z", Of(""));
  keys.Put("/default_pg/a", Of(""));
  keys.Put("/a", Of(""));
  EXPECT_THAT(NamesFrom(keys, ""), ElementsAre("/a", "/default_pg/a", "/z"));
  EXPECT_THAT(NamesFrom(keys, "/b"), ElementsAre("/default_pg/a", "/z"));
  EXPECT_THAT(NamesFrom(keys, "/default_pg/b"), ElementsAre("/z"));
  EXPECT_THAT(NamesFrom(keys, "", 2), ElementsAre("/a", "/default_pg/a"));
}

TEST(KeySpace, KnowsHowLongItsNamesAre) {
  KeySpace keys;
  keys.Put("/z", Of("1"));
  keys.Put("/z", Of("2"));
  keys.Put("/default_pg/a", Of(""));
  keys.Put("/default_pg/b", Of(""));
  keys.Push("/q", Of(""));
  EXPECT_EQ(keys.NameBytes(), 2u + 13 + 13) << "which are those of keys with values";
  keys.Delete("/default_pg/b");
  EXPECT_EQ(keys.NameBytes(), 2u + 13);
  EXPECT_TRUE(keys.InvariantsHold());
  keys.ForgetGroup();
  EXPECT_EQ(keys.NameBytes(), 2u);
  keys.ForgetAll();
  EXPECT_EQ(keys.NameBytes(), 0u);
  EXPECT_TRUE(keys.InvariantsHold());
}

TEST(KeySpace, ARecordThatCannotFollowIsRefused) {
  KeySpace keys;
  EXPECT_FALSE(keys.Apply(record::KeyDeleted{"/a"}).ok());
  EXPECT_FALSE(keys.Apply(record::QueuePopped{"/a"}).ok());
  EXPECT_TRUE(keys.InvariantsHold());
}

}  // namespace
}  // namespace lockstep::tcpstore
