#include "lockstep/stock/tcpstore/key_listing.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "lockstep/stock/tcpstore/store_harness.h"

namespace lockstep::tcpstore {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Le;

constexpr size_t kNoLimit = size_t{1} << 40;
const ConnectionId kOne(1);
const ConnectionId kTwo(2);

void Put(KeySpace& keys, absl::string_view name) {
  keys.Put(name, std::make_shared<const std::string>("v"));
}

// Keys of both tables.
std::string Name(size_t i) {
  return absl::StrFormat("%s%06d", i % 3 == 0 ? "/default_pg/" : i % 3 == 1 ? "/a" : "/z", i);
}

KeySpace Made(size_t count) {
  KeySpace keys;
  for (size_t i = 0; i < count; ++i) Put(keys, Name(i));
  return keys;
}

KeyListings::Ended AllSlices(KeyListings& listings, const KeySpace& keys) {
  while (true) {
    if (auto ended = listings.ListSlice(keys, kNoLimit)) return *std::move(ended);
  }
}

TEST(KeyListings, ASliceHasSoManyNamesAtMost) {
  const KeySpace keys = Made(5 * KeyListings::kNamesSliceMax + 1);
  ASSERT_TRUE(KeyListings::IsLong(keys));
  KeyListings listings;
  listings.Add(kOne, KeyListings::CostOf(keys));
  const KeyListings::Ended ended = AllSlices(listings, keys);
  EXPECT_EQ(ended.connection, kOne);
  EXPECT_EQ(ended.name_bytes, keys.NameBytes());
  std::vector<size_t> counts;
  for (const ValuePtr& slice : ended.names.packed) {
    uint64_t names = 0;
    for (size_t at = 0; at < slice->size(); ++names) {
      uint64_t size = 0;
      std::memcpy(&size, slice->data() + at, sizeof(size));
      at += sizeof(size) + size;
    }
    counts.push_back(names);
  }
  EXPECT_EQ(counts.size(), 6u);
  EXPECT_THAT(counts, Each(Le(KeyListings::kNamesSliceMax)));
  const std::vector<std::string> names = NamesIn(ended.names);
  EXPECT_EQ(names.size(), keys.keys());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(KeyListings, ASliceOfLongNamesHasSoManyBytes) {
  constexpr size_t kLong = 8000;
  KeySpace keys;
  for (char c = 'a'; c <= 'z'; ++c) Put(keys, std::string(kLong, c));
  ASSERT_TRUE(KeyListings::IsLong(keys));
  KeyListings listings;
  listings.Add(kOne, KeyListings::CostOf(keys));
  const KeyListings::Ended ended = AllSlices(listings, keys);
  EXPECT_GT(ended.names.packed.size(), 1u);
  for (const ValuePtr& slice : ended.names.packed) {
    EXPECT_LT(slice->size(), KeyListings::kBytesSliceMax + kLong + 8);
  }
  EXPECT_EQ(NamesIn(ended.names).size(), 26u);
}

// What is there from the first slice to the last is listed once, whatever happens to others.
TEST(KeyListings, AKeyThatStaysIsListedOnceThoughOthersComeAndGo) {
  std::mt19937 random(17);
  for (int round = 0; round < 20; ++round) {
    const size_t count = 3 * KeyListings::kNamesSliceMax + random() % 3000;
    KeySpace keys = Made(count);
    KeyListings listings;
    listings.Add(kOne, KeyListings::CostOf(keys));
    std::optional<KeyListings::Ended> ended;
    while (!(ended = listings.ListSlice(keys, kNoLimit))) {
      // Every seventh stays. The others are deleted, and some are set again or are new.
      for (int i = 0; i < 500; ++i) {
        const size_t at = random() % (2 * count);
        if (at % 7 == 0 && at < count) continue;
        if (random() % 2 == 0) {
          keys.Delete(Name(at));
        } else {
          Put(keys, Name(at));
        }
      }
    }
    std::map<std::string, int> listed;
    for (const std::string& name : NamesIn(ended->names)) ++listed[name];
    for (const auto& [name, times] : listed) ASSERT_EQ(times, 1) << name;
    for (size_t i = 0; i < count; i += 7) ASSERT_TRUE(listed.contains(Name(i))) << Name(i);
  }
}

TEST(KeyListings, EndsWhereAllKeysAreForgottenMeanwhile) {
  KeySpace keys = Made(2 * KeyListings::kNamesSliceMax);
  KeyListings listings;
  listings.Add(kOne, KeyListings::CostOf(keys));
  ASSERT_FALSE(listings.ListSlice(keys, kNoLimit));
  keys.ForgetAll();
  const auto ended = listings.ListSlice(keys, kNoLimit);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->names.count, KeyListings::kNamesSliceMax) << "those that it had";
}

TEST(KeyListings, MakesOneAfterTheOtherAndCountsThemAll) {
  const KeySpace keys = Made(KeyListings::kNamesSliceMax + 1);
  const size_t cost = KeyListings::CostOf(keys);
  KeyListings listings;
  listings.Add(kOne, cost);
  listings.Add(kTwo, cost);
  EXPECT_EQ(listings.bytes(), 2 * cost);
  EXPECT_EQ(AllSlices(listings, keys).connection, kOne);
  EXPECT_FALSE(listings.Has(kOne));
  EXPECT_EQ(listings.bytes(), cost);
  const KeyListings::Ended ended = AllSlices(listings, keys);
  EXPECT_EQ(ended.connection, kTwo);
  size_t bytes = 0;
  for (const ValuePtr& slice : ended.names.packed) bytes += slice->size();
  EXPECT_EQ(bytes, cost) << "which is what was said";
  EXPECT_TRUE(listings.empty());
  EXPECT_EQ(listings.bytes(), 0u);
}

TEST(KeyListings, OneThatIsForgottenInTheMiddleCostsNothingMore) {
  const KeySpace keys = Made(KeyListings::kNamesSliceMax + 1);
  KeyListings listings;
  listings.Add(kOne, 10);
  ASSERT_FALSE(listings.ListSlice(keys, kNoLimit));
  EXPECT_GT(listings.bytes(), 10u) << "more keys than there were";
  listings.Forget(kTwo);
  listings.Forget(kOne);
  EXPECT_TRUE(listings.empty());
  EXPECT_EQ(listings.bytes(), 0u);
}

TEST(KeyListings, EndsWithNamesThatAreTooLongTogether) {
  const KeySpace keys = Made(5 * KeyListings::kNamesSliceMax);
  KeyListings listings;
  listings.Add(kOne, KeyListings::CostOf(keys));
  const auto ended = listings.ListSlice(keys, 100);
  ASSERT_TRUE(ended) << "and not when all are listed";
  EXPECT_GT(ended->name_bytes, 100u);
  EXPECT_TRUE(listings.empty());
}

}  // namespace
}  // namespace lockstep::tcpstore
