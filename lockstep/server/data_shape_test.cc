// Which segments begin in which file.
#include "lockstep/server/data_shape.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/data/plan/plan_testing.h"
#include "lockstep/wire/native/data_definition.h"

namespace lockstep::server {
namespace {

// Lines of files with so many records each, and what `more` adds.
std::shared_ptr<const dispatch::Shape> Make(const std::vector<int64_t>& records,
                                            const std::function<void(plan::Builder&)>& more) {
  std::vector<std::string> paths;
  plan::Manifest manifest;
  for (size_t i = 0; i < records.size(); ++i) {
    paths.push_back("/f" + std::to_string(i));
    manifest.files.push_back({.node = 1, .path = paths.back(), .records = records[i]});
  }
  plan::Builder builder;
  builder.Add("lines", {}, {{"paths", paths}});
  more(builder);
  const dispatch::ShapeOrError made = MakeDataShape(
      wire::native::EncodeDefinition(builder.definition()), wire::native::EncodeManifest(manifest));
  EXPECT_EQ(made.error, nullptr) << made.error->message;
  return made.shape;
}

TEST(DataShape, KnowsUpToWhereSegmentsBeginInOneFile) {
  const std::vector<int64_t> records = {3, 0, 5, 1, 0, 40};
  for (const int64_t segment : {1, 2, 3, 7, 20, 49, 50, 1000}) {
    for (const int64_t count : {-1, 1, 30}) {
      const auto shape = Make(records, [&](plan::Builder& builder) {
        builder.Count("repeat", count).Set("segment", segment);
      });
      for (int64_t at = 0; at < std::min<int64_t>(200, shape->segments()); ++at) {
        const int64_t index = at * segment % 49;
        EXPECT_EQ(shape->FileOf(at), index < 3 ? 0 : index < 8 ? 2 : index < 9 ? 3 : 5);
        ASSERT_GT(shape->FileUntil(at), at);
        for (int64_t next = at; next < std::min(shape->FileUntil(at), shape->segments()); ++next) {
          ASSERT_EQ(shape->FileOf(next), shape->FileOf(at)) << segment << " " << at << " " << next;
        }
      }
    }
  }
  // By runs, and not by segments.
  const auto large = Make({1'000'000'000, 1'000'000'000},
                          [](plan::Builder& builder) { builder.Set("segment", int64_t{1}); });
  EXPECT_EQ(large->FileUntil(0), 1'000'000'000);
  EXPECT_EQ(large->FileUntil(1'000'000'001), 2'000'000'000);
}

TEST(DataShape, AFileWithoutRecordsIsNotLookedFor) {
  const auto repeat = [](plan::Builder& builder) {
    builder.Count("repeat", int64_t{1} << 60).Set("segment", int64_t{1});
  };
  const auto shape = Make({1, 0}, repeat);
  EXPECT_TRUE(shape->HasRecords(0));
  EXPECT_FALSE(shape->HasRecords(1));
  EXPECT_EQ(shape->FileUntil(5), shape->segments()) << "there is no other file";
  EXPECT_EQ(shape->FileOf(shape->segments()), 0) << "there is no such segment";
}

TEST(DataShape, ShuffledSegmentsMayBeginAnywhere) {
  const auto shape = Make(
      {100, 100}, [](plan::Builder& builder) { builder.Shuffle(7).Set("segment", int64_t{1}); });
  EXPECT_EQ(shape->FileUntil(5), 6);
  int64_t of_second = 0;
  for (int64_t at = 0; at < 200; ++at) of_second += shape->FileOf(at);
  EXPECT_EQ(of_second, 100);
}

}  // namespace
}  // namespace lockstep::server
