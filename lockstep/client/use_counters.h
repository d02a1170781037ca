// Which use of a name comes next: barriers and agreements are used again and again under one name.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::client {

// Counts the uses of each name as the server does: a use counts when it is over, whatever became of
// it, so that a call that went wrong on its way is made again under the same number.
//
// Threads: thread-compatible. Bounds: `names_max` names are remembered, those used longest ago
// forgotten first, as the server does (kept_barriers_max).
class UseCounters {
 public:
  explicit UseCounters(size_t names_max = 100'000) : names_max_(names_max) {}

  // The number for the next use of the name. FAILED_PRECONDITION when this member is in one.
  absl::StatusOr<int64_t> Begin(const std::string& name);

  // That use is over for us; `status` is what became of it.
  void End(const std::string& name, const absl::Status& status);

 private:
  struct Use {
    int64_t next = 0;
    bool open = false;
    std::list<std::string>::iterator place;  // in ended_, when not open
  };

  const size_t names_max_;
  absl::flat_hash_map<std::string, Use> uses_;  // looked up only
  std::list<std::string> ended_;                // oldest first
};

}  // namespace lockstep::client
