#include "lockstep/data/plan/plan.h"

#include <algorithm>
#include <limits>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/data/plan/permutation.h"
#include "lockstep/data/plan/plan_testing.h"

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<int64_t> Places(const Plan& plan, int64_t first, int64_t count) {
  std::vector<Record> records(static_cast<size_t>(count) * plan.width());
  plan.Fill(first, records);
  std::vector<int64_t> places;
  for (const Record& record : records) places.push_back(record.index);
  return places;
}

Plan MustMake(const Builder& builder) {
  auto plan = Plan::Make(builder.definition(), {});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(Permutation, IsOneForEverySize) {
  for (uint64_t size = 0; size < 300; ++size) {
    const Permutation permutation(size, 7 * size);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) seen.insert(permutation(i));
    EXPECT_EQ(seen.size(), size);
    EXPECT_TRUE(seen.empty() || *seen.rbegin() == size - 1);
  }
}

// Neighbours go far apart: of random order one pair in n/2 would stay side by side.
TEST(Permutation, LeavesNoNeighboursTogether) {
  const Permutation permutation(100'000, 1);
  int together = 0;
  for (uint64_t i = 0; i + 1 < 100'000; ++i) {
    const auto a = static_cast<int64_t>(permutation(i));
    const auto b = static_cast<int64_t>(permutation(i + 1));
    if (std::abs(a - b) == 1) ++together;
  }
  EXPECT_LT(together, 12);
}

TEST(Plan, RangeIsItself) {
  const Plan plan = MustMake(Builder().Range(5));
  EXPECT_EQ(plan.positions(), 5);
  EXPECT_EQ(plan.segments(), 1);
  EXPECT_THAT(Places(plan, 0, 5), ElementsAre(0, 1, 2, 3, 4));
}

TEST(Plan, TakeAndSkip) {
  EXPECT_THAT(Places(MustMake(Builder().Range(9).Count("skip", 2).Count("take", 3)), 0, 3),
              ElementsAre(2, 3, 4));
  EXPECT_EQ(MustMake(Builder().Range(9).Count("skip", 20)).positions(), 0);
}

TEST(Plan, EachEpochIsAnotherPermutation) {
  const Plan plan = MustMake(Builder().Range(100).Shuffle(3).Count("repeat", 3));
  EXPECT_EQ(plan.positions(), 300);
  EXPECT_EQ(plan.epoch_positions(), 100);
  std::vector<std::vector<int64_t>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    auto places = Places(plan, 100 * epoch, 100);
    orders.push_back(places);
    std::sort(places.begin(), places.end());
    for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(places[i], i);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  // However it is asked for.
  for (int64_t i = 0; i < 300; ++i) EXPECT_EQ(plan.At(i).index, orders[i / 100][i % 100]);
}

TEST(Plan, ForEverHasNoEnd) {
  const Plan plan = MustMake(Builder().Range(3).Count("repeat", -1).Count("batch", 2));
  EXPECT_EQ(plan.positions(), kInfinite);
  EXPECT_EQ(plan.segments(), kInfinite);
  EXPECT_EQ(plan.positions_of(int64_t{1} << 40), plan.segment_positions());
  EXPECT_EQ(plan.elements_of(7), plan.segment_positions() / 2);
  EXPECT_THAT(Places(plan, (int64_t{1} << 50) * 3, 4), ElementsAre(0, 1, 2, 0));
}

TEST(Plan, ShuffleOfWhatNeverEndsIsRefused) {
  const auto plan = Plan::Make(Builder().Range(3).Count("repeat", -1).Shuffle(1).definition(), {});
  EXPECT_THAT(plan.status().message(), HasSubstr("put it before repeat"));
}

TEST(Plan, ConcatZipAndMix) {
  Builder concat;
  concat.Range(3).Range(2);
  concat.Add("concat", {1, 2});
  EXPECT_THAT(Places(MustMake(concat), 0, 5), ElementsAre(0, 1, 2, 0, 1));

  Builder zip;
  zip.Range(3).Range(5);
  zip.Add("zip", {1, 2}, {{"names", std::vector<std::string>{"a", "b"}}});
  const Plan zipped = MustMake(zip);
  EXPECT_EQ(zipped.positions(), 3);
  EXPECT_EQ(zipped.width(), 2u);
  EXPECT_EQ(ToText(zipped.spec()), "a:int64[];b:int64[]");

  Builder mix;
  mix.Range(100).Range(10);
  mix.Add("mix", {1, 2}, {{"weights", std::vector<int64_t>{3, 1}}});
  const Plan mixed = MustMake(mix);
  std::vector<Record> records(static_cast<size_t>(mixed.positions()));
  mixed.Fill(0, records);
  int64_t next[2] = {0, 0};
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].index, next[records[i].source]++);
    // In every prefix each has its share, to within one.
    EXPECT_NEAR(static_cast<double>(next[1]), static_cast<double>(i + 1) / 4, 1.0);
  }
  EXPECT_EQ(next[1], 10);
}

TEST(Plan, SegmentsHoldWholeBatches) {
  const Plan plan = MustMake(Builder().Range(1'000'000).Count("batch", 100));
  EXPECT_EQ(plan.segment_positions() % 100, 0);
  EXPECT_EQ(*plan.elements(), 10'000);
  int64_t elements = 0;
  int64_t positions = 0;
  for (int64_t k = 0; k < plan.segments(); ++k) {
    elements += *plan.elements_of(k);
    positions += plan.positions_of(k);
  }
  EXPECT_EQ(elements, 10'000);
  EXPECT_EQ(positions, 1'000'000);
  EXPECT_EQ(plan.positions_of(plan.segments()), 0);
}

TEST(Plan, TheUserChoosesTheSegment) {
  Builder builder;
  builder.Range(100).Count("batch", 8);
  builder.Set("segment", int64_t{20});
  EXPECT_EQ(MustMake(builder).segment_positions(), 24);
}

TEST(Plan, LargeRecordsMakeSmallSegments) {
  Builder builder;
  builder.Add("fill", {},
              {{"count", int64_t{1000}},
               {"dtype", std::string("uint8")},
               {"shape", std::vector<int64_t>{8 << 20}}});
  EXPECT_EQ(MustMake(builder).segment_positions(), 2);
}

TEST(Plan, TakeBehindBatchCountsBatches) {
  const Plan plan = MustMake(Builder().Range(100).Count("batch", 8).Count("take", 3));
  EXPECT_EQ(plan.positions(), 24);
  EXPECT_EQ(*plan.elements(), 3);
}

TEST(Plan, FilteredElementsAreNotArithmetic) {
  const Plan plan = MustMake(Builder().Range(10).Expression("filter", "(gt _ 3)"));
  EXPECT_EQ(plan.elements_of(0), std::nullopt);
}

TEST(Plan, ManifestCountsTheRecords) {
  Builder builder;
  builder.Add("records", {}, {{"paths", std::vector<std::string>{"*"}}, {"bytes", int64_t{100}}});
  const Manifest manifest = {.files = {{.node = 1, .path = "/a", .bytes = 300, .records = 3},
                                       {.node = 1, .path = "/b", .bytes = 400, .records = 4}}};
  EXPECT_TRUE(NeedsManifest(builder.definition()));
  EXPECT_EQ(Plan::Make(builder.definition(), manifest)->positions(), 7);
}

TEST(Check, ErrorsBeginWithTheUsersLine) {
  Builder builder;
  builder.Range(10).Expression("map", "(get \"x\")");
  builder.At("train.py:12");
  const auto spec = Check(builder.definition());
  EXPECT_EQ(ReasonOf(spec.status()), kDefinitionInvalid);
  EXPECT_THAT(std::string(spec.status().message()), StartsWith("train.py:12: map: "));
}

TEST(Check, NamesWhatIsWrong) {
  const auto error = [](const Builder& builder) {
    return std::string(Check(builder.definition()).status().message());
  };
  EXPECT_THAT(error(Builder().Range(1).Count("batch", 0)), HasSubstr("count must be from 1"));
  EXPECT_THAT(error(Builder().Range(1).Count("batch", 2).Shuffle(1)), HasSubstr("before batch"));
  EXPECT_THAT(error(Builder().Range(1).Count("btach", 2)), HasSubstr("no such operator"));
  Builder misspelt;
  misspelt.Add("range", {}, {{"stop", int64_t{1}}, {"stpe", int64_t{1}}});
  EXPECT_THAT(error(misspelt), HasSubstr("it has no 'stpe'"));
  Builder lacks;
  lacks.Add("range", {}, {});
  EXPECT_THAT(error(lacks), HasSubstr("it needs 'stop'"));
  Builder type;
  type.Add("range", {}, {{"stop", 1.5}});
  EXPECT_THAT(error(type), HasSubstr("stop must be a whole number, not a float"));
  EXPECT_THAT(error(Builder()), HasSubstr("no operators"));
}

TEST(Identity, IsOfTheMeaning) {
  Definition a = Builder().Range(10).Shuffle(1).definition();
  const Definition plain = a;
  a.nodes[0].where = "x.py:1";
  a.nodes[0].id = 77;
  a.nodes[1].inputs = {77};
  a.nodes[0].attrs["step"] = int64_t{1};
  EXPECT_EQ(Identity(a), Identity(plain));
  EXPECT_EQ(Identity(a).size(), 32u);
  a.nodes[1].attrs["seed"] = int64_t{2};
  EXPECT_NE(Identity(a), Identity(plain));
}

// Journals and cursors hold them.
TEST(Identity, NeverChanges) {
  EXPECT_EQ(Identity(Builder().Range(10).definition()), "89a6a3bbc853a505c42f54031e51c539");
  EXPECT_THAT(Places(MustMake(Builder().Range(1000).Shuffle(7).Count("repeat", 2)), 998, 4),
              ElementsAre(530, 852, 714, 843));
}

TEST(Spec, TextGoesBothWays) {
  for (const char* text : {"int64[]", "text[]", "x:float32[3,?];y:bytes[?]"}) {
    const auto spec = ParseSpec(text);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(ToText(*spec), text);
  }
  for (const char* text : {"", "int64", "int64[", "int63[]", "x:int8[];x:int8[]", "int8[-1]",
                           "int8[];int8[]", ":int8[]"}) {
    EXPECT_FALSE(ParseSpec(text).ok()) << text;
  }
}

TEST(Plan, IsInOrderWhereOneSourceIsReadFromItsBeginningAgainAndAgain) {
  EXPECT_TRUE(MustMake(Builder().Range(10)).in_order());
  EXPECT_TRUE(MustMake(Builder().Range(10).Count("repeat", 3)).in_order());
  EXPECT_TRUE(MustMake(Builder().Range(10).Count("repeat", -1)).in_order());
  EXPECT_FALSE(MustMake(Builder().Range(10).Count("skip", 3)).in_order());
  EXPECT_FALSE(MustMake(Builder().Range(10).Shuffle(7).Count("repeat", 3)).in_order());
  EXPECT_FALSE(MustMake(Builder().Range(10).Count("repeat", 3).Count("take", 25)).in_order());
}

TEST(Plan, PlacesStayInTheSourceWhateverIsSkipped) {
  for (const int64_t count :
       {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max() - 1, int64_t{7}}) {
    Builder builder;
    builder.Range(10).Count("repeat", -1).Count("skip", count);
    const Plan plan = MustMake(builder);
    const int64_t last = std::numeric_limits<int64_t>::max() / plan.segment_positions() - 2;
    for (const int64_t segment : {int64_t{0}, last}) {
      for (const int64_t place : Places(plan, plan.first_of(segment), 20)) {
        EXPECT_GE(place, 0);
        EXPECT_LT(place, 10);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::plan
