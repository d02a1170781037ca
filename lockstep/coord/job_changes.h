// What has changed in a job, by version, and what went wrong in it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

// Gives each change that people see the next version. For a watcher that knows the job as of one
// version, it says what is new: which members have changed since, each once, and which errors came.
//
// Invariants: (1) a member has at most one place among the changes, at its last one; (2) no change
// and no error has a version above the newest.
//
// Threads: thread-compatible. Bounds: one change a member, kept_errors_max errors.
class JobChanges {
 public:
  // `options` must outlive it.
  explicit JobChanges(const CoordinatorOptions& options);

  // Something that people see of the member, of the job as a whole, or of all members has changed.
  void Touch(MemberIndex member);
  void TouchJob() { ++version_; }
  void TouchAll();
  // Keeps an error for people; the oldest go first (`kept_errors_max`), but an attempt's root cause
  // after its consequences.
  void KeepError(ErrorView error);
  // Versions from before are not known any more; `base` is the newest of the new ones, and errors
  // come behind it.
  void Restart(int64_t base);

  int64_t version() const { return version_; }
  // Whether what changed since that version is known.
  bool Knows(int64_t version) const { return version >= first_version_ && version <= version_; }
  // The members that have changed since that version, in the order of their indices.
  std::vector<MemberIndex> MembersSince(int64_t version) const;
  // Oldest first, by the version at which they came.
  const std::map<int64_t, ErrorView>& errors() const { return errors_; }

  // What it holds, about as it costs.
  size_t memory() const;

 private:
  bool InvariantsHold() const;  // ends the process otherwise

  const CoordinatorOptions& options_;
  int64_t version_ = 0;
  int64_t first_version_ = 0;                       // what changed before is not known
  std::map<int64_t, MemberIndex> changed_members_;  // by the version of their last change
  std::vector<int64_t> versions_;                   // by member: its key there, 0 when it has none
  std::map<int64_t, ErrorView> errors_;
};

}  // namespace lockstep::coord
