// Tells the operator which members are in trouble, and which are well again. Pure.
#pragma once

#include "lockstep/coord/effects.h"
#include "lockstep/coord/error_polls.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/member_views.h"
#include "lockstep/coord/membership.h"

namespace lockstep::coord {

// Turns what the failure detector notes of suspicion into log entries: one for each turn of a
// member, and one for all members together when the server was restarted, since that concerns each
// of them alike.
//
// Threads: thread-compatible.
class HealthLog {
 public:
  // All must outlive it.
  HealthLog(const JobRecord& job, Membership& membership, const ErrorPolls& polls,
            const MemberViews& views)
      : job_(job), membership_(membership), polls_(polls), views_(views) {}

  // All records are applied: members that are in have restart_grace to come back.
  void Restored(Effects& out);

  // Tells of the turns since the last call. `over`: the attempt has failed or ended, so that nobody
  // waits for the members of before the restart.
  void Tell(Time now, bool over, Effects& out);

 private:
  void TellTurn(Time now, const FailureDetector::Turn& turn, std::optional<HostsHeard>& heard,
                Effects& out) const;

  const JobRecord& job_;
  Membership& membership_;
  const ErrorPolls& polls_;
  const MemberViews& views_;
  bool awaits_restarted_ = false;  // members that were in when the server was restarted
};

}  // namespace lockstep::coord
