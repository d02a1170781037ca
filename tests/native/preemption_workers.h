// Members of a job at work, for tests of preemptions. Tests only.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/client/member.h"
#include "lockstep/client/preemption.h"

namespace lockstep {

// Returns when the server knows that all of them listen: what a member sends comes in order.
inline void AwaitListening(const std::vector<std::unique_ptr<Member>>& members) {
  std::vector<std::future<bool>> there;
  for (const auto& member : members) {
    there.push_back(
        std::async(std::launch::async, [&member] { return member->Barrier("listening").ok(); }));
  }
  for (auto& one : there) EXPECT_TRUE(one.get());
}

// Members that work in steps, each at its own speed but none far ahead of the others, as in a job
// that exchanges gradients; they save when they are told to.
class Workers {
 public:
  explicit Workers(std::vector<std::unique_ptr<Member>> members) : members_(std::move(members)) {
    for (const auto& member : members_) preemptions_.push_back(Preemption::Open(*member));
    AwaitListening(members_);
  }
  ~Workers() { Stop(); }

  Preemption& preemption(int member) { return *preemptions_[member]; }
  Member& member(int member) { return *members_[member]; }
  void Lose(int member) { members_[member].reset(); }

  // `stride`: of the polls of each. Goes on until `Stop`; returns when each has polled once: who
  // did not is not waited for.
  void Run(int64_t first = 0, int64_t stride = 1) {
    for (std::atomic<int64_t>& step : steps_) step = first;
    for (size_t i = 0; i < members_.size(); ++i) {
      threads_.emplace_back([this, i, first, stride] {
        for (int64_t step = first; !stop_; step += stride) {
          steps_[i] = step;
          while (!stop_ && step > Slowest() + kAheadMax * stride) std::this_thread::yield();
          if (preemptions_[i]->Reached(step)) {
            const int64_t id = preemptions_[i]->notice().id;
            {
              const std::lock_guard lock(mutex_);
              saved_[id].emplace(i, step);
            }
            preemptions_[i]->Saved(step, absl::StrCat("/ckpt/", step));
          }
          if (i % 2 == 1) std::this_thread::sleep_for(std::chrono::microseconds(50 * i));
        }
      });
    }
    while (Slowest() == first) std::this_thread::yield();
  }
  void Stop() {
    stop_ = true;  // also of those that wait for the others
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // At which steps the members saved in that preemption.
  std::set<int64_t> StepsOf(int64_t id) {
    const std::lock_guard lock(mutex_);
    std::set<int64_t> steps;
    for (const auto& [member, step] : saved_[id]) steps.insert(step);
    return steps;
  }
  size_t SavedIn(int64_t id) {
    const std::lock_guard lock(mutex_);
    return saved_[id].size();
  }

  // Until a preemption has ended that is not older than `id`.
  PreemptionNotice WaitForEnd(int member, int64_t id) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < until) {
      const PreemptionNotice notice = preemption(member).notice();
      if (notice.id >= id && !notice.open) return notice;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "preemption " << id << " does not end: " << preemption(member).notice().phase;
    return {};
  }

 private:
  static constexpr int64_t kAheadMax = 20;

  int64_t Slowest() const {
    int64_t slowest = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i] != nullptr) slowest = std::min<int64_t>(slowest, steps_[i]);
    }
    return slowest;
  }

  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Preemption>> preemptions_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_ = false;
  std::array<std::atomic<int64_t>, 16> steps_ = {};
  std::mutex mutex_;
  std::map<int64_t, std::map<size_t, int64_t>> saved_;
};

}  // namespace lockstep
