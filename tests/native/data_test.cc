// Readers, workers and the dispatcher in one process.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <future>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/wire/native/data_chunk.h"
#include "lockstep/wire/native/data_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/kinds.h"
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

// The elements of all consumers of an iteration, one after the other.
std::vector<std::vector<int64_t>> ReadTogether(const DataReaderOptions& options,
                                               int32_t consumers) {
  std::vector<std::vector<int64_t>> got(static_cast<size_t>(consumers));
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < consumers; ++i) {
    threads.emplace_back([&, i] {
      DataReaderOptions mine = options;
      mine.index = i;
      mine.consumers = consumers;
      const auto reader = MustOpen(std::move(mine));
      if (reader != nullptr) got[static_cast<size_t>(i)] = ReadAll(*reader);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return got;
}

TEST(Data, ExactOrderIsThatOfALocalRun) {
  DataCluster cluster;
  for (int i = 0; i < 3; ++i) cluster.AddWorker();
  const auto got = ReadTogether({.address = cluster.address(),
                                 .definition = Range(5'000, 0, 700),
                                 .name = "exact",
                                 .order = ReadOrder::kExact},
                                3);
  for (int64_t i = 0; i < 3; ++i) {
    std::vector<int64_t> expected;
    for (int64_t n = i; n < 5'000; n += 3) expected.push_back(n);
    EXPECT_EQ(got[static_cast<size_t>(i)], expected) << "consumer " << i;
  }
}

TEST(Data, RoundsAreReadFromOneWorkerByAll) {
  DataCluster cluster;
  for (int i = 0; i < 2; ++i) cluster.AddWorker();
  const auto got = ReadTogether({.address = cluster.address(),
                                 .definition = Range(4'000, 0, 500),
                                 .name = "rounds",
                                 .order = ReadOrder::kRounds},
                                2);
  ASSERT_EQ(got[0].size(), got[1].size());
  EXPECT_GE(got[0].size(), 1'990U);
  std::vector<int64_t> all;
  for (size_t round = 0; round < got[0].size(); ++round) {
    // In a round all read neighbours of the same lane.
    EXPECT_EQ(got[0][round] + 1, got[1][round]) << "round " << round;
    all.push_back(got[0][round]);
    all.push_back(got[1][round]);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "an element came twice";
}

TEST(Data, AWorkerDiesAndNothingIsLost) {
  DataCluster cluster;
  for (int i = 0; i < 3; ++i) cluster.AddWorker();
  const auto reader = MustOpen(
      {.address = cluster.address(), .definition = Range(200'000, 100, 1000), .name = "dies"});
  ASSERT_NE(reader, nullptr);
  std::vector<int64_t> all;
  int64_t elements = 0;
  for (;;) {
    auto element = reader->Next({.timeout = absl::Seconds(20)});
    ASSERT_TRUE(element.ok()) << element.status();
    if (!element->has_value()) break;
    for (const int64_t number : NumbersOf(**element)) all.push_back(number);
    if (++elements == 300) cluster.KillWorker(0);
    if (elements == 900) cluster.KillWorker(1);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, Iota(200'000));
}

TEST(Data, TheDispatcherIsStartedAgain) {
  DataCluster cluster;
  for (int i = 0; i < 2; ++i) cluster.AddWorker();
  const auto reader = MustOpen(
      {.address = cluster.address(), .definition = Range(100'000, 100, 1000), .name = "restart"});
  ASSERT_NE(reader, nullptr);
  std::vector<int64_t> all;
  int64_t elements = 0;
  for (;;) {
    auto element = reader->Next({.timeout = absl::Seconds(20)});
    ASSERT_TRUE(element.ok()) << element.status();
    if (!element->has_value()) break;
    for (const int64_t number : NumbersOf(**element)) all.push_back(number);
    if (++elements % 300 == 0) cluster.Restart();
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, Iota(100'000));
}

TEST(Data, WhatAConsumerDidNotAcknowledgeGoesToAnother) {
  DataCluster cluster({.consumer_timeout = absl::Seconds(1)});
  cluster.AddWorker();
  DataReaderOptions options = {
      .address = cluster.address(), .definition = Range(1'000, 10, 100), .name = "dies"};
  options.acknowledge_by_itself = false;
  options.consumer = "first";
  auto first = MustOpen(options);
  options.consumer = "second";
  const auto second = MustOpen(options);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  std::vector<int64_t> all;
  for (int i = 0; i < 7; ++i) {
    auto element = first->Next({.timeout = absl::Seconds(20)});
    ASSERT_TRUE(element.ok() && element->has_value());
    if (i >= 5) continue;  // these it does not get safely
    for (const int64_t number : NumbersOf(**element)) all.push_back(number);
    ASSERT_TRUE(first->Acknowledge((*element)->place()).ok());
  }
  first.reset();
  for (;;) {
    auto element = second->Next({.timeout = absl::Seconds(20)});
    ASSERT_TRUE(element.ok()) << element.status();
    if (!element->has_value()) break;
    for (const int64_t number : NumbersOf(**element)) all.push_back(number);
    ASSERT_TRUE(second->AcknowledgeAll().ok());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, Iota(1'000));
}

TEST(Data, ACursorGoesOnWithOtherWorkersAndConsumers) {
  DataCluster cluster;
  cluster.AddWorker();
  DataReaderOptions options = {.address = cluster.address(),
                               .definition = Range(3'000, 0, 250),
                               .name = "before",
                               .order = ReadOrder::kExact,
                               .consumers = 1,
                               .index = 0};
  std::string cursor;
  {
    const auto reader = MustOpen(options);
    ASSERT_NE(reader, nullptr);
    for (int64_t i = 0; i < 1'001; ++i) {
      auto element = reader->Next({.timeout = absl::Seconds(20)});
      ASSERT_TRUE(element.ok() && element->has_value());
      EXPECT_EQ(NumbersOf(**element), std::vector<int64_t>{i});
    }
    const auto taken = reader->Cursor();
    ASSERT_TRUE(taken.ok()) << taken.status();
    cursor = *taken;
  }
  EXPECT_LE(cursor.size(), 500U);
  cluster.AddWorker();
  options.name = "after";
  options.cursor = cursor;
  const auto got = ReadTogether(options, 2);
  std::vector<int64_t> all = got[0];
  all.insert(all.end(), got[1].begin(), got[1].end());
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected;
  for (int64_t i = 1'001; i < 3'000; ++i) expected.push_back(i);
  EXPECT_EQ(all, expected);
}

TEST(Data, SaysWhatItWaitsForWhenThereIsNoWorker) {
  DataCluster cluster;
  const auto reader =
      MustOpen({.address = cluster.address(), .definition = Range(10), .name = "alone"});
  ASSERT_NE(reader, nullptr);
  const auto element = reader->Next({.timeout = absl::Milliseconds(300)});
  ASSERT_FALSE(element.ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(element.status()));
  EXPECT_THAT(std::string(element.status().message()), testing::HasSubstr("worker"));
  // It goes on where it was.
  cluster.AddWorker();
  EXPECT_EQ(ReadAll(*reader), Iota(10));
}

TEST(Data, SaysThatTheServerIsNotThere) {
  const auto reader = DataReader::Open({.address = "127.0.0.1:1",
                                        .definition = Range(10),
                                        .name = "nobody",
                                        .timeout = absl::Milliseconds(500)});
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(wire::native::ReasonOf(reader.status()), "server_unavailable");
  EXPECT_THAT(std::string(reader.status().message()), testing::HasSubstr("lockstep serve"));
}

TEST(Data, ADefinitionThatIsWrongIsRefusedWithItsPlace) {
  DataCluster cluster;
  plan::Definition definition = Range(10);
  definition.nodes.push_back({.id = 7, .op = "no_such_op", .inputs = {1}, .where = "train.py:12"});
  const auto reader =
      DataReader::Open({.address = cluster.address(), .definition = definition, .name = "wrong"});
  ASSERT_FALSE(reader.ok());
  EXPECT_THAT(std::string(reader.status().message()), testing::HasSubstr("train.py:12"));
}

TEST(Data, FilesAreListedByAWorker) {
  DataCluster cluster;
  cluster.AddWorker();
  const std::string path = testing::TempDir() + "/data_test_lines.txt";
  {
    std::ofstream file(path);
    for (int i = 0; i < 100; ++i) file << "line " << i << "\n";
  }
  plan::Definition definition;
  definition.nodes.push_back(
      {.id = 1, .op = "lines", .attrs = {{"paths", std::vector<std::string>{path}}}});
  const auto reader =
      MustOpen({.address = cluster.address(), .definition = definition, .name = "files"});
  ASSERT_NE(reader, nullptr);
  std::set<std::string> lines;
  for (;;) {
    auto element = reader->Next({.timeout = absl::Seconds(20)});
    ASSERT_TRUE(element.ok()) << element.status();
    if (!element->has_value()) break;
    const auto view = engine::ElementView::Parse((*element)->frame());
    ASSERT_TRUE(view.ok()) << view.status();
    lines.insert(std::string(view->leaf(0).item(0)));
  }
  EXPECT_EQ(lines.size(), 100U);
  EXPECT_TRUE(lines.contains("line 42"));
}

TEST(Data, APathThatIsNotAllowedIsRefused) {
  DataCluster cluster;
  cluster.AddWorker({.allow_paths = {"/nonexistent-allowed"}});
  plan::Definition definition;
  definition.nodes.push_back({.id = 1,
                              .op = "lines",
                              .attrs = {{"paths", std::vector<std::string>{"/etc/passwd"}}},
                              .where = "train.py:3"});
  const auto reader =
      MustOpen({.address = cluster.address(), .definition = definition, .name = "refused"});
  ASSERT_NE(reader, nullptr);
  const auto element = reader->Next({.timeout = absl::Seconds(20)});
  ASSERT_FALSE(element.ok());
  EXPECT_EQ(wire::native::ReasonOf(element.status()), "path_refused") << element.status();
}

TEST(Data, AWorkerThatLeavesIsMissedByNobody) {
  DataCluster cluster;
  for (int i = 0; i < 2; ++i) cluster.AddWorker();
  const auto reader = MustOpen(
      {.address = cluster.address(), .definition = Range(100'000, 100, 1000), .name = "leaves"});
  ASSERT_NE(reader, nullptr);
  std::vector<int64_t> all;
  std::atomic<bool> drained = false;
  int64_t elements = 0;
  for (;;) {
    auto element = reader->Next({.timeout = absl::Seconds(20)});
    ASSERT_TRUE(element.ok()) << element.status();
    if (!element->has_value()) break;
    for (const int64_t number : NumbersOf(**element)) all.push_back(number);
    if (++elements == 100) {
      cluster.OnWorker(0, [&](data::Worker& worker) { worker.Drain([&] { drained = true; }); });
    }
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, Iota(100'000));
  for (int i = 0; i < 100 && !drained; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(drained);
}

TEST(Data, MoreWorkersThanLinksAreAllRead) {
  DataCluster cluster;
  for (int i = 0; i < 3; ++i) cluster.AddWorker();
  const auto reader = MustOpen({.address = cluster.address(),
                                .definition = Range(100'000, 100, 1000),
                                .name = "links",
                                .read_bytes_max = 1,
                                .worker_links_max = 1});
  ASSERT_NE(reader, nullptr);
  std::vector<int64_t> all = ReadAll(*reader);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, Iota(100'000));
}

// However they come: arrays are made of them without a copy.
TEST(Data, ElementsLieAtMultiplesOf64Bytes) {
  DataCluster cluster;
  cluster.AddWorker({.share_memory = false});
  for (const int64_t batch : {1, 100, 10'000}) {
    const auto reader = MustOpen({.address = cluster.address(),
                                  .definition = Range(20 * batch, batch),
                                  .name = absl::StrCat("aligned-", batch)});
    ASSERT_NE(reader, nullptr);
    for (int i = 0; i < 20; ++i) {
      const auto element = reader->Next({.timeout = absl::Seconds(20)});
      ASSERT_TRUE(element.ok() && element->has_value()) << element.status();
      EXPECT_EQ(reinterpret_cast<uintptr_t>((*element)->frame().data()) % 64, 0U);
      EXPECT_EQ(NumbersOf(**element).size(), static_cast<size_t>(batch));
    }
    EXPECT_EQ(reader->View().shared_elements, 0);
  }
}

TEST(Data, OperatorsAreToldWhoCameAndWhatBeganAndEnded) {
  DataCluster cluster({.worker_grace = absl::Milliseconds(100)});
  cluster.AddWorker();
  {
    const auto reader =
        MustOpen({.address = cluster.address(), .definition = Range(100), .name = "told"});
    ASSERT_NE(reader, nullptr);
    EXPECT_EQ(ReadAll(*reader).size(), 100U);
  }
  cluster.KillWorker(0);
  for (const char* what :
       {"has come", "consumer", "iteration told#0 begins", "told#0 is finished", "is gone"}) {
    const auto events = cluster.events().WaitUntil([&](const std::vector<std::string>& all) {
      return std::any_of(all.begin(), all.end(), [&](const std::string& one) {
        return one.find(what) != std::string::npos;
      });
    });
    EXPECT_THAT(events, testing::Contains(testing::HasSubstr(what)));
  }
}

// A worker of another release: it is told why, and what to do.
TEST(Data, AWorkerOfAnotherVersionIsRefused) {
  DataCluster cluster({.worker_version = data::kWorkerVersion + 1});
  absl::Status refused;
  link::testing::LoopThread thread;
  std::promise<absl::Status> told;
  std::unique_ptr<data::Worker> worker;
  thread.Do([&] {
    auto started =
        data::Worker::Start(thread.loop(), {.dispatcher = *link::Servers::Read(cluster.address())},
                            [&](absl::Status why) { told.set_value(std::move(why)); });
    ASSERT_TRUE(started.ok()) << started.status();
    worker = *std::move(started);
  });
  auto result = told.get_future();
  ASSERT_EQ(result.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const absl::Status why = result.get();
  EXPECT_EQ(wire::native::ReasonOf(why), "worker_version") << why;
  EXPECT_THAT(std::string(why.message()), testing::HasSubstr("speaks version 1"));
  EXPECT_THAT(std::string(why.message()), testing::HasSubstr("from the same release"));
  EXPECT_TRUE(cluster.View().workers.empty());
  thread.Do([&] { worker.reset(); });
}

// Somebody who gives the number of a worker and is refused does not speak for it: that worker's own
// link still says when it dies.
TEST(Data, WhoWasRefusedDoesNotSpeakForAWorker) {
  DataCluster cluster(
      {.worker_timeout = absl::Minutes(5), .worker_grace = absl::Milliseconds(100)});
  cluster.AddWorker({.uid = 77});
  const auto workers = [&] { return cluster.View().workers.size(); };
  const auto wait_for = [&](size_t count) {
    for (int i = 0; i < 1000 && workers() != count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return workers();
  };
  ASSERT_EQ(wait_for(1), 1U);
  {
    auto impostor = link::Client::Connect(cluster.address(), absl::Seconds(10), {});
    ASSERT_TRUE(impostor.ok()) << impostor.status();
    const auto reply = (*impostor)->Call(
        wire::native::WorkerPoll{.worker = 77, .version = 99, .address = "127.0.0.1:1"},
        absl::Seconds(10));
    EXPECT_EQ(wire::native::ReasonOf(reply.status()), "worker_version") << reply.status();
  }
  EXPECT_EQ(workers(), 1U);
  cluster.KillWorker(0);
  EXPECT_EQ(wait_for(0), 0U);
}

// Answers every read with the same bytes, whatever it is asked.
class LyingWorker {
 public:
  LyingWorker(const std::string& dispatcher, std::string answer)
      : answer_(std::move(answer)),
        server_([this](link::Request request, link::Responder responder) {
          if (request.kind == wire::native::KindOf<wire::native::ShareMemory>::kKind) {
            return responder.Answer(wire::native::Encode(wire::native::ShareMemoryReply{}));
          }
          responder.Answer(std::string(answer_));
        }) {
    auto client = link::Client::Connect(dispatcher, absl::Seconds(10), {});
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    const auto reply = client_->Call(
        wire::native::WorkerPoll{
            .worker = 5, .version = data::kWorkerVersion, .address = server_.address()},
        absl::Seconds(10));
    EXPECT_TRUE(reply.ok()) << reply.status();
  }
  const std::string& address() const { return server_.address(); }

 private:
  const std::string answer_;
  link::testing::TestServer server_;
  std::unique_ptr<link::Client> client_;
};

std::string ChunkAnswer(const wire::native::ChunkHead& head, int elements) {
  std::string bytes(64 << 10, '\0');
  wire::native::ChunkWriter writer(std::span<char>(bytes).subspan(wire::native::kChunkAlignment));
  for (int i = 0; i < elements; ++i) writer.Add(64);
  bytes.resize(wire::native::kChunkAlignment + writer.Finish(head));
  wire::native::PutInlineHead(bytes);
  return bytes;
}

TEST(Data, AWorkerThatAnswersSomethingElseIsNamed) {
  const std::pair<const char*, std::string> answers[] = {
      {"of segment 7", ChunkAnswer({.segment = 7, .next = 2, .known = 2}, 2)},
      {"from 3 on", ChunkAnswer({.first = 3, .next = 5, .known = 5}, 2)},
      {"each 2", ChunkAnswer({.stride = 2, .next = 4, .known = 4}, 2)},
      {"2 elements, up to 9", ChunkAnswer({.next = 9, .known = 9}, 2)},
      {"no element, and no end", ChunkAnswer({.next = 0, .known = 4}, 0)},
      {"it has prepared", wire::native::PreparedAnswer()}};
  for (const auto& [what, answer] : answers) {
    DataCluster cluster({.worker_timeout = absl::Minutes(5), .worker_grace = absl::Minutes(5)});
    const LyingWorker worker(cluster.address(), answer);
    const auto reader =
        MustOpen({.address = cluster.address(), .definition = Range(100), .name = "lies"});
    ASSERT_NE(reader, nullptr);
    const auto element = reader->Next({.timeout = absl::Seconds(30)});
    ASSERT_FALSE(element.ok()) << what;
    EXPECT_EQ(wire::native::ReasonOf(element.status()), "segment_failed") << element.status();
    const std::string message(element.status().message());
    EXPECT_THAT(message, testing::HasSubstr("worker_answer_invalid"));
    EXPECT_THAT(message, testing::HasSubstr(worker.address()));
    EXPECT_THAT(message, testing::HasSubstr(what));
  }
}

// Workers come and go while two consumers read rounds: each round is of one lane, none is doubled,
// and nobody is held up for long.
TEST(Data, RoundsGoOnWhileWorkersComeAndGo) {
  DataCluster cluster;
  for (int i = 0; i < 3; ++i) cluster.AddWorker();
  constexpr int64_t kNumbers = 60'000;
  std::array<std::vector<int64_t>, 2> got;
  std::atomic<int64_t> longest_us = 0;
  std::atomic<int> reading = 2;
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      const auto reader = MustOpen({.address = cluster.address(),
                                    .definition = Range(kNumbers, 0, 1000),
                                    .name = "churn",
                                    .order = ReadOrder::kRounds,
                                    .consumers = 2,
                                    .index = i});
      while (reader != nullptr) {
        const auto began = std::chrono::steady_clock::now();
        auto element = reader->Next({.timeout = absl::Seconds(30)});
        EXPECT_TRUE(element.ok()) << element.status();
        if (!element.ok() || !element->has_value()) break;
        const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(
                               std::chrono::steady_clock::now() - began)
                               .count();
        if (us > longest_us) longest_us = us;
        got[static_cast<size_t>(i)].push_back(NumbersOf(**element).front());
        if (got[static_cast<size_t>(i)].size() % 10 == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
      --reading;
    });
  }
  size_t next = 0;
  int killed = 0;
  while (reading > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    if (killed >= 6) continue;
    cluster.KillWorker(next++);
    cluster.AddWorker();
    ++killed;
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(got[0].size(), got[1].size());
  std::vector<int64_t> all;
  for (size_t round = 0; round < got[0].size(); ++round) {
    EXPECT_EQ(got[0][round] + 1, got[1][round]) << "round " << round;
    all.push_back(got[0][round]);
    all.push_back(got[1][round]);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "an element came twice";
  EXPECT_EQ(all.size(), static_cast<size_t>(kNumbers));
  std::printf("%d workers killed and as many added, %zu rounds, longest stall %.1f ms\n", killed,
              got[0].size(), static_cast<double>(longest_us.load()) / 1e3);
}

// Not a test of what is right: prints what it takes. LOCKSTEP_BENCH=1.
TEST(DataBench, SmallElements) {
  if (std::getenv("LOCKSTEP_BENCH") == nullptr) GTEST_SKIP() << "set LOCKSTEP_BENCH=1";
  DataCluster cluster;
  cluster.AddWorker();
  constexpr int64_t kElements = 1'000'000;
  const auto reader = MustOpen(
      {.address = cluster.address(), .definition = Range(kElements * 100, 100), .name = "bench"});
  ASSERT_NE(reader, nullptr);
  const auto cpu = [] {
    timespec spent = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) / 1e9;
  };
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = cpu();
  int64_t elements = 0;
  for (;;) {
    auto element = reader->Next({.timeout = absl::Seconds(20)});
    ASSERT_TRUE(element.ok()) << element.status();
    if (!element->has_value()) break;
    ++elements;
  }
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const DataReaderView view = reader->View();
  std::printf(
      "%lld elements in %.2f s: %.0f/s, %.2f us of CPU each (both ends); %lld reads, %lld "
      "stalls, stalled %.2f s, %lld in shared memory\n",
      static_cast<long long>(elements), took, static_cast<double>(elements) / took,
      (cpu() - cpu_start) / static_cast<double>(elements) * 1e6, static_cast<long long>(view.reads),
      static_cast<long long>(view.stalls), absl::ToDoubleSeconds(view.stalled),
      static_cast<long long>(view.shared_elements));
  EXPECT_EQ(elements, kElements);
}

}  // namespace
}  // namespace lockstep
