// Elements that a program acknowledges by hand: who holds too many is told so at once.
#include <algorithm>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/wire/native/error_reply.h"
#include "tests/native/data_cluster.h"

namespace lockstep {
namespace {

constexpr absl::Duration kLong = absl::Seconds(20);

DataReaderOptions ByHand(const DataCluster& cluster, int64_t numbers, std::string consumer) {
  return {.address = cluster.address(),
          .definition = Range(numbers, 10, 100),  // ten elements in a segment
          .name = "held",
          .consumer = std::move(consumer),
          .acknowledge_by_itself = false};
}

std::unique_ptr<DataReader> MustOpen(DataReaderOptions options) {
  auto reader = DataReader::Open(std::move(options));
  EXPECT_TRUE(reader.ok()) << reader.status();
  return reader.ok() ? *std::move(reader) : nullptr;
}

// How many elements it gives until it says something else; that.
absl::Status ReadUntilStatus(DataReader& reader, int64_t& elements) {
  for (;;) {
    auto element = reader.Next({.timeout = kLong});
    if (!element.ok()) return element.status();
    if (!element->has_value()) return absl::OkStatus();
    ++elements;
  }
}

void ExpectAckNeeded(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(wire::native::ReasonOf(status), "ack_needed");
  EXPECT_NE(status.message().find(text), absl::string_view::npos) << status;
}

TEST(DataAcks, WhoMayGetNoMoreIsToldSoAtOnce) {
  DataCluster cluster;
  cluster.AddWorker();
  DataReaderOptions options = ByHand(cluster, 3'000, "one");
  options.unacknowledged_max = 70;
  const auto reader = MustOpen(options);
  ASSERT_NE(reader, nullptr);
  int64_t got = 0;
  ExpectAckNeeded(ReadUntilStatus(*reader, got), "unacknowledged_max, which is 70");
  EXPECT_EQ(got, 70);
  EXPECT_EQ(reader->View().unacknowledged, 70);
  // Also the next time, and without a moment's wait.
  const auto again = reader->Next({.timeout = absl::ZeroDuration()});
  ExpectAckNeeded(again.status(), "70 elements");
  while (got < 300) {
    ASSERT_TRUE(reader->AcknowledgeAll().ok());
    const int64_t before = got;
    const absl::Status why = ReadUntilStatus(*reader, got);
    if (got < 300) {
      EXPECT_EQ(got - before, 70);
      ExpectAckNeeded(why, "70 elements");
    } else {
      EXPECT_TRUE(why.ok()) << why;
    }
  }
}

TEST(DataAcks, BytesAreCountedToo) {
  DataCluster cluster;
  cluster.AddWorker();
  DataReaderOptions options = ByHand(cluster, 3'000, "one");
  options.unacknowledged_bytes_max = 1;
  const auto reader = MustOpen(options);
  ASSERT_NE(reader, nullptr);
  int64_t got = 0;
  ExpectAckNeeded(ReadUntilStatus(*reader, got), "unacknowledged_bytes_max, which is 1");
  EXPECT_EQ(got, 1);
}

TEST(DataAcks, TheEndIsToldToWhoHoldsAllThatIsLeft) {
  DataCluster cluster;
  cluster.AddWorker();
  const auto reader = MustOpen(ByHand(cluster, 50'000, "one"));
  ASSERT_NE(reader, nullptr);
  int64_t got = 0;
  const absl::Status end = ReadUntilStatus(*reader, got);
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_EQ(got, 5'000);  // of 500 segments, not those of a window
  EXPECT_EQ(cluster.View().iterations.at(0).phase, dispatch::Phase::kReading);
  // The server is told so in the next poll.
  const auto held = [&] { return cluster.View().iterations.at(0).consumers.at(0).unacknowledged; };
  for (int i = 0; i < 1'000 && held() < 5'000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(held(), 5'000);
  EXPECT_TRUE(cluster.View().iterations.at(0).consumers.at(0).has_all);
  EXPECT_EQ(cluster.View().workers_wanted, 0);
  ASSERT_TRUE(reader->AcknowledgeAll().ok());
  for (int i = 0; i < 1'000 && cluster.View().iterations.at(0).phase == dispatch::Phase::kReading;
       ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(cluster.View().iterations.at(0).phase, dispatch::Phase::kFinished);
}

TEST(DataAcks, TwoWhoWaitForEachOtherAreBothToldToAcknowledge) {
  DataCluster cluster;
  cluster.AddWorker();
  const auto one = MustOpen(ByHand(cluster, 1'000, "one"));
  const auto two = MustOpen(ByHand(cluster, 1'000, "two"));
  ASSERT_TRUE(one != nullptr && two != nullptr);
  std::set<int64_t> all;
  const auto read = [](DataReader& reader, std::vector<int64_t>& got, int& asked) {
    for (;;) {
      auto element = reader.Next({.timeout = kLong});
      if (element.ok() && !element->has_value()) return;
      if (!element.ok()) {
        ExpectAckNeeded(element.status(), "nothing else is left");
        ++asked;
        // The other waits still, until this is acknowledged.
        if (!reader.AcknowledgeAll().ok() || asked > 100) return;
        continue;
      }
      for (const int64_t number : NumbersOf(**element)) got.push_back(number);
    }
  };
  std::vector<int64_t> first, second;
  int first_asked = 0;
  int second_asked = 0;
  // One element each, so that both hold something.
  for (auto* reader : {one.get(), two.get()}) {
    auto element = reader->Next({.timeout = kLong});
    ASSERT_TRUE(element.ok() && element->has_value());
    for (const int64_t number : NumbersOf(**element)) {
      (reader == one.get() ? first : second).push_back(number);
    }
  }
  std::thread other([&] { read(*two, second, second_asked); });
  read(*one, first, first_asked);
  // What it holds until it is told the end, it acknowledges then: the other gets to the end, too.
  EXPECT_TRUE(one->AcknowledgeAll().ok());
  other.join();
  EXPECT_GT(first_asked + second_asked, 0);
  first.insert(first.end(), second.begin(), second.end());
  std::sort(first.begin(), first.end());
  std::vector<int64_t> wanted(1'000);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(first, wanted);
}

TEST(DataAcks, TheServersLimitIsNamed) {
  DataCluster cluster({.grants_max = 5});
  cluster.AddWorker();
  const auto reader = MustOpen(ByHand(cluster, 3'000, "one"));
  ASSERT_NE(reader, nullptr);
  int64_t got = 0;
  ExpectAckNeeded(ReadUntilStatus(*reader, got), "grants_max of the server, which is 5");
  EXPECT_EQ(got, 50);
}

}  // namespace
}  // namespace lockstep
