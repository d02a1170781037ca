#include "lockstep/server/answers_in_turns.h"

#include <algorithm>
#include <iterator>

namespace lockstep::server {

void AnswersInTurns::Add(std::vector<coord::Reply>&& replies) {
  if (replies.empty()) return;
  if (!work_.running() && replies.size() <= kStep) {
    answer_(replies, shared_);
    shared_.SendAll();
    return;
  }
  waiting_ += replies.size();
  events_.push_back(std::move(replies));
  if (at_once_) return Finish();
  work_.Begin();
}

bool AnswersInTurns::Step() {
  if (events_.empty()) return false;
  std::vector<coord::Reply>& event = events_.front();
  if (sent_ == event.size()) {
    if (shared_.SendSome(kStep)) return true;
    events_.pop_front();
    sent_ = 0;
    return !events_.empty();
  }
  const size_t count = std::min(kStep, event.size() - sent_);
  const auto begin = std::make_move_iterator(event.begin() + static_cast<ptrdiff_t>(sent_));
  const std::vector<coord::Reply> next(begin, begin + static_cast<ptrdiff_t>(count));
  sent_ += count;
  waiting_ -= count;
  // May add events.
  answer_(next, shared_);
  return true;
}

void AnswersInTurns::Finish() {
  at_once_ = true;
  work_.Finish();
}

}  // namespace lockstep::server
