// The threads of a program that ask a reader for an element, until each has its answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/data/consumer/consumer_machine.h"

namespace lockstep::client {

// Gives each ask of a ConsumerMachine its number, and its one answer to the thread that asked: at
// once, or by the waiter that this thread blocks on.
//
// Threads: thread-compatible. Bounds: one entry for each thread that waits.
class ReaderAsks {
 public:
  struct Waiter : LoopDriver::Waiter {
    using LoopDriver::Waiter::Waiter;
    std::optional<dispatch::HandOut> answer;
  };

  // A new ask. `TakeAnswer` or `Wait` comes before the next one.
  dispatch::AskId Begin() { return asking_ = dispatch::AskId(++last_); }
  // Of the ask that has begun, if `Give` brought it; then it is over.
  std::optional<dispatch::HandOut> TakeAnswer() {
    if (answer_) asking_ = {};
    return std::exchange(answer_, std::nullopt);
  }
  // Of the ask that has begun: its thread is to wait.
  std::shared_ptr<Waiter> Wait(LoopDriver& loop) {
    ++stalls_;
    auto waiter = std::make_shared<Waiter>(loop);
    waiting_[std::exchange(asking_, {})] = waiter;
    return waiter;
  }
  // The answer to an ask. Returns whom to wake on the loop; null: nobody waits for it.
  std::shared_ptr<Waiter> Give(dispatch::HandOut answer) {
    if (answer.ask == asking_) {
      answer_ = std::move(answer);
      return nullptr;
    }
    auto node = waiting_.extract(answer.ask);
    if (node.empty()) return nullptr;
    node.mapped()->answer = std::move(answer);
    return std::move(node.mapped());
  }
  // Its thread has waited for so long, and does not any more.
  void EndWait(dispatch::AskId ask, absl::Duration waited) {
    waiting_.erase(ask);
    stalled_ += waited;
  }

  // Asks that had to wait, and how long those of them that ended.
  int64_t stalls() const { return stalls_; }
  absl::Duration stalled() const { return stalled_; }

 private:
  uint64_t last_ = 0;
  dispatch::AskId asking_;
  std::optional<dispatch::HandOut> answer_;  // to `asking_`
  absl::flat_hash_map<dispatch::AskId, std::shared_ptr<Waiter>> waiting_;
  int64_t stalls_ = 0;
  absl::Duration stalled_;
};

}  // namespace lockstep::client
