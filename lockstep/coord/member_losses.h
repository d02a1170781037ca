// Members that are given up at one moment: which of them is the cause, and what is said of them.
// Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/membership.h"

namespace lockstep::coord {

// A member that is given up, and the error that says why.
struct MemberLoss {
  MemberIndex member;
  Time since;  // when its trouble began
  ErrorPtr error;
};

// UNAVAILABLE (heartbeat_timeout, connection_lost, agent_ended): too little was heard of the
// member.
ErrorPtr LossError(const JobRecord& job, const FailureDetector::Loss& loss, Time now);
// The same of each.
std::vector<MemberLoss> MemberLossesOf(const JobRecord& job,
                                       const std::vector<FailureDetector::Loss>& losses, Time now);

// UNAVAILABLE (host_lost): the host of the member was given up, with so many members.
ErrorPtr HostLostError(const JobRecord& job, const HostLost& fact, MemberIndex member,
                       size_t members);

// UNAVAILABLE (process_ended): the launcher of the member saw its process end.
ErrorPtr ProcessEndedError(const JobRecord& job, const ProcessEnded& end);
// "its process was killed by SIGKILL", "its process exited with 1 without leaving the job".
std::string DescribeLoss(const ProcessEnded& end);

// Keeps the error in the history of the job, for people. `consequence`: it followed from the first
// error of the attempt.
void KeepError(Time now, const Error& error, bool consequence, JobRecord& job, Effects& out);

// Orders losses and chooses the cause among them: the one whose trouble began first. A
// member that may come back is no cause beside one that may not: it fails no other member.
class MemberLosses {
 public:
  // There is at least one. When one of them is fatal, members whose connection broke before are
  // given up with it, and most likely are the cause: what is told now is a consequence of that, and
  // each member hears of one cause only.
  MemberLosses(const JobRecord& job, const Membership& membership, Time now,
               std::vector<MemberLoss> member_losses);

  // In the order in which their trouble began, ties by index; no member twice.
  const std::vector<MemberLoss>& all() const { return all_; }
  const MemberLoss& cause() const { return all_[cause_]; }
  // Whether some member is among them that cannot come back: then the attempt fails.
  bool fatal() const { return IsFatal(cause()); }
  bool IsFatal(const MemberLoss& loss) const { return !job_.Recoverable(loss.member); }
  // The error of the cause, with the names of the others.
  ErrorPtr Combined() const;

 private:
  const JobRecord& job_;
  std::vector<MemberLoss> all_;
  size_t cause_ = 0;
};

}  // namespace lockstep::coord
