// What upstream's tests of a running data service ask, row by row, and elements in memory that
// worker and consumer share: readers, workers and the dispatcher in one process.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/error_reply.h"
#include "tests/native/data_cluster.h"

namespace lockstep {
namespace {

constexpr auto kLimit = std::chrono::seconds(20);

std::unique_ptr<DataReader> MustOpen(DataReaderOptions options) {
  auto reader = DataReader::Open(std::move(options));
  EXPECT_TRUE(reader.ok()) << reader.status();
  return reader.ok() ? *std::move(reader) : nullptr;
}

// Up to `most` elements, in their order.
std::vector<DataElement> Take(DataReader& reader, size_t most) {
  std::vector<DataElement> all;
  while (all.size() < most) {
    auto element = reader.Next({.timeout = absl::FromChrono(kLimit)});
    EXPECT_TRUE(element.ok()) << element.status();
    if (!element.ok() || !element->has_value()) break;
    all.push_back(**std::move(element));
  }
  return all;
}

std::vector<int64_t> NumbersOf(const std::vector<DataElement>& elements) {
  std::vector<int64_t> all;
  for (const DataElement& element : elements) {
    for (const int64_t number : NumbersOf(element)) all.push_back(number);
  }
  return all;
}

std::vector<int64_t> FromTo(int64_t first, int64_t end) {
  std::vector<int64_t> all(static_cast<size_t>(end - first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

constexpr size_t kAll = SIZE_MAX;

DataReaderOptions Exact(const DataCluster& cluster, plan::Definition definition,
                        const std::string& name) {
  return {.address = cluster.address(),
          .definition = std::move(definition),
          .name = name,
          .order = ReadOrder::kExact,
          .consumers = 1,
          .index = 0};
}

TEST(DataRows, DispatchRow047_WithoutShardingEachOfFiveWorkersMakesAll) {
  DataCluster cluster;
  for (int i = 0; i < 5; ++i) cluster.AddWorker();
  for (int i = 0; i < 1000 && cluster.View().workers.size() < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const auto reader = MustOpen({.address = cluster.address(),
                                .definition = Range(20),
                                .name = "off",
                                .sharding = ReadSharding::kOff});
  ASSERT_NE(reader, nullptr);
  std::map<int64_t, int> times;
  for (const int64_t number : NumbersOf(Take(*reader, kAll))) ++times[number];
  EXPECT_EQ(times.size(), 20U);
  for (const auto& [number, count] : times) EXPECT_EQ(count, 5) << number;
}

TEST(DataRows, DispatchRow113_ADatasetIsReadByItsName) {
  DataCluster cluster;
  cluster.AddWorker();
  const plan::Definition numbers = Range(50), others = Range(60);
  const auto registers = MustOpen(Exact(cluster, numbers, "by-definition"));
  ASSERT_NE(registers, nullptr);
  DataReaderOptions options = Exact(cluster, {}, "by-name");
  options.dataset = plan::Identity(numbers);
  const auto reader = MustOpen(options);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(NumbersOf(Take(*reader, kAll)), FromTo(0, 50));
  // One that nobody has registered.
  options.dataset = plan::Identity(others);
  options.name = "unknown";
  const auto unknown = DataReader::Open(options);
  ASSERT_FALSE(unknown.ok());
  EXPECT_TRUE(absl::IsNotFound(unknown.status())) << unknown.status();
  // Two datasets are not mixed up under one name.
  const auto other = DataReader::Open(Exact(cluster, others, "by-name"));
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(wire::native::ReasonOf(other.status()), "iteration_differs") << other.status();
}

TEST(DataRows, DispatchRow116_WithoutItsDispatcherAReaderGetsWhatItWasGranted) {
  DataCluster cluster;
  cluster.AddWorker();
  // Ten segments, which are fewer than are granted ahead.
  const auto reader = MustOpen(Exact(cluster, Range(1'000, 0, 100), "stopped"));
  ASSERT_NE(reader, nullptr);
  std::vector<DataElement> got = Take(*reader, 10);
  cluster.Stop();
  for (DataElement& element : Take(*reader, 990)) got.push_back(std::move(element));
  EXPECT_EQ(NumbersOf(got), FromTo(0, 1'000));
}

TEST(DataRows, DispatchRow121_TheServerMayComeAfterItsClient) {
  DataCluster cluster;
  cluster.Stop();
  std::atomic<bool> opened = false;
  std::vector<int64_t> got;
  std::thread client([&] {
    const auto reader = MustOpen(Exact(cluster, Range(100), "early"));
    opened = true;
    if (reader != nullptr) got = NumbersOf(Take(*reader, kAll));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_FALSE(opened);
  cluster.Restart();
  cluster.AddWorker();
  client.join();
  EXPECT_EQ(got, FromTo(0, 100));
}

// Upstream a worker that comes again begins its sequence anew. Here nobody sees that it was away.
TEST(DataRows, DispatchRow124_AWorkerThatComesAgainGoesOnWhereItWas) {
  for (const bool same_port : {true, false}) {
    DataCluster cluster;
    const size_t first = cluster.AddWorker();
    const std::string address = cluster.worker(first).address();
    const auto reader = MustOpen(Exact(cluster, Range(20'000, 0, 100), "again"));
    ASSERT_NE(reader, nullptr);
    std::vector<DataElement> got = Take(*reader, 1'000);
    cluster.KillWorker(first);
    cluster.AddWorker({.listen = same_port ? address : "127.0.0.1:0"});
    for (DataElement& element : Take(*reader, kAll)) got.push_back(std::move(element));
    EXPECT_EQ(NumbersOf(got), FromTo(0, 20'000)) << (same_port ? "same port" : "another port");
  }
}

TEST(DataRows, DispatchDefect24_IdsBeyond32BitsAreReadByThem) {
  DataCluster cluster({.first_id = int64_t{1} << 40});
  cluster.AddWorker();
  const auto reader = MustOpen(Exact(cluster, Range(1'000, 0, 100), "large-ids"));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(NumbersOf(Take(*reader, kAll)), FromTo(0, 1'000));
  EXPECT_GE(cluster.View().iterations.at(0).iteration.value(), int64_t{1} << 40);
}

// A reader that stands still keeps the segments of its window, and nobody waits for it.
TEST(DataRows, ASlowTrainerHoldsNobodyUpAndALateOneGetsItsShare) {
  DataCluster cluster;
  cluster.AddWorker();
  constexpr int64_t kElements = 4'000, kSegment = 50, kWindow = 2;
  const auto open = [&](const std::string& consumer) {
    return MustOpen({.address = cluster.address(),
                     .definition = Range(kElements, 0, kSegment),
                     .name = "shared",
                     .consumer = consumer});
  };
  const auto slow = open("slow"), fast = open("fast");
  ASSERT_NE(slow, nullptr);
  ASSERT_NE(fast, nullptr);
  std::vector<DataElement> all = Take(*slow, 1);
  // All but what the slow one may hold.
  std::vector<DataElement> of_fast = Take(*fast, kElements - (kWindow + 1) * kSegment);
  EXPECT_EQ(of_fast.size(), static_cast<size_t>(kElements - (kWindow + 1) * kSegment));
  const auto late = open("late");
  ASSERT_NE(late, nullptr);
  std::vector<std::vector<DataElement>> rest(3);
  std::vector<std::thread> threads;
  for (const auto& [reader, at] : {std::pair(slow.get(), 0), {fast.get(), 1}, {late.get(), 2}}) {
    threads.emplace_back(
        [&rest, reader = reader, at = static_cast<size_t>(at)] { rest[at] = Take(*reader, kAll); });
  }
  for (std::thread& thread : threads) thread.join();
  rest.push_back(std::move(of_fast));
  for (const auto& part : rest) all.insert(all.end(), part.begin(), part.end());
  std::vector<int64_t> numbers = NumbersOf(all);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, FromTo(0, kElements));
}

// --- Memory that worker and consumer share ---

TEST(SharedMemory, ElementsReadThroughItAreEqual) {
  std::vector<std::vector<DataElement>> got;
  for (const bool share : {true, false}) {
    DataCluster cluster;
    cluster.AddWorker({.share_memory = share});
    const auto reader = MustOpen(Exact(cluster, Range(20'000, 100, 1'000), "equal"));
    ASSERT_NE(reader, nullptr);
    got.push_back(Take(*reader, kAll));
    // Those that came before the memory was open came as bytes.
    EXPECT_EQ(reader->View().shared_elements > 0, share);
  }
  ASSERT_EQ(got[0].size(), got[1].size());
  for (size_t i = 0; i < got[0].size(); ++i) {
    const auto shared = got[0][i].frame(), copied = got[1][i].frame();
    EXPECT_TRUE(std::equal(shared.begin(), shared.end(), copied.begin(), copied.end())) << i;
  }
}

TEST(SharedMemory, AViewOutlivesItsWorkerAndItsReader) {
  DataCluster cluster;
  cluster.AddWorker();
  constexpr int64_t kElements = 400, kBatch = 1'000;
  auto reader = MustOpen(Exact(cluster, Range(kElements * kBatch, kBatch, kBatch), "outlives"));
  ASSERT_NE(reader, nullptr);
  // All but one: the first may have come before the memory was open.
  const std::vector<DataElement> held = Take(*reader, kElements - 1);
  ASSERT_GT(reader->View().shared_elements, 1);
  const std::vector<int64_t> wanted = FromTo(0, (kElements - 1) * kBatch);
  cluster.KillWorker(0);
  EXPECT_EQ(NumbersOf(held), wanted);
  // Another worker's memory does not come into its place.
  cluster.AddWorker();
  EXPECT_EQ(NumbersOf(Take(*reader, kAll)), FromTo((kElements - 1) * kBatch, kElements * kBatch));
  EXPECT_EQ(NumbersOf(held), wanted);
  reader.reset();
  EXPECT_EQ(NumbersOf(held), wanted);
}

// Who holds all that it gets is lent no more than the quota; the rest it gets as bytes.
TEST(SharedMemory, BeyondTheQuotaElementsComeAsBytes) {
  constexpr int64_t kLeasesMax = 4096;
  constexpr int64_t kElements = kLeasesMax + 1'000;
  DataCluster cluster;
  data::WorkerOptions options;
  options.cache.chunk_bytes = 1;  // one element is one lease
  cluster.AddWorker(options);
  const auto reader = MustOpen(Exact(cluster, Range(kElements, 0, 100), "quota"));
  ASSERT_NE(reader, nullptr);
  const std::vector<DataElement> held = Take(*reader, kAll);
  EXPECT_EQ(NumbersOf(held), FromTo(0, kElements));
  EXPECT_GT(reader->View().shared_elements, 0);
  EXPECT_LE(reader->View().shared_elements, kLeasesMax);
}

}  // namespace
}  // namespace lockstep
