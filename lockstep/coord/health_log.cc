#include "lockstep/coord/health_log.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

void HealthLog::Restored(Effects& out) {
  awaits_restarted_ = membership_.detector().restarted() > 0;
  // A server that starts with an empty job has no members to wait for.
  if (!awaits_restarted_) return;
  std::vector<MemberIndex> awaited;
  for (int32_t i = 0; i < membership_.size(); ++i) {
    if (membership_.detector().Of(MemberIndex(i)).broke()) awaited.emplace_back(i);
  }
  LOCKSTEP_DCHECK(awaited.size() == membership_.detector().restarted());
  out.Tell(Severity::kWarning,
           absl::StrCat("job '", job_.options.job, "': the server was restarted; ", awaited.size(),
                        " of its members have ", FormatSpan(job_.options.restart_grace),
                        " to come back: ", job_.NameSome(awaited)),
           {LogKind::kMemberSuspect, {}});
}

void HealthLog::Tell(Time now, bool over, Effects& out) {
  std::optional<HostsHeard> heard;
  for (const FailureDetector::Turn& turn : membership_.detector().TakeTurns()) {
    // A member that was told of the failure ends: its silence is expected.
    if (!polls_.WasTold(turn.member)) TellTurn(now, turn, heard, out);
  }
  // Told once, when the last of them is back or lost.
  if (!awaits_restarted_ || membership_.detector().restarted() > 0) return;
  awaits_restarted_ = false;
  // Members of an attempt that is over left the count by its end, not by coming back.
  if (over) return;
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job,
                        "': nobody is missing any more of those who were in when the server was "
                        "restarted"),
           {LogKind::kMemberRecovered, {}});
}

void HealthLog::TellTurn(Time now, const FailureDetector::Turn& turn,
                         std::optional<HostsHeard>& heard, Effects& out) const {
  const FailureDetector::Health& health = membership_.detector().Of(turn.member);
  LOCKSTEP_DCHECK(health.suspect == turn.suspect);  // else it is no news
  const bool silent = turn.suspect && !health.broke();
  // Made at the first need, and for all turns of the event: it looks at every member.
  if (silent && !heard) heard = views_.ListHostsHeard();
  auto suspect = [&](absl::string_view why) {
    return absl::StrCat(" is suspect: ", why,
                        silent ? views_.SilentHostText(now, turn.member, *heard) : "",
                        "; it is lost if nothing is heard of it for another ",
                        FormatSpan(health.LostAt(job_.options.heartbeat_timeout) - now));
  };
  std::string text;
  if (!turn.suspect) {
    text = " is heard of again";
  } else if (turn.link != FailureDetector::Link::kUp) {
    text = suspect(DescribeLink(turn.link));
  } else {
    text = suspect(absl::StrCat("nothing was heard of it for ", FormatSpan(now - turn.since)));
  }
  out.Tell(turn.suspect ? Severity::kWarning : Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': ", job_.Describe(turn.member), text),
           {turn.suspect ? LogKind::kMemberSuspect : LogKind::kMemberRecovered, turn.member});
}

}  // namespace lockstep::coord
