// How the agreements of one attempt ended. Pure.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// The last verdict of each name, for members that ask again or come late, and for the counter of
// the next instance.
//
// A name whose next instance is open is held: its verdict is not forgotten, since the open instance
// may be abandoned and the name then stands as before. Of the others the oldest are forgotten
// beyond kept_barriers_max.
//
// Invariants: (1) a name is held, or has one place in the order of forgetting; (2) the counter of a
// name only goes up.
//
// Threads: thread-compatible. Bounds: kept_barriers_max, beside those that are held.
class KeptAgreements {
 public:
  struct Verdict {
    int64_t counter = 0;  // of the instance
    ErrorPtr error;       // null: agreed on `index`
    int64_t index = 0;
    std::vector<MemberIndex> members = {};  // whose it was; empty: everybody's
  };

  explicit KeptAgreements(const CoordinatorOptions& options) : options_(options) {}

  // Null when nothing is kept of the name. Valid until the next call that changes something.
  const Verdict* Find(const std::string& name) const;

  // Replaces what is kept of the name, which is not held afterwards, and is the newest.
  void Keep(const std::string& name, Verdict verdict);
  // The next instance of the name is open; it is open no longer, and left no verdict. Neither does
  // anything for a name that is not kept.
  void Hold(const std::string& name);
  void Release(const std::string& name);
  void ForgetOldest();

  // Whether names beyond kept_barriers_max may have been forgotten.
  bool forgot_some() const { return forgot_some_; }
  size_t size() const { return oldest_first_.size(); }  // without those that are held

  // What Keep needs, the oldest first; those that are held come last.
  void Snapshot(std::vector<TimedRecord>& out) const;

 private:
  struct Kept;
  using Verdicts = std::map<std::string, Kept>;
  using Places = std::list<Verdicts::iterator>;
  struct Kept {
    Verdict verdict;
    bool held = false;
    Places::iterator place;  // in oldest_first_, when not held
  };

  bool InvariantsHold() const;  // ends the process otherwise

  const CoordinatorOptions& options_;
  Verdicts verdicts_;
  Places oldest_first_;
  bool forgot_some_ = false;
};

}  // namespace lockstep::coord
