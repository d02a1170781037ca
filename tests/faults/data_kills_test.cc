// Server, workers and consumers that are killed at random and started again: no element is lost,
// and none is taken twice.
//
// LOCKSTEP_KILLS=N: how many are killed (8). LOCKSTEP_SEED=N: goes on as that run did, as far as
// processes allow.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
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

TEST(DataKills, NothingIsLostAndNothingComesTwice) {
  const auto seed = static_cast<uint64_t>(
      NumberOr("LOCKSTEP_SEED", static_cast<int64_t>(std::random_device()() % 1'000'000)));
  const int64_t kills = NumberOr("LOCKSTEP_KILLS", 8);
  std::printf("LOCKSTEP_SEED=%llu LOCKSTEP_KILLS=%lld\n", static_cast<unsigned long long>(seed),
              static_cast<long long>(kills));
  std::mt19937_64 random(seed);
  std::string directory = testing::TempDir() + "/data_kills_XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string ready = directory + "/ready.json";

  std::vector<std::string> serve = {
      LOCKSTEP_SERVER_PROGRAM, "--listen", "127.0.0.1:0",        "--state", directory + "/state",
      "--ready-file",          ready,      "--consumer-timeout", "5s"};
  auto server = std::make_unique<Process>(serve);
  const std::string address = AwaitAddress(ready);
  ASSERT_FALSE(address.empty());
  // From here on at the same address.
  server.reset();
  serve[2] = address;
  server = std::make_unique<Process>(serve);

  std::vector<std::unique_ptr<Process>> workers;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(std::make_unique<Process>(std::vector<std::string>{
        LOCKSTEP_PROGRAM, "worker", "--dispatcher", address, "--threads", "1"}));
  }
  std::vector<std::string> logs;
  std::vector<std::unique_ptr<Process>> consumers;
  for (int i = 0; i < 3; ++i) {
    logs.push_back(absl::StrCat(directory, "/consumer-", i));
    consumers.push_back(std::make_unique<Process>(std::vector<std::string>{
        LOCKSTEP_CONSUMER_PROGRAM, address, "kills", absl::StrCat("consumer-", i), logs.back(),
        absl::StrCat(kElements), absl::StrCat(kBatch), absl::StrCat(kSegment), "1000"}));
  }

  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::vector<bool> finished(consumers.size());
  int64_t killed = 0;
  int64_t killed_server = 0;
  int64_t killed_workers = 0;
  while (true) {
    size_t done = 0;
    for (size_t i = 0; i < consumers.size(); ++i) {
      const auto ended = consumers[i]->Ended();
      if (ended && WIFEXITED(*ended)) {
        EXPECT_EQ(WEXITSTATUS(*ended), 0) << "consumer " << i;
        finished[i] = true;
      }
      done += finished[i] ? 1 : 0;
    }
    if (done == consumers.size()) break;
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "it does not come to its end";
    std::this_thread::sleep_for(std::chrono::milliseconds(50 + random() % 300));
    if (killed >= kills) continue;
    const uint64_t dice = random() % 7;
    if (dice == 0) {
      server->Kill();
      server->Start();
      ++killed_server;
    } else if (dice <= 3) {
      workers[dice - 1]->Kill();
      workers[dice - 1]->Start();
      ++killed_workers;
    } else if (!finished[dice - 4]) {
      consumers[dice - 4]->Kill();
      consumers[dice - 4]->Start();
    } else {
      continue;
    }
    ++killed;
  }

  std::vector<int> taken(kElements);
  int64_t elements = 0;
  for (const std::string& log : logs) {
    for (const LogRecord& record : WhatCounts(ReadLog(log))) {
      ASSERT_EQ(record.count, kBatch);
      ASSERT_GE(record.first, 0);
      ASSERT_LT(record.first, kElements * kBatch);
      ++taken[static_cast<size_t>(record.first / kBatch)];
      ++elements;
    }
  }
  int64_t lost = 0;
  int64_t doubled = 0;
  for (const int times : taken) {
    lost += times == 0 ? 1 : 0;
    doubled += times > 1 ? 1 : 0;
  }
  std::printf("%lld killed (%lld servers, %lld workers): %lld elements, %lld lost, %lld doubled\n",
              static_cast<long long>(killed), static_cast<long long>(killed_server),
              static_cast<long long>(killed_workers), static_cast<long long>(elements),
              static_cast<long long>(lost), static_cast<long long>(doubled));
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(doubled, 0);
}

}  // namespace
}  // namespace lockstep::faults
