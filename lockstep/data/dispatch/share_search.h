// Where the shares by file go on: the next segment that begins in one of a share's files. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/shape.h"

namespace lockstep::dispatch {

// Looks for several shares at once, from file to file: those that have come to the same segment go
// on together, so that thousands of them take no more steps than one.
//
// Bounds: one entry for each task that is looked for; steps by the caller.
class ShareSearch {
 public:
  struct Found {
    TaskId task;
    int64_t segment = 0;  // the end of the dataset: there is none
  };

  // The task, which has the files of this share, wants its first segment from `from` on.
  void Add(TaskId task, int64_t share, int64_t from) { wanted_[from].emplace(share, task); }
  bool empty() const { return wanted_.empty(); }  // nothing is looked for
  void Clear() { wanted_.clear(); }
  // One step, from where the last one is; returns what it finds. Files are shared out to `shares`.
  std::vector<Found> Step(const Shape& shape, int64_t shares);

 private:
  using Wanted = std::set<std::pair<int64_t, TaskId>>;  // by share
  std::map<int64_t, Wanted> wanted_;                    // by the segment to which it has come
};

}  // namespace lockstep::dispatch
