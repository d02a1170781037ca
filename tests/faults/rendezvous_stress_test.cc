// Members under load, some of which are killed again and again: between those that live on, each
// value comes once and whole, and none that was acknowledged is missing; and who lives through all
// of it holds no more than at first.
//
// LOCKSTEP_KILLS=N: how many are killed, over memory and over the network each (20).
// LOCKSTEP_SEED=N: when and whom.
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/faults/worker_process.h"
#include "tests/native/native_testing.h"

namespace lockstep::faults {
namespace {

constexpr int kMembers = 4;
// Descriptors of connections that are being closed, and of segments that come and go.
constexpr int64_t kSlack = 12;

int NumberOr(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  int number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : otherwise;
}

// What a member counted in an attempt that it lived through.
struct Counts {
  std::array<int64_t, kMembers> acked = {};
  std::array<int64_t, kMembers> received = {};
};

// What all members said. Threads: thread-safe.
class Record {
 public:
  void Take(int member, const std::string& line) {
    const std::lock_guard lock(mutex_);
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    int64_t attempt = 0;
    if (words.size() < 2 || words[0] == "wrong:" || !absl::SimpleAtoi(words[1], &attempt)) {
      wrong_.push_back("member " + std::to_string(member) + ": " + line);
    } else if (words[0] == "begin") {
      begun_[attempt].insert(member);
    } else {
      TakeEnd(member, attempt, words);
    }
    changed_.notify_all();
  }

  // Until all work in an attempt after that one; which. 0: that takes too long, or is wrong.
  int64_t AwaitAttemptAfter(int64_t attempt) {
    std::unique_lock lock(mutex_);
    const auto all_work = [&] {
      return !wrong_.empty() || (!begun_.empty() && begun_.rbegin()->first > attempt &&
                                 begun_.rbegin()->second.size() == kMembers);
    };
    if (!changed_.wait_for(lock, kPatience, all_work) || !wrong_.empty()) return 0;
    return begun_.rbegin()->first;
  }
  std::string wrong() {
    const std::lock_guard lock(mutex_);
    return absl::StrJoin(wrong_, "; ");
  }
  int64_t last_attempt() {
    const std::lock_guard lock(mutex_);
    return begun_.empty() ? 0 : begun_.rbegin()->first;
  }

  void Check() {
    const std::lock_guard lock(mutex_);
    for (const std::string& each : wrong_) ADD_FAILURE() << each;
    for (auto& [attempt, by_member] : ends_) {
      for (auto& [from, sent] : by_member) {
        for (auto& [to, received] : by_member) {
          if (from == to) continue;
          EXPECT_LE(sent.acked[to], received.received[from])
              << "attempt " << attempt << ": " << from << " was told that " << to << " has more";
          acked_ += sent.acked[to];
          received_ += received.received[from];
        }
      }
    }
    EXPECT_GT(acked_, 0);
    ASSERT_FALSE(descriptors_.empty());
    EXPECT_LE(descriptors_.back(), descriptors_.front() + kSlack);
    EXPECT_LE(mappings_.back(), mappings_.front() + kSlack);
    std::printf(
        "%zu attempts, %lld values received by who lived on, %lld acknowledged; member 0 "
        "has %lld descriptors, and had %lld\n",
        ends_.size(), static_cast<long long>(received_), static_cast<long long>(acked_),
        static_cast<long long>(descriptors_.back()), static_cast<long long>(descriptors_.front()));
  }

 private:
  // "NAME=NUMBER"
  static int64_t NumberIn(const std::string& word) {
    int64_t number = -1;
    static_cast<void>(absl::SimpleAtoi(word.substr(word.find('=') + 1), &number));
    return number;
  }

  void TakeEnd(int member, int64_t attempt, const std::vector<std::string>& words) {
    Counts& counts = ends_[attempt][member];
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[i] == "protocol" || words[i] == "internal" || words[i] == "invalid_argument" ||
          words[i] == "quota_exceeded" || words[i] == "peer_restarted") {
        wrong_.push_back("member " + std::to_string(member) + " ended with " + words[i]);
      }
    }
    for (int other = 0; other < kMembers; ++other) {
      const std::vector<std::string> pair =
          absl::StrSplit(words.at(4 + static_cast<size_t>(other)), absl::ByAnyChar("=,"));
      static_cast<void>(absl::SimpleAtoi(pair.at(1), &counts.acked[other]) &&
                        absl::SimpleAtoi(pair.at(2), &counts.received[other]));
    }
    if (member != 0) return;
    descriptors_.push_back(NumberIn(words[2]));
    mappings_.push_back(NumberIn(words[3]));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, std::set<int>> begun_;
  std::map<int64_t, std::map<int, Counts>> ends_;
  std::vector<std::string> wrong_;
  std::vector<int64_t> descriptors_;  // of member 0, which is never killed
  std::vector<int64_t> mappings_;
  int64_t acked_ = 0;
  int64_t received_ = 0;
};

// A process, and a thread that hears what it says.
class Player {
 public:
  Player(Record& record, const std::string& address, int member, bool memory) {
    process_.Say("stress " + address + " " + std::to_string(member) +
                 (memory ? " memory" : " network"));
    thread_ = std::thread([this, &record, member] {
      while (const auto line = process_.Hear()) record.Take(member, *line);
    });
  }
  ~Player() {
    process_.Signal(SIGKILL);
    thread_.join();
  }

 private:
  WorkerProcess process_;
  std::thread thread_;
};

class RendezvousStress : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Over, RendezvousStress, testing::Bool(),
                         [](const auto& memory) { return memory.param ? "Memory" : "Network"; });

TEST_P(RendezvousStress, KilledMembersLoseAndDoubleNothingOfTheOthers) {
  const int kills = NumberOr("LOCKSTEP_KILLS", 20);
  const int seed = NumberOr("LOCKSTEP_SEED", 1);
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto draw = [&random](int below) { return static_cast<int>(random() % below); };

  coord::CoordinatorOptions options = JobOf(kMembers);
  options.session_grace = absl::Milliseconds(50);
  NativeServer server(options);
  Record record;
  std::vector<std::unique_ptr<Player>> players;
  const auto start = [&](int member) {
    return std::make_unique<Player>(record, server.address(), member, GetParam());
  };
  for (int member = 0; member < kMembers; ++member) players.push_back(start(member));

  int64_t attempt = 0;
  for (int killed = 0; killed < kills;) {
    // Mostly of those that work, and sometimes of those that are about to.
    if (killed == 0 || draw(4) != 0) {
      attempt = record.AwaitAttemptAfter(attempt);
      ASSERT_NE(attempt, 0) << "after " << killed << " kills, seed " << seed << ": "
                            << record.wrong();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(draw(100'000)));
    attempt = record.last_attempt();
    for (int i = draw(4) == 0 ? 2 : 1; i > 0; --i, ++killed) {
      const int victim = 1 + draw(kMembers - 1);
      players[static_cast<size_t>(victim)] = nullptr;
      players[static_cast<size_t>(victim)] = start(victim);
    }
  }
  EXPECT_NE(record.AwaitAttemptAfter(attempt), 0) << "after all kills, seed " << seed;
  players.clear();
  std::printf("%d kills, seed %d: ", kills, seed);
  record.Check();
}

}  // namespace
}  // namespace lockstep::faults
