// Collects what sources tell, and waits for it. Tests only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/preempt/source.h"

namespace lockstep::testing {

class SourceLog {
 public:
  preempt::SourceListener listener() {
    return {.on_event =
                [this](const preempt::SourceEvent& event) {
                  const std::lock_guard lock(mutex_);
                  events_.push_back(event);
                  changed_.notify_all();
                },
            .on_health =
                [this](const preempt::SourceHealth& health) {
                  const std::lock_guard lock(mutex_);
                  healths_.push_back(health);
                  changed_.notify_all();
                }};
  }

  // The next event, however long that takes on a busy machine.
  preempt::SourceEvent Next() {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, std::chrono::minutes(2),
                                        [this] { return taken_ < events_.size(); });
    EXPECT_TRUE(came) << "no event came";
    return came ? events_[taken_++] : preempt::SourceEvent{};
  }

  // Until the newest health is so.
  preempt::SourceHealth NextHealth(bool healthy) {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, std::chrono::minutes(2), [&] {
      return !healths_.empty() && healths_.back().healthy == healthy;
    });
    EXPECT_TRUE(came) << "it is not " << (healthy ? "healthy" : "unhealthy");
    return came ? healths_.back() : preempt::SourceHealth{};
  }

  // Everything that people would see.
  std::string text() {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const preempt::SourceEvent& event : events_)
      all += event.source + event.id + event.text + "\n";
    for (const preempt::SourceHealth& health : healths_)
      all += health.detail + health.last_error + "\n";
    return all;
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return events_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<preempt::SourceEvent> events_;
  std::vector<preempt::SourceHealth> healths_;
  size_t taken_ = 0;
};

}  // namespace lockstep::testing
