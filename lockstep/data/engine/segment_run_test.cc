#include "lockstep/data/engine/segment_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/engine/engine_testing.h"
#include "lockstep/data/engine/source_file.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::engine {
namespace {

using plan::Builder;
using plan::ReasonOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

template <class T>
std::vector<T> MustRead(const Builder& builder, size_t leaf = 0, DatasetOptions options = {}) {
  const auto dataset = OpenDataset(builder, std::move(options));
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  if (!dataset.ok()) return {};
  auto values = All<T>(*dataset, leaf);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *std::move(values) : std::vector<T>();
}

absl::Status ErrorOf(const Builder& builder, DatasetOptions options = {}) {
  const auto dataset = OpenDataset(builder, std::move(options));
  if (!dataset.ok()) return dataset.status();
  return All<uint8_t>(*dataset).status();
}

TEST(SegmentRun, RangeInBatches) {
  Builder builder;
  builder.Range(10).Count("batch", 4);
  EXPECT_THAT(MustRead<int64_t>(builder), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  const auto dataset = OpenDataset(builder);
  LocalIteration iteration(*dataset);
  std::vector<int64_t> sizes;
  for (auto element = iteration.Next(); element->has_value(); element = iteration.Next()) {
    sizes.push_back((*element)->Parse()->leaf(0).dims[0]);
  }
  EXPECT_THAT(sizes, ElementsAre(4, 4, 2));
  builder.Set("drop_remainder", true);
  EXPECT_EQ(MustRead<int64_t>(builder).size(), 8u);
}

TEST(SegmentRun, SingleElements) {
  EXPECT_THAT(MustRead<int64_t>(Builder().Range(3)), ElementsAre(0, 1, 2));
}

// A segment's elements are the same whenever it runs, whatever ran before it.
TEST(SegmentRun, IsAFunctionOfItsNumber) {
  Builder builder;
  builder.Range(5000).Shuffle(1).Count("repeat", 2);
  builder.Expression("filter", "(eq (mod _ 3) 0)").Count("batch", 7);
  const auto dataset = *OpenDataset(builder);
  ASSERT_GT(dataset->plan().segments(), 3);
  std::vector<std::string> frames;
  LocalIteration iteration(dataset);
  for (auto element = iteration.Next(); element->has_value(); element = iteration.Next()) {
    const auto frame = (*element)->frame();
    frames.emplace_back(reinterpret_cast<const char*>(frame.data()), frame.size());
  }
  size_t next = 0;
  for (int64_t k = 0; k < dataset->plan().segments(); ++k) {
    auto run = *SegmentRun::Start(dataset, k);
    int64_t index = 0;
    for (auto element = run->Next(); element->has_value(); element = run->Next()) {
      const auto frame = (*element)->frame();
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(frame.data()), frame.size()),
                frames[next++]);
      const auto view = (*element)->Parse();
      EXPECT_EQ(view->segment(), k);
      EXPECT_EQ(view->index(), index++);
    }
  }
  EXPECT_EQ(next, frames.size());
  EXPECT_FALSE(SegmentRun::Start(dataset, dataset->plan().segments()).ok());
}

// Also where all is left out, so that no element ever comes back.
TEST(SegmentRun, EndsSoonWhenItIsStopped) {
  Builder builder;
  builder.Range(1'000'000'000)
      .Expression("filter", "(lt _ 0)")
      .Set("segment", int64_t{500'000'000});
  const auto dataset = *OpenDataset(builder);
  std::atomic<bool> stop = false;
  auto run = *SegmentRun::Start(dataset, 0, nullptr, &stop);
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    stop = true;
  });
  EXPECT_TRUE(absl::IsCancelled(run->Next().status()));
  stopper.join();
}

TEST(SegmentRun, LocalGoesOnInTheMiddle) {
  Builder builder;
  builder.Range(5000).Count("batch", 10);
  const auto dataset = *OpenDataset(builder);
  LocalIteration iteration(dataset, 2, 5);
  const auto element = iteration.Next();
  const auto view = (*element)->Parse();
  EXPECT_EQ(*reinterpret_cast<const int64_t*>(view->leaf(0).bytes.data()),
            dataset->plan().first_of(2) + 50);
}

TEST(SegmentRun, Windows) {
  const TestFiles files;
  std::vector<uint16_t> tokens(1000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i);
  files.Write("a.bin", BytesOfItems(tokens));
  files.Write("b.bin", BytesOfItems(tokens));
  for (const bool map : {false, true}) {
    Builder builder;
    builder.Add("windows", {},
                {{"paths", Strings{files.Path("*.bin")}},
                 {"dtype", std::string("uint16")},
                 {"length", int64_t{101}},
                 {"stride", int64_t{100}}});
    builder.Count("batch", 4);
    const auto values = MustRead<uint16_t>(builder, 0, {.map_files = map});
    ASSERT_EQ(values.size(), 18u * 101);
    for (size_t w = 0; w < 18; ++w) {
      for (size_t i = 0; i < 101; ++i) EXPECT_EQ(values[w * 101 + i], w % 9 * 100 + i);
    }
  }
}

TEST(SegmentRun, ShuffledRecordsComeOnceEach) {
  const TestFiles files;
  std::string bytes;
  for (int i = 0; i < 3000; ++i) {
    std::string record(100, '\0');
    std::memcpy(record.data(), &i, sizeof(i));
    bytes += record;
  }
  files.Write("a", bytes);
  for (const bool map : {false, true}) {
    Builder builder;
    builder.Add("records", {}, {{"paths", Strings{files.Path("a")}}, {"bytes", int64_t{100}}});
    builder.Shuffle(3).Count("batch", 256);
    const auto values = MustRead<uint8_t>(builder, 0, {.map_files = map});
    std::set<int> seen;
    for (size_t i = 0; i < values.size(); i += 100) {
      int id = 0;
      std::memcpy(&id, values.data() + i, sizeof(id));
      seen.insert(id);
    }
    EXPECT_EQ(seen.size(), 3000u);
    EXPECT_EQ(*seen.rbegin(), 2999);
  }
}

std::string Npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string head =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  head.resize(118, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + head + data;
}

TEST(SegmentRun, NpyRows) {
  const TestFiles files;
  files.Write("a.npy", Npy("<f4", "2, 3", BytesOfItems<float>({1, 2, 3, 4, 5, 6})));
  files.Write("b.npy", Npy("<f4", "1, 3", BytesOfItems<float>({7, 8, 9})));
  Builder builder;
  builder.Add("npy", {}, {{"paths", Strings{files.Path("*.npy")}}});
  builder.Expression("map", "(mul _ 2)").Count("batch", 2);
  EXPECT_THAT(MustRead<float>(builder), ElementsAre(2, 4, 6, 8, 10, 12, 14, 16, 18));
  files.Write("c.npy", Npy("<f4", "1, 4", BytesOfItems<float>({7, 8, 9, 10})));
  EXPECT_THAT(std::string(ErrorOf(builder).message()),
              HasSubstr("the files before it of float32[3]"));
}

TEST(SegmentRun, Lines) {
  const TestFiles files;
  files.Write("a.txt", "one\ntwo\r\n\nlast");
  Builder builder;
  builder.Add("lines", {}, {{"paths", Strings{files.Path("a.txt")}}});
  EXPECT_THAT(MustRead<std::string>(builder), ElementsAre("one", "two", "", "last"));
  builder.Count("batch", 3);
  EXPECT_THAT(MustRead<std::string>(builder), ElementsAre("one", "two", "", "last"));
  EXPECT_THAT(MustRead<std::string>(builder, 0, {.map_files = true}),
              ElementsAre("one", "two", "", "last"));
}

TEST(SegmentRun, PoisonedLine) {
  const TestFiles files;
  files.Write("a.txt", "one\n\xFF\nthree\n");
  Builder builder;
  builder.Add("lines", {}, {{"paths", Strings{files.Path("a.txt")}}});
  const absl::Status error = ErrorOf(builder);
  EXPECT_EQ(ReasonOf(error), plan::kRecordPoisoned);
  EXPECT_THAT(std::string(error.message()), HasSubstr("at position 1: record 1 of "));
  builder.Set("on_error", std::string("skip"));
  EXPECT_THAT(MustRead<std::string>(builder), ElementsAre("one", "three"));
}

TEST(SegmentRun, TfRecords) {
  const TestFiles files;
  std::string bytes;
  for (int i = 0; i < 5; ++i) bytes += TfRecord("record " + std::string(i, 'x'));
  files.Write("a.tfrecord", bytes);
  Builder builder;
  builder.Add("tfrecord", {}, {{"paths", Strings{files.Path("a.tfrecord")}}});
  EXPECT_THAT(MustRead<std::string>(builder),
              ElementsAre("record ", "record x", "record xx", "record xxx", "record xxxx"));
}

TEST(SegmentRun, PoisonedTfRecordsByPolicy) {
  const TestFiles files;
  std::string bytes;
  for (int i = 0; i < 6; ++i) {
    std::string record = TfRecord("record " + std::to_string(i));
    if (i == 2 || i == 4) record[13] = 'X';
    bytes += record;
  }
  bytes.resize(bytes.size() - 1);  // and the last is cut off
  files.Write("a.tfrecord", bytes);
  Builder builder;
  builder.Add("tfrecord", {}, {{"paths", Strings{files.Path("a.tfrecord")}}});
  EXPECT_THAT(std::string(ErrorOf(builder).message()), HasSubstr("its checksum differs"));
  builder.Set("on_error", std::string("skip"));
  EXPECT_THAT(MustRead<std::string>(builder), ElementsAre("record 0", "record 1", "record 3"));
  builder.Set("error_budget", int64_t{2});
  EXPECT_THAT(std::string(ErrorOf(builder).message()), HasSubstr("error_budget"));
  builder.Set("error_budget", int64_t{3});
  EXPECT_EQ(MustRead<std::string>(builder).size(), 3u);
}

TEST(SegmentRun, FilesThatChangeAreSeen) {
  const TestFiles files;
  files.Write("a", std::string(1000, 'a'));
  for (const bool map : {false, true}) {
    Builder builder;
    builder.Add("records", {}, {{"paths", Strings{files.Path("a")}}, {"bytes", int64_t{10}}});
    const auto manifest = *Resolve(builder.definition(), {});
    const auto open = [&] {
      return *Dataset::Open(builder.definition(), manifest, {.map_files = map});
    };
    const auto running = open();
    auto run = *SegmentRun::Start(running, 0);
    ASSERT_TRUE(run->Next().ok());
    files.Write("a", std::string(500, 'b'));
    absl::Status error;
    for (int i = 0; i < 200 && error.ok(); ++i) error = run->Next().status();
    EXPECT_EQ(ReasonOf(error), plan::kSourceChanged) << error;
    EXPECT_EQ(ReasonOf(All<uint8_t>(open()).status()), plan::kSourceChanged);
    EXPECT_THAT(std::string(error.message()), HasSubstr(files.Path("a")));
    files.Write("a", std::string(1000, 'a'));
  }
}

// What is read again and again in long pieces is copied from the mapping from some time on.
TEST(SegmentRun, LongPiecesAreTheSameInEachPass) {
  const TestFiles files;
  std::string bytes(1'500'007, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 7);
  const auto file = *SourceFile::Open(FileRoots({}), files.Write("a", bytes), /*map=*/true);
  std::string got(500'002, '\0');
  auto* const to = reinterpret_cast<std::byte*>(got.data());
  for (int pass = 0; pass < 4; ++pass) {
    for (const uint64_t from : {0, 1'000'005, 499'999}) {
      ASSERT_TRUE(file->Read(from, got.size(), to).ok());
      ASSERT_EQ(got, bytes.substr(from, got.size())) << pass << " " << from;
    }
  }
  files.Write("a", std::string(1'000'000, 'b'));
  EXPECT_EQ(ReasonOf(file->Read(999'999, got.size(), to)), plan::kSourceChanged);
  EXPECT_EQ(ReasonOf(file->Read(1'400'000, got.size(), to)), plan::kSourceChanged);
}

TEST(SegmentRun, PathsOutsideAreRefused) {
  const TestFiles files;
  const TestFiles others;
  files.Write("a", std::string(10, 'a'));
  others.Write("b", std::string(10, 'a'));
  std::filesystem::create_symlink(others.Path("b"), files.Path("link"));
  const DatasetOptions options = {.roots = {files.Path("")}};
  const auto with = [&](const std::string& path) {
    Builder builder;
    builder.Add("records", {}, {{"paths", Strings{path}}, {"bytes", int64_t{10}}});
    builder.At("train.py:3");
    return ErrorOf(builder, options);
  };
  EXPECT_TRUE(with(files.Path("a")).ok());
  for (const std::string& path :
       {others.Path("b"), files.Path("link"), files.Path("../../etc/passwd"),
        files.Path("../" +
                   std::filesystem::path(others.Path("")).parent_path().filename().string() +
                   "/b")}) {
    const absl::Status error = with(path);
    EXPECT_TRUE(ReasonOf(error) == plan::kPathRefused || ReasonOf(error) == plan::kSourceMissing)
        << error;
  }
  EXPECT_EQ(ReasonOf(with(files.Path("link"))), plan::kPathRefused);
  EXPECT_EQ(ReasonOf(with(files.Path("none-*"))), plan::kSourceMissing);
  EXPECT_THAT(std::string(with(files.Path("none")).message()), ::testing::StartsWith("train.py:3"));
}

TEST(SegmentRun, ArraysZippedWithRange) {
  Builder builder;
  builder.Add("array", {},
              {{"names", Strings{"x", "y"}},
               {"dtypes", Strings{"float32", "int16"}},
               {"shapes", Strings{"3,2", "3"}},
               {"data", Strings{BytesOfItems<float>({1, 2, 3, 4, 5, 6}),
                                BytesOfItems<int16_t>({7, 8, 9})}}});
  builder.Range(10);
  builder.Add("zip", {1, 2}, {{"names", Strings{"i"}}});
  builder.Shuffle(5).Count("batch", 2);
  const auto y = MustRead<int16_t>(builder, 1);
  const auto i = MustRead<int64_t>(builder, 2);
  ASSERT_EQ(y.size(), 3u);
  for (size_t k = 0; k < 3; ++k) EXPECT_EQ(y[k], 7 + i[k]);
}

TEST(SegmentRun, MapAndFilter) {
  Builder builder;
  builder.Range(10)
      .Expression("map", "(record \"a\" _ \"b\" (mul _ 0.5))")
      .Expression("filter", "(and (gt (get \"a\") 2) (ne (get \"a\") 5))")
      .Count("batch", 4);
  EXPECT_THAT(MustRead<int64_t>(builder), ElementsAre(3, 4, 6, 7, 8, 9));
  EXPECT_THAT(MustRead<double>(builder, 1), ElementsAre(1.5, 2, 3, 3.5, 4, 4.5));
}

TEST(SegmentRun, MapBehindBatch) {
  Builder builder;
  builder.Range(5).Count("batch", 2).Expression("map", "(add _ 1)");
  EXPECT_THAT(MustRead<int64_t>(builder), ElementsAre(1, 2, 3, 4, 5));
  builder.Expression("map", "(sum _)");
  EXPECT_THAT(MustRead<int64_t>(builder), ElementsAre(3, 7, 5));
}

TEST(SegmentRun, ExpressionsThatFailByPolicy) {
  Builder builder;
  builder.Range(4).Expression("map", "(floordiv 12 (sub _ 2))").At("train.py:9");
  const absl::Status error = ErrorOf(builder);
  EXPECT_EQ(ReasonOf(error), plan::kRecordPoisoned);
  EXPECT_THAT(std::string(error.message()),
              HasSubstr("train.py:9: map: at position 2: division by zero"));
  builder.Set("on_error", std::string("skip"));
  EXPECT_THAT(MustRead<int64_t>(builder), ElementsAre(-6, -12, 12));
}

TEST(SegmentRun, ConcatOfFilesAndMix) {
  const TestFiles files;
  files.Write("a.txt", "a0\na1\n");
  files.Write("b.txt", "b0\nb1\nb2\nb3\n");
  const auto lines = [&](Builder& builder) {
    for (const char* name : {"a.txt", "b.txt"}) {
      builder.Add("lines", {}, {{"paths", Strings{files.Path(name)}}});
    }
  };
  Builder concat;
  lines(concat);
  concat.Add("concat", {1, 2});
  EXPECT_THAT(MustRead<std::string>(concat), ElementsAre("a0", "a1", "b0", "b1", "b2", "b3"));
  Builder mix;
  lines(mix);
  mix.Add("mix", {1, 2}, {{"weights", std::vector<int64_t>{1, 2}}});
  EXPECT_EQ(MustRead<std::string>(mix).size(), 6u);
}

TEST(SegmentRun, FramesAreBornInTheCallersMemory) {
  Builder builder;
  builder.Add("fill", {},
              {{"count", int64_t{6}},
               {"dtype", std::string("uint8")},
               {"shape", std::vector<int64_t>{1 << 20}}});
  int calls = 0;
  const Allocator heap = HeapAllocator();
  DatasetOptions options;
  options.allocator = [&](uint64_t bytes) {
    ++calls;
    return heap(bytes);
  };
  EXPECT_EQ(MustRead<uint8_t>(builder, 0, options).size(), size_t{6} << 20);
  EXPECT_EQ(calls, 6);
}

// One piece of rows of more files than a run keeps open.
TEST(SegmentRun, APieceMayBeOfMoreFilesThanAreKeptOpen) {
  const TestFiles files;
  std::set<std::string> written;
  for (int i = 0; i < 300; ++i) {
    files.Write(absl::StrCat("lines-", i), absl::StrCat("line ", i, "\nmore\n"));
    written.insert(absl::StrCat("line ", i));
  }
  Builder builder;
  builder.Add("lines", {}, {{"paths", Strings{files.Path("lines-*")}}}).Shuffle(1);
  const Strings lines = MustRead<std::string>(builder);
  EXPECT_EQ(lines.size(), 600U);
  std::set<std::string> read(lines.begin(), lines.end());
  EXPECT_EQ(read.erase("more"), 1U);
  EXPECT_EQ(read, written);
}

// The soft limit of open files, until this goes.
class OpenFilesLimit {
 public:
  explicit OpenFilesLimit(rlim_t most) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = most;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~OpenFilesLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

// More files, of more datasets, than may be open.
TEST(SegmentRun, KeepsFewerFilesOpenThanTheProcessMay) {
  const TestFiles files;
  for (int i = 0; i < 100; ++i) files.Write(absl::StrCat("lines-", i), absl::StrCat(i, "\n"));
  std::vector<std::shared_ptr<const Dataset>> datasets;
  const OpenFilesLimit limit(64);
  for (int64_t seed = 0; seed < 8; ++seed) {
    Builder builder;
    builder.Add("lines", {}, {{"paths", Strings{files.Path("lines-*")}}}).Shuffle(seed);
    const auto dataset = OpenDataset(builder);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    LocalIteration iteration(*dataset);
    int count = 0;
    for (;; ++count) {
      const auto element = iteration.Next();
      ASSERT_TRUE(element.ok()) << element.status();
      if (!element->has_value()) break;
    }
    EXPECT_EQ(count, 100);
    datasets.push_back(*dataset);
  }
}

TEST(SegmentRun, SaysThatNoMoreFilesMayBeOpen) {
  const TestFiles files;
  files.Write("lines", "a\n");
  Builder builder;
  builder.Add("lines", {}, {{"paths", Strings{files.Path("lines")}}});
  const auto dataset = *OpenDataset(builder);
  const OpenFilesLimit limit(0);
  const absl::Status status = LocalIteration(dataset).Next().status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("RLIMIT_NOFILE"));
}

}  // namespace
}  // namespace lockstep::engine
