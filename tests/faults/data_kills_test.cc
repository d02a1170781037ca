// Server, workers and consumers that are killed at random and started again: no element is lost,
// and none is taken twice.
//
// The epochs are first come (acknowledged each 100 elements), in exact order and in rounds, one
// after the other. Some consumers stay away for longer than their lease, and some come back from a
// cursor that is not their last: also when all is over. LOCKSTEP_KILLS=N: how many are killed in
// all (30). LOCKSTEP_EPOCHS=N: 3. LOCKSTEP_ELEMENTS=N: of each epoch (6000). LOCKSTEP_ORDER=...: of
// all epochs. LOCKSTEP_PAUSE_US=N: of a consumer after an element. LOCKSTEP_SEED=N: kills as that
// run did, as far as processes allow.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/faults/data_log.h"
#include "tests/spawn_process.h"

namespace lockstep::faults {
namespace {

constexpr int64_t kBatch = 10;      // numbers in an element
constexpr int64_t kSegment = 1000;  // numbers
constexpr int kWorkers = 3;
// As many turns of all as there are elements in a segment: in rounds no last turn is dropped.
constexpr int kConsumers = 4;
// Of an epoch's elements, the part in which somebody is killed.
constexpr double kKilledUntil = 0.9;
constexpr auto kLease = std::chrono::seconds(5);
constexpr auto kPatience = std::chrono::seconds(400);  // for an epoch
constexpr int64_t kForgottenMost = 60;                 // elements, of a consumer that is killed

class Process {
 public:
  explicit Process(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {
    Start();
  }
  ~Process() { Kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Start() { pid_ = SpawnProcess(arguments_); }
  // How it ended; nothing while it runs.
  std::optional<int> Ended() {
    int status = 0;
    if (pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      status_ = status;
    }
    return pid_ > 0 ? std::nullopt : std::optional(status_);
  }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
    pid_ = -1;
  }

 private:
  std::vector<std::string> arguments_;
  pid_t pid_ = -1;
  int status_ = 0;
};

int64_t NumberOr(const char* variable, int64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoll(text);
}

std::string AwaitAddress(const std::string& ready_file) {
  for (int i = 0; i < 1000; ++i) {
    std::ifstream file(ready_file);
    const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) return json["listen"];
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return "";
}

// What is asked for by the environment.
struct Plan {
  int64_t kills = NumberOr("LOCKSTEP_KILLS", 30);
  int64_t epochs = NumberOr("LOCKSTEP_EPOCHS", 3);
  int64_t elements = NumberOr("LOCKSTEP_ELEMENTS", 6'000);
  int64_t pause_us = NumberOr("LOCKSTEP_PAUSE_US", elements > 20'000 ? 0 : 1000);
  uint64_t seed = static_cast<uint64_t>(
      NumberOr("LOCKSTEP_SEED", static_cast<int64_t>(std::random_device()() % 1'000'000)));
  std::string order = std::getenv("LOCKSTEP_ORDER") == nullptr ? "" : std::getenv("LOCKSTEP_ORDER");

  std::string OrderOf(int64_t epoch) const {
    static constexpr std::array kOrders = {"first_come", "exact", "rounds"};
    return order.empty() ? kOrders[static_cast<size_t>(epoch) % kOrders.size()] : order;
  }
};

// One of an epoch's consumers, whose log outlives its processes.
struct Consumer {
  std::string log;
  std::unique_ptr<Process> process;
  bool finished = false;
  // It stays dead for longer than its lease, and starts again then.
  std::optional<std::chrono::steady_clock::time_point> away_until;
};

// Server and workers, which live for all epochs, and the consumers of the one that goes on; in a
// directory of their own.
class DataKills : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/data_kills_XXXXXX";
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    const std::string ready = directory_ + "/ready.json";
    std::vector<std::string> serve = {LOCKSTEP_SERVER_PROGRAM,
                                      "--listen",
                                      "127.0.0.1:0",
                                      "--state",
                                      directory_ + "/state",
                                      "--ready-file",
                                      ready,
                                      "--consumer-timeout",
                                      absl::StrCat(kLease.count(), "s")};
    server_ = std::make_unique<Process>(serve);
    address_ = AwaitAddress(ready);
    ASSERT_FALSE(address_.empty());
    // From here on at the same address.
    server_.reset();
    serve[2] = address_;
    server_ = std::make_unique<Process>(serve);
    for (int i = 0; i < kWorkers; ++i) {
      workers_.push_back(std::make_unique<Process>(std::vector<std::string>{
          LOCKSTEP_PROGRAM, "worker", "--dispatcher", address_, "--threads", "1"}));
    }
  }
  void TearDown() override {
    consumers_.clear();
    workers_.clear();
    server_.reset();
    if (!HasFailure()) std::filesystem::remove_all(directory_);
  }

  void StartEpoch(int64_t epoch) {
    const std::string order = plan_.OrderOf(epoch);
    consumers_.clear();
    for (int i = 0; i < kConsumers; ++i) {
      Consumer consumer;
      consumer.log = absl::StrCat(directory_, "/epoch-", epoch, "-consumer-", i);
      consumer.process = std::make_unique<Process>(std::vector<std::string>{
          LOCKSTEP_CONSUMER_PROGRAM, address_, absl::StrCat("kills-", order), absl::StrCat(epoch),
          order, absl::StrCat(i), absl::StrCat(kConsumers), consumer.log,
          absl::StrCat(plan_.elements), absl::StrCat(kBatch), absl::StrCat(kSegment),
          absl::StrCat(plan_.pause_us)});
      consumers_.push_back(std::move(consumer));
    }
  }

  // Whether all consumers have come to their end. Starts those that were away for long enough.
  bool AllFinished() {
    size_t done = 0;
    for (Consumer& one : consumers_) {
      if (one.away_until) {
        if (std::chrono::steady_clock::now() < *one.away_until) continue;
        one.away_until.reset();
        one.process->Start();
      }
      const auto ended = one.finished ? std::nullopt : one.process->Ended();
      if (ended) {
        EXPECT_TRUE(WIFEXITED(*ended) && WEXITSTATUS(*ended) == 0) << one.log;
        one.finished = true;
      }
      done += one.finished ? 1 : 0;
    }
    return done == consumers_.size();
  }

  // How many elements the consumer has taken, about.
  static int64_t Taken(const Consumer& consumer, const std::string& order) {
    const size_t record = order == "first_come" ? sizeof(LogRecord) : sizeof(CursorRecord);
    struct stat found = {};
    if (::stat(consumer.log.c_str(), &found) != 0) return 0;
    return found.st_size / static_cast<int64_t>(record);
  }
  int64_t Progress(const std::string& order) const {
    int64_t taken = 0;
    for (const Consumer& one : consumers_) taken += Taken(one, order);
    return taken;
  }

  // What it wrote last is lost, and what it made of it: it goes on from an older cursor.
  void ForgetSome(const Consumer& consumer, const std::string& order, std::mt19937_64& random) {
    if (order == "first_come") return;
    const int64_t taken = Taken(consumer, order);
    const int64_t kept =
        std::max<int64_t>(0, taken - static_cast<int64_t>(random() % kForgottenMost));
    if (kept == taken) return;
    std::filesystem::resize_file(consumer.log, static_cast<uintmax_t>(kept) * sizeof(CursorRecord));
    ++killed_["older"];
  }

  // The kill cut its last write short: now and then it does so by itself, here often enough to try.
  void TearLastRecord(const Consumer& consumer) {
    std::ofstream(consumer.log, std::ios::binary | std::ios::app) << "torn";
    ++killed_["torn"];
  }

  // All is over, and one reads its last elements once more.
  void ReadTheEndAgain(const std::string& order) {
    Consumer& one = consumers_.back();
    const int64_t taken = Taken(one, order);
    if (order == "first_come" || taken <= kForgottenMost) return;
    std::filesystem::resize_file(
        one.log, static_cast<uintmax_t>(taken - kForgottenMost) * sizeof(CursorRecord));
    one.finished = false;
    one.process->Start();
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!AllFinished()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << order << "; " << directory_;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ++killed_["again"];
  }

  // Server, workers and consumers alike. False: that one is dead, or has finished.
  bool KillOne(std::mt19937_64& random, const std::string& order) {
    const size_t victim = random() % (1 + kWorkers + kConsumers);
    const bool away = random() % 8 == 0;
    if (victim <= kWorkers) {
      Process& process = victim == 0 ? *server_ : *workers_[victim - 1];
      process.Kill();
      process.Start();
      ++killed_[victim == 0 ? "server" : "worker"];
      return true;
    }
    Consumer& consumer = consumers_[victim - 1 - kWorkers];
    if (consumer.finished || consumer.away_until) return false;
    consumer.process->Kill();
    ++killed_["consumer"];
    if (random() % 4 == 0) ForgetSome(consumer, order, random);
    if (random() % 4 == 0) TearLastRecord(consumer);
    if (away) {
      consumer.away_until = std::chrono::steady_clock::now() + kLease + std::chrono::seconds(1);
      ++killed_["away"];
    } else {
      consumer.process->Start();
    }
    return true;
  }

  // How often each element was taken.
  std::vector<int> CountTaken(const std::string& order) const {
    std::vector<int> taken(static_cast<size_t>(plan_.elements));
    for (size_t i = 0; i < consumers_.size(); ++i) {
      const auto count = [&](const LogRecord& record) {
        EXPECT_EQ(record.count, kBatch);
        const int64_t element = record.first / kBatch;
        if (record.first < 0 || element >= plan_.elements) {
          ADD_FAILURE() << "an element that there is not: " << record.first;
          return;
        }
        ++taken[static_cast<size_t>(element)];
      };
      if (order == "first_come") {
        for (const LogRecord& record : WhatCounts(ReadLog(consumers_[i].log))) count(record);
        continue;
      }
      auto next = static_cast<int64_t>(i);
      for (const CursorRecord& record : ReadLog<CursorRecord>(consumers_[i].log)) {
        count(record.taken);
        if (order == "exact") {
          EXPECT_EQ(record.taken.first, next * kBatch) << consumers_[i].log;
        }
        next += kConsumers;
      }
    }
    return taken;
  }

  // Runs one epoch to its end; somebody is killed whenever so many elements as `at` says are taken.
  void RunEpoch(int64_t epoch, std::vector<int64_t> at, std::mt19937_64& random) {
    const std::string order = plan_.OrderOf(epoch);
    StartEpoch(epoch);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!AllFinished()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline)
          << "epoch " << epoch << " (" << order << ") does not come to its end; " << directory_;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (at.empty() || Progress(order) < at.front()) continue;
      if (KillOne(random, order)) at.erase(at.begin());
    }
    ReadTheEndAgain(order);
    Judge(epoch, order, static_cast<int64_t>(at.size()));
  }

  void Judge(int64_t epoch, const std::string& order, int64_t not_killed) {
    const std::vector<int> taken = CountTaken(order);
    const auto lost = std::count(taken.begin(), taken.end(), 0);
    const auto doubled =
        std::count_if(taken.begin(), taken.end(), [](int times) { return times > 1; });
    EXPECT_EQ(lost, 0) << "epoch " << epoch << " (" << order << "), " << directory_;
    EXPECT_EQ(doubled, 0) << "epoch " << epoch << " (" << order << "), " << directory_;
    EXPECT_EQ(not_killed, 0) << "epoch " << epoch << " (" << order << ") was too short";
    lost_ += lost;
    doubled_ += doubled;
    // What failed is kept, to be looked at.
    if (lost + doubled > 0) return;
    for (const Consumer& one : consumers_) std::filesystem::remove(one.log);
  }

  const Plan plan_;
  std::string directory_;
  std::string address_;
  std::unique_ptr<Process> server_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::vector<Consumer> consumers_;
  std::map<std::string, int> killed_;
  int64_t lost_ = 0;
  int64_t doubled_ = 0;
};

TEST_F(DataKills, NothingIsLostAndNothingComesTwice) {
  std::printf(
      "LOCKSTEP_SEED=%llu LOCKSTEP_KILLS=%lld LOCKSTEP_EPOCHS=%lld LOCKSTEP_ELEMENTS=%lld\n",
      static_cast<unsigned long long>(plan_.seed), static_cast<long long>(plan_.kills),
      static_cast<long long>(plan_.epochs), static_cast<long long>(plan_.elements));
  std::fflush(stdout);
  ASSERT_EQ(plan_.elements * kBatch % kSegment, 0) << "in whole segments";
  std::mt19937_64 random(plan_.seed);
  int64_t epoch = 0;
  for (; epoch < plan_.epochs && !HasFatalFailure(); ++epoch) {
    const auto until = static_cast<uint64_t>(static_cast<double>(plan_.elements) * kKilledUntil);
    const int64_t kills =
        plan_.kills * (epoch + 1) / plan_.epochs - plan_.kills * epoch / plan_.epochs;
    std::vector<int64_t> at(static_cast<size_t>(kills));
    for (int64_t& moment : at) moment = static_cast<int64_t>(random() % until);
    std::sort(at.begin(), at.end());
    RunEpoch(epoch, std::move(at), random);
  }
  std::printf(
      "%lld epochs of %lld elements; killed: %d times the server, %d workers, %d consumers (%d for "
      "longer than their lease, %d from an older cursor, %d with a torn record, %d more after the "
      "end); %lld lost, %lld doubled\n",
      static_cast<long long>(epoch), static_cast<long long>(plan_.elements), killed_["server"],
      killed_["worker"], killed_["consumer"], killed_["away"], killed_["older"], killed_["torn"],
      killed_["again"], static_cast<long long>(lost_), static_cast<long long>(doubled_));
}

}  // namespace
}  // namespace lockstep::faults
