// What is due when, and who waits in a parked call. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/ids.h"

namespace lockstep::dispatch {

enum class DueKind {
  kWorkerLost,
  kWorkerPark,
  kConsumerLease,
  kConsumerPark,
  kConsumerQuiet,  // nobody is made to wait for it any more
  kConsumerReach,  // it may try the workers again that it could not reach
  kIterationIdle,
  kIterationSeeks,  // it goes on looking for what its shares read next
  kDatasetIdle,
  kDatasetResolve,  // who lists its files takes long
};

// One thing that may be due: at most once at a time.
struct Due {
  DueKind kind = DueKind::kWorkerLost;
  WorkerId worker;
  IterationId iteration;
  ConsumerId consumer;
  DatasetId dataset;
  auto operator<=>(const Due&) const = default;
};

class Deadlines {
 public:
  // In place of the former time, if it had one.
  void Set(const Due& due, Time at) {
    Clear(due);
    if (at.is_infinite()) return;
    at_[due] = at;
    order_.emplace(at, due);
  }
  // Does nothing where no time is set.
  void Clear(const Due& due) {
    const auto found = at_.find(due);
    if (found == at_.end()) return;
    order_.erase({found->second, due});
    at_.erase(found);
  }
  // Infinite: nothing is due, ever.
  Time Next() const { return order_.empty() ? Time::Infinite() : order_.begin()->first; }
  // The first that is due, which it is then no more.
  std::optional<Due> Pop(Time now) {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    const Due due = order_.begin()->second;
    Clear(due);
    return due;
  }
  size_t size() const { return at_.size(); }  // times that are set

 private:
  std::map<Due, Time> at_;
  std::set<std::pair<Time, Due>> order_;
};

}  // namespace lockstep::dispatch
