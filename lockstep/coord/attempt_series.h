// The attempts of a job, one after another. Pure.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/attempt.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// Owns the current attempt, and opens the next one. All state that clients can reach belongs to the
// current attempt, so that nothing of an old one can touch the new one. The job's record keeps its
// number, and how the one before went.
//
// Invariants: (1) the numbers of attempts only go up; (2) two attempts have different service
// incarnations; (3) an attempt is in a record before anything of it is.
//
// Threads: thread-compatible. Bounds: one attempt at a time, attempt_max in all.
class AttemptSeries {
 public:
  // `job` must outlive it. The first attempt is on, and not recorded yet.
  explicit AttemptSeries(JobRecord& job);

  // Valid until the next one is opened or applied.
  Attempt& current() { return *attempt_; }
  const Attempt& current() const { return *attempt_; }
  // It failed, or all who were in it have left.
  bool over() const { return attempt_->failed() || attempt_->ended(); }

  // Whether a life of a member belongs to the attempt after this one.
  bool OpensNext(MemberIndex member, Incarnation incarnation) const;
  // Null when there is a number left for the attempt after this one, else RESOURCE_EXHAUSTED
  // (limit_exceeded).
  ErrorPtr CheckNext() const;
  // Ends this attempt: all that is parked in it is answered, as `WrongService` says it. `number`:
  // at least the one after this.
  void OpenNext(Time now, int64_t number, Effects& out);

  // INTERNAL (wrong_service_incarnation), with what became of the attempt that the caller is of.
  // `native`: it can join again.
  ErrorPtr WrongService(ServiceIncarnation claimed, bool native) const;

  // Whether the current attempt is in a record.
  bool recorded() const { return recorded_; }
  // Records the first attempt, unless it is.
  void Record(Effects& out);
  // INVALID_ARGUMENT: no attempt of that number can follow.
  absl::Status Apply(const record::AttemptBegan& record);

 private:
  JobRecord& job_;
  std::unique_ptr<Attempt> attempt_;  // never null
  bool recorded_ = false;
};

}  // namespace lockstep::coord
