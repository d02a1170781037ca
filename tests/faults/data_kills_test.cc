// Server, workers and consumers that are killed at random and started again: no element is lost,
// and none is taken twice.
//
// LOCKSTEP_KILLS=N: how many are killed (8). LOCKSTEP_SEED=N: goes on as that run did, as far as
// processes allow.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/faults/data_log.h"

extern char** environ;

namespace lockstep::faults {
namespace {

constexpr int64_t kElements = 6'000;
constexpr int64_t kBatch = 10;
constexpr int64_t kSegment = 500;  // numbers
constexpr auto kPatience = std::chrono::seconds(120);

class Process {
 public:
  explicit Process(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {
    Start();
  }
  ~Process() { Kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Start() {
    std::vector<char*> pointers;
    for (std::string& word : arguments_) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    ASSERT_EQ(::posix_spawn(&pid_, pointers[0], nullptr, nullptr, pointers.data(), environ), 0)
        << arguments_[0];
  }
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

// Server, three workers and three consumers, as processes; in a directory of their own.
class DataKills : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/data_kills_XXXXXX";
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    const std::string ready = directory_ + "/ready.json";
    std::vector<std::string> serve = {
        LOCKSTEP_SERVER_PROGRAM, "--listen", "127.0.0.1:0",        "--state", directory_ + "/state",
        "--ready-file",          ready,      "--consumer-timeout", "5s"};
    server_ = std::make_unique<Process>(serve);
    address_ = AwaitAddress(ready);
    ASSERT_FALSE(address_.empty());
    // From here on at the same address.
    server_.reset();
    serve[2] = address_;
    server_ = std::make_unique<Process>(serve);
    for (int i = 0; i < 3; ++i) {
      workers_.push_back(std::make_unique<Process>(std::vector<std::string>{
          LOCKSTEP_PROGRAM, "worker", "--dispatcher", address_, "--threads", "1"}));
      logs_.push_back(absl::StrCat(directory_, "/consumer-", i));
      consumers_.push_back(std::make_unique<Process>(std::vector<std::string>{
          LOCKSTEP_CONSUMER_PROGRAM, address_, "kills", absl::StrCat("consumer-", i), logs_.back(),
          absl::StrCat(kElements), absl::StrCat(kBatch), absl::StrCat(kSegment), "1000"}));
    }
  }

  // Whether all consumers have come to their end.
  bool AllFinished() {
    size_t done = 0;
    for (size_t i = 0; i < consumers_.size(); ++i) {
      const auto ended = consumers_[i]->Ended();
      if (ended && WIFEXITED(*ended)) {
        EXPECT_EQ(WEXITSTATUS(*ended), 0) << "consumer " << i;
        finished_[i] = true;
      }
      done += finished_[i] ? 1 : 0;
    }
    return done == consumers_.size();
  }

  // One of the seven. False: that one has finished.
  bool KillOne(uint64_t dice) {
    Process* victim = server_.get();
    if (dice >= 4) {
      if (finished_[dice - 4]) return false;
      victim = consumers_[dice - 4].get();
    } else if (dice >= 1) {
      victim = workers_[dice - 1].get();
    }
    victim->Kill();
    victim->Start();
    ++killed_[dice == 0 ? "server" : dice <= 3 ? "worker" : "consumer"];
    return true;
  }

  // How often each element was taken.
  std::vector<int> CountTaken() const {
    std::vector<int> taken(kElements);
    for (const std::string& log : logs_) {
      for (const LogRecord& record : WhatCounts(ReadLog(log))) {
        EXPECT_EQ(record.count, kBatch);
        if (record.first < 0 || record.first >= kElements * kBatch) {
          ADD_FAILURE() << "an element that there is not: " << record.first;
          continue;
        }
        ++taken[static_cast<size_t>(record.first / kBatch)];
      }
    }
    return taken;
  }

  std::string directory_;
  std::string address_;
  std::unique_ptr<Process> server_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::vector<std::unique_ptr<Process>> consumers_;
  std::vector<std::string> logs_;
  std::array<bool, 3> finished_ = {};
  std::map<std::string, int> killed_;
};

TEST_F(DataKills, NothingIsLostAndNothingComesTwice) {
  const auto seed = static_cast<uint64_t>(
      NumberOr("LOCKSTEP_SEED", static_cast<int64_t>(std::random_device()() % 1'000'000)));
  const int64_t kills = NumberOr("LOCKSTEP_KILLS", 8);
  std::printf("LOCKSTEP_SEED=%llu LOCKSTEP_KILLS=%lld\n", static_cast<unsigned long long>(seed),
              static_cast<long long>(kills));
  std::mt19937_64 random(seed);
  const auto deadline =
      std::chrono::steady_clock::now() + kPatience + kills * std::chrono::milliseconds(500);
  int64_t killed = 0;
  while (!AllFinished()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "it does not come to its end";
    std::this_thread::sleep_for(std::chrono::milliseconds(50 + random() % 300));
    if (killed < kills && KillOne(random() % 7)) ++killed;
  }
  const std::vector<int> taken = CountTaken();
  const auto lost = std::count(taken.begin(), taken.end(), 0);
  const auto doubled =
      std::count_if(taken.begin(), taken.end(), [](int times) { return times > 1; });
  std::printf(
      "killed: %d times the server, %d workers, %d consumers; %lld elements, %lld lost, "
      "%lld doubled\n",
      killed_["server"], killed_["worker"], killed_["consumer"], static_cast<long long>(kElements),
      static_cast<long long>(lost), static_cast<long long>(doubled));
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(doubled, 0);
}

}  // namespace
}  // namespace lockstep::faults
