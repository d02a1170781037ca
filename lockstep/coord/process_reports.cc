#include "lockstep/coord/process_reports.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

void ProcessReports::Record(MemberIndex member, Effects& out) {
  LOCKSTEP_DCHECK(job_.IsMember(member));
  out.records.push_back(job_.processes.RecordOf(member));
  job_.changes.Touch(member);
}

void ProcessReports::Note(Time now, const ProcessStarted& fact, bool alone, Effects& out) {
  // A launcher may run more processes than the job has members.
  if (!job_.IsMember(fact.member)) return;
  job_.processes.Start(now, fact, alone);
  Record(fact.member, out);
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': ", job_.Name(fact.member),
                        " started as pid ", fact.pid, " on ", fact.host),
           {LogKind::kProcessStarted, fact.member});
}

bool ProcessReports::Note(Time now, const ProcessEnded& fact, Effects& out) {
  if (!job_.IsMember(fact.member) || !job_.processes.End(now, fact)) return false;
  Record(fact.member, out);
  return true;
}

bool ProcessReports::Note(const ProcessEnding& fact) {
  // No record: what is about to end is of no use to a restarted server.
  return job_.IsMember(fact.member) && job_.processes.AnnounceEnd(fact);
}

void ProcessReports::Note(Time now, const RunBegan& fact, Effects& out) {
  for (int32_t i = 0; i < job_.options.size; ++i) {
    const MemberIndex member(i);
    // Members that come back into a larger run are awaited again.
    if (job_.processes.SetLeftOut(now, member, i >= fact.size)) Record(member, out);
  }
}

void ProcessReports::NoteStopped(Time now, MemberIndex member, int64_t pid, bool stopped,
                                 Effects& out) {
  if (!job_.IsMember(member)) return;
  const std::optional<absl::Duration> before = job_.processes.SetStopped(now, member, pid, stopped);
  if (!before) return;
  out.Tell(Severity::kWarning,
           stopped ? absl::StrCat("job '", job_.options.job, "': ", job_.Describe(member),
                                  " is stopped (SIGSTOP); it is lost only by its heartbeat timeout")
                   : absl::StrCat("job '", job_.options.job, "': ", job_.Describe(member),
                                  " continues after ", FormatSpan(*before)),
           {stopped ? LogKind::kMemberSuspect : LogKind::kMemberRecovered, member});
  Record(member, out);
}

}  // namespace lockstep::coord
