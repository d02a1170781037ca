// The program's asks for elements that are not answered yet. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/time/time.h"
#include "lockstep/base/check.h"
#include "lockstep/base/time.h"
#include "lockstep/data/consumer/ask_timer.h"
#include "lockstep/data/consumer/consumer_machine.h"

namespace lockstep::dispatch {

// Owns the asks in the order in which they came, and counts what they got.
//
// Invariant: every ask that was added is answered exactly once, by `Answer`, `Cancel` or `EndAll`.
// Bounds: none of its own; each ask is a call of the program that waits.
class AskQueue {
 public:
  // Behind those that wait.
  void Add(Time now, AskId ask) {
    timer_.NoteAsk(now, handed_out_, !asks_.empty());
    asks_.push_back(ask);
  }
  // Answers the first ask with this element. There is one.
  void Answer(HandOut hand, ConsumerEffects& out) {
    LOCKSTEP_CHECK(!asks_.empty());
    hand.ask = asks_.front();
    asks_.pop_front();
    ++handed_out_;
    out.handed_out.push_back(std::move(hand));
  }
  // Answers this ask with the error, unless it was answered before.
  void Cancel(AskId ask, const ErrorPtr& error, ConsumerEffects& out) {
    const auto found = std::find(asks_.begin(), asks_.end(), ask);
    if (found == asks_.end()) return;
    asks_.erase(found);
    out.handed_out.push_back({.ask = ask, .error = error});
  }
  // Answers all with the error; null: with the end of the reading.
  void EndAll(const ErrorPtr& error, ConsumerEffects& out) {
    for (const AskId ask : asks_) {
      out.handed_out.push_back({.ask = ask, .error = error, .end = error == nullptr});
    }
    asks_.clear();
  }
  // An ask had to wait.
  void CountStall() { ++stalls_; }

  bool empty() const { return asks_.empty(); }
  int64_t handed_out() const { return handed_out_; }  // elements, since the beginning
  int64_t stalls() const { return stalls_; }
  absl::Duration element_time() const { return timer_.element_time(); }  // 0: not known

 private:
  std::deque<AskId> asks_;
  int64_t handed_out_ = 0;
  int64_t stalls_ = 0;
  AskTimer timer_;
};

}  // namespace lockstep::dispatch
