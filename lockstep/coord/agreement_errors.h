// What callers of agreements are told when something is wrong. Pure; no decision is made here.
//
// Each error names the instance (`agreement 'name::counter'`), who did what, and what to do next.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/membership.h"

namespace lockstep::coord {

// How texts call an instance: agreement 'name::counter'.
std::string NameOfAgreement(absl::string_view name, int64_t counter);

class AgreementErrors {
 public:
  // Both must outlive it.
  AgreementErrors(const JobRecord& job, const Membership& membership)
      : job_(job), membership_(membership) {}

  // The request makes no sense, whatever the others ask. Null when it does.
  ErrorPtr OfRequest(const AgreeOnIndex& request) const;
  // The caller is not connected. Null when it is.
  ErrorPtr OfCaller(const AgreeOnIndex& request) const;
  // The request and what the others want differ. Null when they agree. `list`: the request's.
  ErrorPtr OfTerms(const BarrierRef& agreement, int64_t stride, const Gathering& open,
                   const AgreeOnIndex& request, const Participants& list) const;

  // `last`: the counter of the last instance, -1 when there was none.
  ErrorPtr WrongCounter(const AgreeOnIndex& request, int64_t last) const;
  ErrorPtr TooManyOpen(const AgreeOnIndex& request, int64_t last, size_t open) const;
  ErrorPtr MoreRecentCall(const BarrierRef& agreement, MemberIndex member) const;
  // No multiple of the stride is left.
  ErrorPtr Overflow(const BarrierRef& agreement, int64_t stride, int64_t index) const;
  ErrorPtr TimedOut(Time now, const BarrierRef& agreement, const Gathering& open) const;

 private:
  const JobRecord& job_;
  const Membership& membership_;
};

}  // namespace lockstep::coord
