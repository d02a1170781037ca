#include "lockstep/stock/tcpstore/listener/greeting_deadlines.h"

namespace lockstep::net {

void GreetingDeadlines::Add(const ConnectionPtr& connection) {
  came_.emplace_back(runtime::MonotonicNow(), connection);
  if (came_.size() == 1) Check();
}

void GreetingDeadlines::Check() {
  const Time now = runtime::MonotonicNow();
  while (!came_.empty()) {
    const ConnectionPtr connection = came_.front().second.lock();
    const bool greets = connection && connection->stage() == TorchStoreConnection::Stage::kGreeting;
    const Time due = came_.front().first + timeout_;
    if (greets && due > now) return timer_.Arm(due, [this] { Check(); });
    came_.pop_front();
    if (greets) late_(connection);
  }
}

}  // namespace lockstep::net
