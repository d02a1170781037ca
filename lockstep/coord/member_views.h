// How the members of an attempt look to people. Pure; nothing is decided here.
#pragma once

#include <optional>
#include <string>

#include "lockstep/coord/error.h"
#include "lockstep/coord/error_polls.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/registration.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

// Whether a member that has an error for this reason died or fell silent, in contrast to having
// failed.
inline bool IsLoss(Reason reason) {
  return reason == Reason::kHeartbeatTimeout || reason == Reason::kConnectionLost ||
         reason == Reason::kAgentEnded || reason == Reason::kHostLost ||
         reason == Reason::kProcessEnded;
}

// Puts together what the machines of an attempt know of a member and what its launcher told.
//
// A whole host that is silent is worth a remark; that takes the last signs of life of all hosts
// (HostsHeard), so callers list those once for all members that they look at.
//
// Threads: thread-compatible. Holds nothing of its own.
class MemberViews {
 public:
  // All must outlive it.
  MemberViews(const JobRecord& job, const Membership& membership, const Registration& registration,
              const ErrorPolls& polls)
      : job_(job), membership_(membership), registration_(registration), polls_(polls) {}

  MemberView Of(Time now, MemberIndex member) const;
  // As a member that has not joined, of which only a process of the newest run is known.
  MemberView OfProcess(Time now, MemberIndex member) const;
  // The member has not come, or went away while it registered. Cheaper than `Of`.
  bool IsMissing(MemberIndex member) const;
  // Members that are in, and have not been told of a failure.
  size_t CountConnected() const;

  HostsHeard ListHostsHeard() const;
  // "; host-b has not been heard for 3.2s" of a member that is silent, when all members of its host
  // are and others run elsewhere; else empty.
  std::string SilentHostText(Time now, MemberIndex member, const HostsHeard& heard) const;
  // Adds that text to `why` of a member that is silent. Lists `heard` when it is the first to need
  // it.
  void NameSilentHost(Time now, MemberView& view, std::optional<HostsHeard>& heard) const;

 private:
  const JobRecord& job_;
  const Membership& membership_;
  const Registration& registration_;
  const ErrorPolls& polls_;
};

}  // namespace lockstep::coord
