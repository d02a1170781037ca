#include "lockstep/sim/schedule.h"

#include <algorithm>
#include <utility>

namespace lockstep::sim {

void Schedule::At(Time at, Action action) {
  if (at.is_infinite()) return;
  entries_.push(Entry{std::max(at, now_), serials_++, std::move(action)});
}

bool Schedule::RunNext(Time end) {
  if (entries_.empty() || entries_.top().at > end) {
    now_ = std::max(now_, end);
    return false;
  }
  now_ = entries_.top().at;
  Action action = std::move(entries_.top().action);
  entries_.pop();
  action();
  return true;
}

}  // namespace lockstep::sim
