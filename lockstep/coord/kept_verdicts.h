// How the barriers of one attempt ended. Pure.
#pragma once

#include <list>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// The last verdict of each barrier id, for callers that ask again or come late, and for the counter
// of the next instance.
//
// An id whose next instance is open is held: its verdict is not forgotten, since the open instance
// may be abandoned and the id then stands as before. Of the others the oldest are forgotten beyond
// kept_barriers_max, and the oldest values beyond kept_barrier_values_bytes_max.
//
// Invariants: (1) an id is held, or has one place in the order of forgetting; (2) a verdict with
// values has one place in the order of forgetting values; (3) the bytes that are counted are those
// of all kept values, and at most kept_barrier_values_bytes_max; (4) the memory is the sum of the
// verdicts' costs.
//
// Threads: thread-compatible. Bounds: kept_barriers_max (beside those that are held, which
// open_barriers_max bounds), kept_barrier_values_bytes_max.
class KeptVerdicts {
 public:
  struct Verdict {
    int64_t counter = 0;        // of the instance
    Participants participants;  // null: no instance of the id has had a lawful list
    ErrorPtr error;             // null: it passed
    MemberValues values;        // what its members brought; null: nothing, or forgotten
    bool values_forgotten = false;
  };

  // `job` must outlive it.
  explicit KeptVerdicts(const JobRecord& job) : job_(job) {}

  // Null when nothing is kept of the id. Valid until the next call that changes something.
  const Verdict* Find(const std::string& id) const;

  // Replaces what is kept of the id, which is not held afterwards, and is the newest.
  void Keep(const std::string& id, Verdict verdict);
  // The next instance of a kept id is open; it is open no longer, and left no verdict.
  void Hold(const std::string& id);
  // The newest from then on. Ids of which nothing is kept are ignored.
  void Release(const std::string& id);
  // Down to kept_barriers_max; those that are held do not count.
  void ForgetOldest();

  // Whether ids beyond kept_barriers_max may have been forgotten.
  bool forgot_some() const { return forgot_some_; }
  size_t size() const { return oldest_first_.size(); }  // without those that are held
  // What it holds, about as it costs.
  size_t memory() const { return memory_; }

  // What Keep needs, the oldest first; those that are held come last.
  void Snapshot(std::vector<TimedRecord>& out) const;

 private:
  struct Kept;
  using Verdicts = std::map<std::string, Kept>;
  using Places = std::list<Verdicts::iterator>;
  struct Kept {
    Verdict verdict;
    bool held = false;
    Places::iterator place;         // in oldest_first_, when not held
    Places::iterator values_place;  // in oldest_values_first_, with values
    size_t values_bytes = 0;
    size_t cost = 0;  // as it was counted last
  };

  void DropValues(Kept& kept);
  void Count(const std::string& id, Kept& kept);
  bool InvariantsHold() const;  // ends the process otherwise

  const JobRecord& job_;
  Verdicts verdicts_;
  Places oldest_first_;
  Places oldest_values_first_;
  size_t values_bytes_ = 0;
  size_t memory_ = 0;
  bool forgot_some_ = false;
};

// Empty for everybody: how records name the participants of an instance.
std::vector<MemberIndex> ListedMembers(const JobRecord& job, const Participants& participants);

}  // namespace lockstep::coord
