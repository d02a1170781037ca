#include "lockstep/coord/key_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "lockstep/coord/key_name.h"

namespace lockstep::coord {
namespace {

using ::testing::StartsWith;

class KeyValuesTest : public testing::Test {
 protected:
  // Each returns the answer: a value, "ok", "waits", or the error as clients print it.
  std::string Set(const std::string& key, const std::string& value, bool overwrite = false) {
    keys_.Set(Time(), {.caller = Next(), .key = key, .value = value, .overwrite = overwrite},
              std::nullopt, out_);
    return Answer(last_);
  }
  std::string TryGet(const std::string& key) {
    keys_.TryGet({.caller = Next(), .key = key}, out_);
    return Answer(last_);
  }
  std::string Increment(const std::string& key, int64_t by) {
    keys_.Increment(Time(), {.caller = Next(), .key = key, .increment = by}, out_);
    return Answer(last_);
  }
  std::string Delete(const std::string& key) {
    keys_.Delete({.caller = Next(), .key = key}, out_);
    return Answer(last_);
  }
  CallId Get(const std::string& key) {
    keys_.Get(Time(), GetKey{.caller = Next(), .key = key}, true, out_);
    return last_;
  }

  std::string Answer(CallId call) const {
    for (const Reply& reply : out_.replies) {
      if (reply.call != call) continue;
      if (reply.error) return ToString(*reply.error);
      const auto* read = std::get_if<KeyRead>(&reply.answer);
      return read ? *read->entry.value : "ok";
    }
    return "waits";
  }

  Caller Next() {
    last_ = CallId(last_.value() + 1);
    return {.call = last_};
  }

  CoordinatorOptions options_{
      .keys_max = 3, .key_bytes_max = 20, .value_bytes_max = 30, .store_bytes_max = 50};
  KeyValues keys_{options_};
  Effects out_;
  CallId last_;
};

TEST(NormalKey, HasNoSlashesAtItsEndsAndNoneRepeated) {
  EXPECT_EQ(NormalKey("foo"), "foo");
  EXPECT_EQ(NormalKey("///a//b/c//"), "a/b/c");
  EXPECT_EQ(NormalKey("/"), "");
}

TEST(KeyName, IsTheNormalKey) {
  for (const char* key : {"", "/", "//", "foo", "/foo", "foo//", "///a//b/c//", "a/b", "a//b"}) {
    EXPECT_EQ(KeyName(key).view(), NormalKey(key)) << key;
  }
}

TEST(IsAtOrBelow, EndsAtAComponent) {
  EXPECT_TRUE(IsAtOrBelow("a", "a"));
  EXPECT_TRUE(IsAtOrBelow("a/b", "a"));
  EXPECT_TRUE(IsAtOrBelow("a/b", ""));
  EXPECT_FALSE(IsAtOrBelow("ab", "a"));
  EXPECT_FALSE(IsAtOrBelow("a", "a/b"));
}

TEST(QuotedKey, ShowsTheBeginningOfALongKey) {
  EXPECT_EQ(QuotedKey("a\n"), "'a\\n'");
  EXPECT_EQ(QuotedKey(std::string(300, 'k')), absl::StrCat("'", std::string(200, 'k'), "...'"));
}

TEST_F(KeyValuesTest, AnswersWaitersInTheirOwnSpelling) {
  const CallId waiter = Get("//a/b");
  EXPECT_EQ(Answer(waiter), "waits");
  EXPECT_EQ(keys_.waits(), 1u);

  EXPECT_EQ(Set("a/b/", "1"), "ok");

  EXPECT_EQ(Answer(waiter), "1");
  EXPECT_EQ(std::get<KeyRead>(out_.replies.front().answer).entry.key, "//a/b");
  EXPECT_EQ(keys_.waits(), 0u);
}

TEST_F(KeyValuesTest, ForgetsAWaiterThatLeft) {
  const CallId left = Get("a");
  const CallId stays = Get("a");

  EXPECT_TRUE(keys_.Forget(left));
  EXPECT_FALSE(keys_.Forget(left));
  Set("a", "1");

  EXPECT_EQ(Answer(left), "waits");
  EXPECT_EQ(Answer(stays), "1");
}

TEST_F(KeyValuesTest, IncrementsOver64Bits) {
  EXPECT_EQ(Increment("n", 3'000'000'000), "3000000000");
  EXPECT_EQ(Increment("n", 1), "3000000001");
  EXPECT_THAT(Increment("n", INT64_MAX), StartsWith("OUT_OF_RANGE"));
  EXPECT_EQ(TryGet("n"), "3000000001");

  Set("word", "x");
  EXPECT_THAT(Increment("word", 1), StartsWith("FAILED_PRECONDITION"));
}

TEST_F(KeyValuesTest, RefusesWhatIsOverALimitAndChangesNothing) {
  EXPECT_THAT(Set(std::string(21, 'k'), ""), StartsWith("RESOURCE_EXHAUSTED: a key of 21 bytes"));
  EXPECT_THAT(Set("a", std::string(31, 'v')), StartsWith("RESOURCE_EXHAUSTED: a value of 31"));
  EXPECT_EQ(Set("a", std::string(30, 'v')), "ok");
  EXPECT_THAT(Set("b", std::string(30, 'v')), StartsWith("RESOURCE_EXHAUSTED: the store"));
  EXPECT_EQ(keys_.table().bytes(), 31u);

  Set("b", "");
  Set("c", "");
  EXPECT_THAT(Set("d", ""), StartsWith("RESOURCE_EXHAUSTED: one key more"));
  EXPECT_EQ(keys_.table().size(), 3u);
}

TEST_F(KeyValuesTest, CountsBytesThroughOverwritesAndDeletes) {
  Set("a/x", "12345");
  Set("a/x", "1", true);
  Set("a/y", "1");
  EXPECT_EQ(keys_.table().bytes(), 8u);

  Delete("a");

  EXPECT_EQ(keys_.table().bytes(), 0u);
  EXPECT_EQ(keys_.table().size(), 0u);
}

TEST_F(KeyValuesTest, ShowsTheKeysBelowADirectoryInTheirOrder) {
  Set("a/c", "second");
  Set("a/b", "first");
  Set("ab/c", "beside it");
  std::vector<std::string> seen;
  const auto see = [&](absl::string_view key, const StoredKey& stored) {
    seen.push_back(absl::StrCat(key, "=", stored.value));
  };
  EXPECT_FALSE(keys_.table().ForEachBelow("a", "", 2, see));
  EXPECT_THAT(seen, testing::ElementsAre("a/b=first", "a/c=second"));
  EXPECT_TRUE(keys_.table().ForEachBelow("a", "", 1, see));
  EXPECT_FALSE(keys_.table().ForEachBelow("a", "a/b", 1, see));
  EXPECT_THAT(seen, testing::ElementsAre("a/b=first", "a/c=second", "a/b=first", "a/c=second"));
}

TEST_F(KeyValuesTest, RefusesAKeyWithAZeroByte) {
  EXPECT_THAT(Set(std::string("a\0z", 3), "1"), StartsWith("INVALID_ARGUMENT: key 'a\\x00z'"));
}

}  // namespace
}  // namespace lockstep::coord
