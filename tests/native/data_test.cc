// Readers, workers and the dispatcher in one process.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/native/data_cluster.h"

namespace lockstep {
namespace {

std::unique_ptr<DataReader> MustOpen(DataReaderOptions options) {
  auto reader = DataReader::Open(std::move(options));
  EXPECT_TRUE(reader.ok()) << reader.status();
  return reader.ok() ? *std::move(reader) : nullptr;
}

// All numbers that the reader gives, in its order.
std::vector<int64_t> ReadAll(DataReader& reader) {
  std::vector<int64_t> all;
  for (;;) {
    auto element = reader.Next({.timeout = absl::Seconds(20)});
    EXPECT_TRUE(element.ok()) << element.status();
    if (!element.ok() || !element->has_value()) return all;
    for (const int64_t number : NumbersOf(**element)) all.push_back(number);
  }
}

std::vector<int64_t> Iota(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(Data, OneReaderGetsAll) {
  DataCluster cluster;
  cluster.AddWorker();
  const auto reader =
      MustOpen({.address = cluster.address(), .definition = Range(10'000), .name = "all"});
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->name(), "all");
  EXPECT_EQ(reader->element_spec(), "int64[]");
  std::vector<int64_t> all = ReadAll(*reader);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, Iota(10'000));
}

TEST(Data, ThreeReadersShareTheElementsOfThreeWorkers) {
  DataCluster cluster;
  for (int i = 0; i < 3; ++i) cluster.AddWorker();
  std::vector<std::vector<int64_t>> got(3);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const auto reader = MustOpen(
          {.address = cluster.address(), .definition = Range(30'000, 10, 1000), .name = "shared"});
      if (reader != nullptr) got[i] = ReadAll(*reader);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int64_t> all;
  for (const auto& one : got) all.insert(all.end(), one.begin(), one.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, Iota(30'000));
}

}  // namespace
}  // namespace lockstep
