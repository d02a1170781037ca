// Members under load while their server is killed again and again, and started anew on the same
// directory: no write that was acknowledged is lost or happens twice, no barrier is answered twice
// or differently, and every member goes on.
//
// LOCKSTEP_RESTARTS=N: how often (20). LOCKSTEP_SEED=N: when exactly.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "lockstep/client/member.h"
#include "tests/durability/server.h"

namespace lockstep {
namespace {

constexpr int kMembers = 4;
constexpr char kJob[] = "work";

int Number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  int number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : otherwise;
}

// How far the members are, for the one who kills.
class Progress {
 public:
  void Count(int member) {
    const std::lock_guard lock(mutex_);
    ++done_[member];
    ++all_;
    changed_.notify_all();
  }
  void Fail(std::string why) {
    const std::lock_guard lock(mutex_);
    failures_.push_back(std::move(why));
    changed_.notify_all();
  }

  // Until so many more operations are done; false: it takes too long, or somebody has failed.
  bool AwaitMore(int64_t operations) {
    std::unique_lock lock(mutex_);
    const int64_t until = all_ + operations;
    return changed_.wait_for(lock, kPatience, [&] {
      return all_ >= until || !failures_.empty();
    }) && failures_.empty();
  }
  // Until each has done something more.
  bool AwaitEach() {
    std::unique_lock lock(mutex_);
    const auto before = done_;
    const auto each = [&] {
      for (int i = 0; i < kMembers; ++i) {
        if (done_[i] <= before.at(i)) return false;
      }
      return true;
    };
    return changed_.wait_for(lock, kPatience, [&] { return each() || !failures_.empty(); }) &&
           failures_.empty();
  }

  std::vector<std::string> failures() const {
    const std::lock_guard lock(mutex_);
    return failures_;
  }
  int64_t all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, int64_t> done_ = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
  int64_t all_ = 0;
  std::vector<std::string> failures_;
};

// What one member was told.
struct Told {
  std::map<std::string, KeyEntry> sets;
  std::vector<int64_t> sums;  // of the one counter
  std::vector<KeyEntry> found;
};

// Rounds: a write of its own, an addition to the common counter, a barrier at which each brings the
// number of the round.
class Worker {
 public:
  Worker(int index, Progress& progress, std::atomic<int64_t>& round, std::atomic<int64_t>& last)
      : index_(index), progress_(progress), round_(round), last_(last) {}

  void Run(const std::string& address) {
    auto me = Join({.address = address, .job = kJob, .index = index_});
    if (!me.ok()) return Fail("join", me.status());
    for (int64_t round = 0; round < last_; ++round) {
      if (!DoRound(**me, round)) return;
      int64_t seen = round_;
      while (seen < round && !round_.compare_exchange_weak(seen, round)) {
      }
    }
    auto found = (*me)->keys().List(absl::StrCat("w/", index_));
    if (!found.ok()) return Fail("list", found.status());
    told_.found = *std::move(found);
    if (absl::Status left = (*me)->Leave(); !left.ok()) return Fail("leave", left);
  }

  const Told& told() const { return told_; }

 private:
  void Fail(const std::string& what, const absl::Status& why) {
    progress_.Fail(absl::StrCat("member ", index_, ", ", what, ": ", why.ToString()));
  }

  bool DoRound(Member& me, int64_t round) {
    const std::string key = absl::StrFormat("w/%d/%08d", index_, round);
    const std::string value = absl::StrCat(index_, " in ", round);
    const absl::StatusOr<int64_t> revision = me.keys().Set(key, value, {.overwrite = false});
    if (!revision.ok()) return Fail(key, revision.status()), false;
    told_.sets[key] = {.key = key, .value = value, .revision = *revision};
    progress_.Count(index_);

    const absl::StatusOr<int64_t> sum = me.keys().Increment("sum");
    if (!sum.ok()) return Fail("sum", sum.status()), false;
    told_.sums.push_back(*sum);
    progress_.Count(index_);

    const auto passed = me.Barrier("round", {.value = absl::StrCat(round)});
    if (!passed.ok()) {
      return Fail(absl::StrCat("barrier ", round), passed.status()), false;
    }
    std::vector<MemberValue> expected;
    for (int i = 0; i < kMembers; ++i) expected.push_back({i, absl::StrCat(round)});
    if (*passed != expected) {
      return Fail("barrier", absl::InternalError(absl::StrCat(
                                 "answered with another round's values than ", round))),
             false;
    }
    progress_.Count(index_);
    return true;
  }

  const int index_;
  Progress& progress_;
  std::atomic<int64_t>& round_;
  const std::atomic<int64_t>& last_;
  Told told_;
};

std::string Milliseconds(Clock::duration duration) {
  return absl::StrFormat("%.0f ms", std::chrono::duration<double, std::milli>(duration).count());
}

// Kills and starts the server; returns how long each time until every member was served again.
std::vector<Clock::duration> KillAgainAndAgain(Server& server, Progress& progress, int times) {
  std::mt19937 random(static_cast<uint32_t>(Number("LOCKSTEP_SEED", 1)));
  std::vector<Clock::duration> outages;
  for (int i = 0; i < times; ++i) {
    EXPECT_TRUE(progress.AwaitMore(1 + random() % 100)) << "before kill " << i;
    // Somewhere within an operation.
    const auto moment = Clock::now() + std::chrono::microseconds(random() % 2000);
    while (Clock::now() < moment) {
    }
    server.Kill();
    const auto killed = Clock::now();
    server.Restart();
    EXPECT_TRUE(progress.AwaitEach()) << "after kill " << i;
    if (testing::Test::HasFailure()) break;
    outages.push_back(Clock::now() - killed);
  }
  return outages;
}

// What was acknowledged is there, once, and as it was told.
void Check(const std::vector<std::unique_ptr<Worker>>& workers) {
  std::vector<int64_t> sums;
  std::map<int64_t, std::string> revisions;
  for (const auto& worker : workers) {
    const Told& told = worker->told();
    std::map<std::string, KeyEntry> found;
    for (const KeyEntry& entry : told.found) found[entry.key] = entry;
    EXPECT_EQ(found.size(), told.sets.size());
    for (const auto& [key, set] : told.sets) {
      ASSERT_TRUE(found.contains(key)) << key << " was acknowledged and is lost";
      EXPECT_EQ(found[key].value, set.value) << key;
      EXPECT_EQ(found[key].revision, set.revision) << key;
      EXPECT_TRUE(revisions.emplace(set.revision, key).second)
          << key << " and " << revisions[set.revision] << " at one revision";
    }
    EXPECT_TRUE(std::is_sorted(told.sums.begin(), told.sums.end()));
    sums.insert(sums.end(), told.sums.begin(), told.sums.end());
  }
  std::sort(sums.begin(), sums.end());
  for (size_t i = 0; i < sums.size(); ++i) {
    ASSERT_EQ(sums[i], static_cast<int64_t>(i) + 1) << "an addition happened twice, or never";
  }
}

TEST(Restarts, NothingThatWasToldIsTakenBack) {
  const int times = Number("LOCKSTEP_RESTARTS", 20);
  Server server(absl::StrCat(kJob, "=", kMembers));
  ASSERT_NE(server.address(), "") << server.Log();
  Progress progress;
  std::atomic<int64_t> round = 0;
  std::atomic<int64_t> last = std::numeric_limits<int64_t>::max();
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  for (int i = 0; i < kMembers; ++i) {
    workers.push_back(std::make_unique<Worker>(i, progress, round, last));
    threads.emplace_back(
        [&server, worker = workers.back().get()] { worker->Run(server.address()); });
  }
  std::vector<Clock::duration> outages = KillAgainAndAgain(server, progress, times);
  // The members are in one round or the one behind it.
  last = HasFailure() ? 0 : round + 3;
  // Members that wait for one that has failed end with the server.
  if (HasFailure()) server.Kill();
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : progress.failures()) ADD_FAILURE() << failure;
  if (HasFailure()) {
    std::printf("the server's log, in %s:\n%s\n", server.directory().c_str(), server.Log().c_str());
    return;
  }
  Check(workers);
  EXPECT_EQ(server.Terminate(), 0) << server.Log();
  std::sort(outages.begin(), outages.end());
  ASSERT_FALSE(outages.empty());
  std::printf(
      "%d restarts under load: %d operations, 0 acknowledged writes lost, 0 barriers "
      "answered twice or differently; outage median %s, worst %s\n",
      times, static_cast<int>(progress.all()), Milliseconds(outages[outages.size() / 2]).c_str(),
      Milliseconds(outages.back()).c_str());
}

}  // namespace
}  // namespace lockstep
