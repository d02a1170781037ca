#include "lockstep/coord/member_views.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

ProcessState StateOf(const ProcessRecord& process) {
  // First: of a member that is left out nothing else holds.
  if (process.left_out) return ProcessState::kLeftOut;
  if (process.pid == 0 || process.former) return ProcessState::kUnknown;
  // A stopped process runs, too; that it is stopped tells more.
  if (process.stopped) return ProcessState::kStopped;
  if (process.running) return ProcessState::kRunning;
  return process.failed ? ProcessState::kFailed : ProcessState::kEnded;
}

// Of a program that knows nothing of us a launcher can tell at least that.
std::string WhyMissing(Time now, const ProcessRecord& process) {
  const std::string span = FormatSpan(now - process.since);
  const char* const how = process.failed ? "its process failed" : "its process ended";
  std::string ended = absl::StrCat(process.ended.empty() ? how : process.ended, " ", span, " ago");
  if (process.former) return absl::StrCat("in the run before, ", ended);
  switch (StateOf(process)) {
    case ProcessState::kUnknown:
      return "";
    case ProcessState::kRunning:
      return absl::StrCat("its process has run for ", span, ", and has not joined");
    case ProcessState::kStopped:
      return absl::StrCat("its process has been stopped (SIGSTOP) for ", span);
    case ProcessState::kLeftOut:
      return absl::StrCat("the run has been without it for ", span);
    case ProcessState::kEnded:
    case ProcessState::kFailed:
      break;
  }
  return ended;
}

// And when the member is lost, if that is later than usual.
std::string DescribeSilence(Time now, const FailureDetector::Health& health, absl::Duration usual) {
  std::string text =
      absl::StrCat("nothing was heard of it for ", FormatSpan(now - health.signs.last_heard()));
  // The usual time is known; a longer one has to be explained.
  if (health.signs.Patience(usual) <= usual) return text;
  return absl::StrCat(text, "; it is lost if nothing is heard of it for another ",
                      FormatSpan(health.LostAt(usual) - now));
}

}  // namespace

HostsHeard MemberViews::ListHostsHeard() const {
  HostsHeard heard;
  for (int32_t i = 0; i < membership_.size(); ++i) {
    const Membership::Member& member = membership_.Get(MemberIndex(i));
    if (member.state != MemberState::kConnected) continue;
    const std::string& host = job_.HostOf(MemberIndex(i));
    // A member whose host is unknown speaks for no host.
    if (host.empty()) continue;
    Time& last = heard[host];
    last = std::max(last, membership_.detector().Of(MemberIndex(i)).signs.last_heard());
  }
  return heard;
}

std::string MemberViews::SilentHostText(Time now, MemberIndex member,
                                        const HostsHeard& heard) const {
  const std::string& host = job_.HostOf(member);
  const auto found = heard.find(host);
  // With one host only, its silence is that of the whole job.
  if (heard.size() < 2 || found == heard.end()) return "";
  const absl::Duration silent = now - found->second;
  // Members of one host do not fall silent at the same moment.
  if (2 * silent < now - membership_.detector().Of(member).signs.last_heard()) return "";
  return absl::StrCat("; ", host, " has not been heard for ", FormatSpan(silent));
}

void MemberViews::NameSilentHost(Time now, MemberView& view,
                                 std::optional<HostsHeard>& heard) const {
  const FailureDetector::Health& health = membership_.detector().Of(view.member);
  const bool silent =
      view.condition == MemberCondition::kSuspect && health.suspect && !health.broke();
  // A stopped process is explained already.
  if (!silent || job_.processes[view.member.value()].stopped) return;
  if (!heard) heard = ListHostsHeard();
  view.why += SilentHostText(now, view.member, *heard);
}

MemberView MemberViews::OfProcess(Time now, MemberIndex index) const {
  const ProcessRecord& process = job_.processes[index.value()];
  MemberView view{
      .member = index, .name = job_.Name(index), .condition = MemberCondition::kMissing};
  view.since = now;
  // A process of the attempt before says nothing about the newer run.
  if (!process.newer && !process.left_out) return view;
  view.why = WhyMissing(now, process);
  view.host = process.host;
  view.pid = process.pid;
  view.process = StateOf(process);
  view.process_since = process.since;
  return view;
}

size_t MemberViews::CountConnected() const {
  size_t connected = 0;
  for (int32_t i = 0; i < membership_.size(); ++i) {
    const MemberIndex member(i);
    const bool is = membership_.Get(member).state == MemberState::kConnected;
    // A member that was told of the failure is about to end.
    if (is && !polls_.WasTold(member)) ++connected;
  }
  LOCKSTEP_DCHECK(connected <= membership_.connected());
  return connected;
}

bool MemberViews::IsMissing(MemberIndex index) const {
  const Membership::Member& member = membership_.Get(index);
  // An attempt that fails puts all its members in error, also those that never came.
  if (member.state == MemberState::kError) return !member.ever_registered;
  return member.state == MemberState::kDisconnected && !registration_.Waits(index) &&
         !member.grace_until;
}

MemberView MemberViews::Of(Time now, MemberIndex index) const {
  const Membership::Member& member = membership_.Get(index);
  const ProcessRecord& process = job_.processes[index.value()];
  const PlaceRecord& place = job_.places[index.value()];
  const bool told = member.ever_registered && !place.host.empty();  // by itself
  // A process of another run than the member's says nothing about it.
  const bool launched = !process.former && !(process.newer && member.ever_registered);
  MemberView view{.member = index,
                  .name = job_.NameWithLife(index),
                  .since = member.since,
                  .peer = member.peer,
                  .host = told       ? place.host
                          : launched ? process.host
                                     : "",
                  .pid = told       ? place.pid
                         : launched ? process.pid
                                    : 0,
                  .step = member.step,
                  .phase = member.phase,
                  .labels = member.labels,
                  .doing = job_.waits.Describe(now, index),
                  .native = member.native(),
                  .process = StateOf(process),
                  .process_since = process.since};
  // By a server that was started again it may never have been heard.
  const FailureDetector::Health& health = membership_.detector().Of(index);
  const Time last_heard = health.signs.last_heard();
  const bool heard = health.link != FailureDetector::Link::kRestarted;
  if (member.ever_registered && heard) view.last_heard = last_heard;
  auto become = [&view](MemberCondition condition, Time since, std::string why) {
    view.condition = condition;
    view.since = since;
    view.why = std::move(why);
  };
  if (member.state == MemberState::kError && !member.ever_registered) {
    become(MemberCondition::kMissing, member.since, "it had not come when the attempt failed");
  } else if (member.state == MemberState::kError) {
    const Reason reason = member.error->reason;
    become(IsLoss(reason) ? MemberCondition::kLost : MemberCondition::kFailed, member.since,
           member.error->message);
  } else if (member.state == MemberState::kDisconnected) {
    if (registration_.Waits(index)) {
      view.condition = MemberCondition::kRegistering;
    } else if (member.grace_until) {
      view.condition = MemberCondition::kLeft;
    } else {
      const bool came = member.ever_registered;
      become(MemberCondition::kMissing, came ? member.since : registration_.began().value_or(now),
             came ? "it went away while it registered" : WhyMissing(now, process));
    }
  } else if (process.stopped) {
    become(MemberCondition::kSuspect, process.since, "its process is stopped (SIGSTOP)");
  } else if (health.link != FailureDetector::Link::kUp) {
    become(MemberCondition::kSuspect, health.link_since, DescribeLink(health.link));
  } else if (polls_.WasTold(index)) {
    become(MemberCondition::kFailed, member.since, "it was told of the failure, and ends by it");
  } else if (health.suspect || now > health.signs.SuspectAt(job_.options.heartbeat_timeout)) {
    become(MemberCondition::kSuspect, last_heard,
           DescribeSilence(now, health, job_.options.heartbeat_timeout));
  } else {
    view.condition = MemberCondition::kConnected;
  }
  return view;
}

}  // namespace lockstep::coord
