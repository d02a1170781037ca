// The workers that are there. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/ids.h"

namespace lockstep::dispatch {

// A worker as its polls say it, the poll that is parked, and what it was chosen for.
struct Worker {
  WorkerId id;
  std::string address;
  std::string host_card;
  std::vector<std::string> tags;
  std::string host;
  int64_t pid = 0;
  Time heard;
  int64_t version = 1;  // of its orders
  std::optional<CallId> parked;
  bool link_ended = false;  // the one of its last poll, as far as is known
  bool dirty = false;       // a parked poll is to be answered
  int64_t load = 0;         // first come: grants that are not acknowledged
  std::map<DatasetId, absl::Duration> times;
};

// Nothing here outlives the dispatcher: workers come back by themselves, and hold no promise.
class WorkerTable {
 public:
  using Avoid = std::map<WorkerId, Time>;

  // Null: it has gone, or never came.
  Worker* Find(WorkerId id);
  const Worker* Find(WorkerId id) const;             // to read
  Worker& Add(WorkerId id) { return workers_[id]; }  // one that is there stays as it is
  void Remove(WorkerId id) { workers_.erase(id); }   // with its load
  // Null: none has this address.
  Worker* FindByAddress(const std::string& address);

  bool empty() const { return workers_.empty(); }  // nobody makes anything
  size_t size() const { return workers_.size(); }  // those that are slow or late, too
  const std::map<WorkerId, Worker>& all() const { return workers_; }  // by id
  std::map<WorkerId, Worker>& all() { return workers_; }              // to change them

  // Its orders may have changed.
  void Touch(WorkerId id);
  // All of them; see `Touch`.
  void TouchAll();

  // The one with the least to do, but for those to avoid while there are others; 0: there is none.
  WorkerId LeastLoaded(const Avoid& avoid) const;
  // The same one for the same key, as long as it is there.
  WorkerId ForKey(uint64_t key, const Avoid& avoid) const;
  // Whether it is there, and not to be avoided.
  bool IsGood(WorkerId id, const Avoid& avoid) const;

 private:
  // Those that may be chosen.
  std::vector<const Worker*> Eligible(const Avoid& avoid) const;

  std::map<WorkerId, Worker> workers_;
};

}  // namespace lockstep::dispatch
