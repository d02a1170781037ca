#include "lockstep/observe/suspects.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/observe/odd_one_out.h"
#include "lockstep/observe/text_parts.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

constexpr size_t kKeyBytesMax = 200;
constexpr size_t kGroupsTold = 8;
static_assert(kSuspectPatienceUs < kSuspectCauseWindowUs);

// "task/2 (pid 17 on host-b)"
std::string Named(const std::string& name, int64_t pid, const std::string& host) {
  std::string text = CleanText(name);
  if (pid > 0) {
    absl::StrAppend(&text, " (pid ", pid, host.empty() ? "" : " on ", CleanText(host), ")");
  }
  return text;
}

Suspect Of(const MemberStatus& member, std::optional<int64_t> since_ago_us, std::string evidence) {
  return {.member = member.index,
          .name = member.name,
          .host = member.host,
          .pid = member.pid,
          .since_ago_us = since_ago_us,
          .evidence = std::move(evidence)};
}

// So few that it means something to name them.
bool AreFew(size_t named, size_t all) { return named > 0 && 2 * named <= all; }

// --- What launchers and the coordinator know for certain ---

struct Trouble {
  Suspect suspect;
  int64_t ago_us = 0;
  bool stops = false;   // it holds others up, and fails by nothing
  bool killed = false;  // by a signal, so not by what it waited for
};

std::string WhyOr(const MemberStatus& member, const char* otherwise) {
  return member.why.empty() ? otherwise : CleanText(member.why);
}

// The attempt's first error that followed from no other, unless all has been well again since.
std::optional<Trouble> FirstError(const JobStatus& job) {
  std::optional<Trouble> first;
  for (const ErrorStatus& error : job.errors) {
    if (error.attempt != job.attempt || error.consequence || error.origin.empty()) continue;
    if (first && first->ago_us >= error.at_ago_us) continue;
    const auto member = std::find_if(job.members.begin(), job.members.end(),
                                     [&](const auto& one) { return one.name == error.origin; });
    if (member == job.members.end()) continue;
    const bool still = job.state == AttemptState::kFailed ||
                       member->condition == MemberCondition::kLost ||
                       member->condition == MemberCondition::kFailed;
    if (!still) continue;
    first = {Of(*member, error.at_ago_us, CleanText(error.message)), error.at_ago_us};
  }
  return first;
}

// What happened first to a process, or to a member of the attempt.
std::optional<Trouble> FirstTrouble(const JobStatus& job) {
  std::vector<Trouble> troubles;
  // Who ended first knows less of it than the coordinator, which was told of errors too.
  const std::optional<Trouble> error = FirstError(job);
  if (error) troubles.push_back(*error);
  for (const MemberStatus& member : job.members) {
    const int64_t ago = member.process_since_ago_us;
    if (!error && member.process == ProcessState::kFailed) {
      const bool killed = member.why.find("killed by ") != std::string::npos;
      troubles.push_back({.suspect = Of(member, ago, WhyOr(member, "its process failed")),
                          .ago_us = ago,
                          .killed = killed});
    } else if (member.process == ProcessState::kStopped) {
      troubles.push_back(
          {Of(member, ago, WhyOr(member, "its process is stopped (SIGSTOP)")), ago, true});
    } else if (!error && member.condition == MemberCondition::kSuspect) {
      troubles.push_back({Of(member, member.since_ago_us, WhyOr(member, "it is silent")),
                          member.since_ago_us, true});
    } else if (!error && member.condition == MemberCondition::kLost) {
      troubles.push_back(
          {Of(member, member.since_ago_us, WhyOr(member, "it was lost")), member.since_ago_us});
    }
  }
  const auto first =
      std::max_element(troubles.begin(), troubles.end(),
                       [](const auto& a, const auto& b) { return a.ago_us < b.ago_us; });
  return first == troubles.end() ? std::nullopt : std::optional(*first);
}

// --- Who waits for whom, as the server sees it ---

using Members = std::set<int32_t>;

// Of a barrier of torch's store: those who are not there, when all who are there are known.
Members AbsentFrom(const JobStatus& job, const StoreWait& barrier) {
  Members absent;
  for (const MemberStatus& member : job.members) {
    if (member.process != ProcessState::kLeftOut) absent.insert(member.index);
  }
  const size_t expected = absent.size();
  for (const StoreWaiter& waiter : barrier.first_waiters) {
    if (!waiter.rank) return {};
    absent.erase(*waiter.rank);
  }
  const auto known = static_cast<int64_t>(expected - absent.size());
  return known == barrier.arrived ? absent : Members();
}

std::vector<Suspect> AwaitedAtStore(const JobStatus& job) {
  if (!job.torch_store) return {};
  Members waiters;
  std::map<int32_t, const StoreWait*> awaited;  // by member, the longest
  for (const StoreWait& wait : job.torch_store->awaited) {
    for (const StoreWaiter& waiter : wait.first_waiters) {
      if (waiter.rank) waiters.insert(*waiter.rank);
    }
    if (wait.since_ago_us < kSuspectPatienceUs) continue;
    if (wait.barrier_size > 0) {
      for (const int32_t absent : AbsentFrom(job, wait)) awaited.try_emplace(absent, &wait);
    } else if (wait.rank) {
      awaited.try_emplace(*wait.rank, &wait);
    }
  }
  std::vector<Suspect> suspects;
  for (const auto& [rank, wait] : awaited) {
    const MemberStatus* member = MemberAt(job, rank);
    // Who waits itself is held up by another.
    if (member == nullptr || waiters.contains(rank)) continue;
    const std::string key = CleanText(wait->key, kKeyBytesMax);
    std::string evidence = absl::StrFormat(
        "%d %s %s '%s' of torch's store, which it %s", wait->waiters,
        wait->waiters == 1 ? "waits" : "wait", wait->barrier_size > 0 ? "at barrier" : "for key",
        key, wait->barrier_size > 0 ? "has not reached" : "has not set");
    if (member->process == ProcessState::kEnded) {
      absl::StrAppend(&evidence, ", and ", WhyOr(*member, "its process has ended"));
    }
    suspects.push_back(Of(*member, wait->since_ago_us, std::move(evidence)));
  }
  return AreFew(suspects.size(), job.members.size()) ? suspects : std::vector<Suspect>();
}

// At barriers of the job: who is waited for by the most.
std::vector<Suspect> AwaitedAtBarriers(const JobStatus& job) {
  struct Awaited {
    size_t by = 0;
    const BarrierStatus* longest = nullptr;
  };
  std::map<int32_t, Awaited> awaited;
  size_t most = 0;
  for (const BarrierStatus& barrier : job.barriers) {
    if (barrier.opened_ago_us < kSuspectPatienceUs) continue;
    for (const int32_t member : barrier.awaited) {
      Awaited& one = awaited[member];
      one.by += barrier.waiting.size();
      if (one.longest == nullptr) one.longest = &barrier;
      most = std::max(most, one.by);
    }
  }
  std::vector<Suspect> suspects;
  for (const auto& [index, one] : awaited) {
    const MemberStatus* member = MemberAt(job, index);
    if (one.by < most || member == nullptr) continue;
    std::string evidence =
        absl::StrFormat("%d %s for it at barrier '%s'", one.by, one.by == 1 ? "waits" : "wait",
                        CleanText(one.longest->id, kKeyBytesMax));
    if (const std::string doing = DoingText(job, *member); !doing.empty()) {
      absl::StrAppend(&evidence, ", and it ", doing);
    }
    suspects.push_back(Of(*member, one.longest->opened_ago_us, std::move(evidence)));
  }
  return AreFew(suspects.size(), job.members.size()) ? suspects : std::vector<Suspect>();
}

// Whom the others wait for since they have come, or were started.
std::vector<Suspect> NeverCame(const JobStatus& job) {
  if (job.state != AttemptState::kWaiting) return {};
  size_t there = 0;
  size_t started = 0;
  int64_t oldest = 0;
  for (const MemberStatus& member : job.members) {
    there += member.condition != MemberCondition::kMissing;
    if (member.process == ProcessState::kUnspecified) continue;
    ++started;
    oldest = std::max(oldest, member.process_since_ago_us);
  }
  const bool members = there > 0;  // else programs that know nothing of us
  const int64_t since = members ? job.started_ago_us.value_or(0) : oldest;
  if (since < kSuspectPatienceUs) return {};
  std::vector<Suspect> suspects;
  for (const MemberStatus& member : job.members) {
    if (members && member.condition == MemberCondition::kMissing) {
      suspects.push_back(Of(member, since, WhyOr(member, "it has never registered")));
    } else if (!members && member.process == ProcessState::kUnspecified) {
      suspects.push_back(Of(member, since, "no launcher has started it"));
    }
  }
  const bool tells = members || started > 0;
  return tells && AreFew(suspects.size(), job.members.size()) ? suspects : std::vector<Suspect>();
}

// --- Where they are in their code ---

Suspect Of(const JobStatus& job, const ProcessLocation& odd, const StackSnapshot& snapshot,
           const OddOnes& found) {
  const MemberStatus* member = MemberAt(job, odd.member);
  const std::string when = snapshot.because.empty()
                               ? std::string()
                               : absl::StrFormat("when %s %s ago: ", CleanText(snapshot.because),
                                                 DurationText(snapshot.ago_us));
  std::optional<int64_t> since = found.since_us;
  if (since || snapshot.ago_us > 0) since = since.value_or(0) + snapshot.ago_us;
  return {.member = odd.member,
          .name = member != nullptr ? member->name : odd.name,
          .host = odd.host,
          .pid = odd.pid,
          .since_ago_us = since,
          .evidence = absl::StrCat(when, "it ", odd.one, ", while ", found.others),
          .stack_place = odd.one};
}

// Of a time-out: those who were waited for, when they are few.
std::vector<Suspect> Awaited(const JobStatus& job, const StackSnapshot& snapshot) {
  std::vector<Suspect> suspects;
  for (const int32_t index : snapshot.awaited) {
    const MemberStatus* member = MemberAt(job, index);
    if (member == nullptr) continue;
    suspects.push_back(
        Of(*member, snapshot.ago_us,
           absl::StrFormat("others waited for it %s ago, when this happened: %s",
                           DurationText(snapshot.ago_us), CleanText(snapshot.because))));
    for (const ProcessLocation& process : snapshot.processes) {
      if (process.member != index || process.doing == ProcessLocation::Doing::kEnded) continue;
      suspects.back().pid = process.pid;
      suspects.back().host = process.host;
      suspects.back().stack_place = process.one;
    }
  }
  return AreFew(suspects.size(), job.members.size()) ? suspects : std::vector<Suspect>();
}

// In the newest moment that tells.
std::vector<Suspect> InSnapshots(const JobStatus& job,
                                 const std::vector<StackSnapshot>& snapshots) {
  for (size_t i = 0; i < snapshots.size(); ++i) {
    const StackSnapshot& snapshot = snapshots[i];
    if (auto awaited = Awaited(job, snapshot); !awaited.empty()) return awaited;
    const OddOnes found = FindOddOnes(snapshot);
    std::vector<Suspect> suspects;
    for (const ProcessLocation* odd : found.odd) suspects.push_back(Of(job, *odd, snapshot, found));
    // Looked at twice, the job must not have gone on.
    const bool twice =
        snapshot.because.empty() && i + 1 < snapshots.size() && snapshots[i + 1].because.empty();
    if (twice) {
      const OddOnes before = FindOddOnes(snapshots[++i]);
      std::erase_if(suspects, [&](const Suspect& suspect) {
        return before.others != found.others ||
               std::none_of(before.odd.begin(), before.odd.end(),
                            [&](const auto* odd) { return odd->member == suspect.member; });
      });
      for (Suspect& suspect : suspects) {
        suspect.since_ago_us =
            std::max(suspect.since_ago_us.value_or(0), snapshots[i].ago_us - snapshot.ago_us);
      }
    }
    if (AreFew(suspects.size(), snapshot.processes.size())) return suspects;
  }
  return {};
}

// Where the suspects of other rules are, of the newest snapshot that tells of them.
void AddPlaces(const std::vector<StackSnapshot>& snapshots, std::vector<Suspect>& suspects) {
  for (Suspect& suspect : suspects) {
    for (const StackSnapshot& snapshot : snapshots) {
      const auto found = std::find_if(
          snapshot.processes.begin(), snapshot.processes.end(), [&](const auto& process) {
            return process.member == suspect.member && process.pid == suspect.pid;
          });
      if (!suspect.stack_place.empty() || found == snapshot.processes.end()) continue;
      if (found->doing != ProcessLocation::Doing::kEnded) suspect.stack_place = found->one;
    }
  }
}

// Whether that snapshot says that the member was there and waited for others.
bool WaitedIn(const StackSnapshot& snapshot, int32_t member) {
  const auto is = [member](const ProcessLocation& process) {
    return process.member == member && process.for_others;
  };
  return std::any_of(snapshot.processes.begin(), snapshot.processes.end(), is) &&
         std::find(snapshot.awaited.begin(), snapshot.awaited.end(), member) ==
             snapshot.awaited.end();
}

// Who failed while it waited for others failed by that, as torch's do when their time is out: then
// those are to blame who were waited for.
std::vector<Suspect> BehindFailure(const JobStatus& job, const Trouble& failed,
                                   const std::vector<StackSnapshot>& snapshots) {
  std::vector<StackSnapshot> before;
  for (const StackSnapshot& snapshot : snapshots) {
    const int64_t gap = snapshot.ago_us - failed.ago_us;
    const bool close = gap >= -kSuspectPatienceUs && gap <= kSuspectCauseWindowUs;
    const bool waited = WaitedIn(snapshot, failed.suspect.member) || !snapshot.awaited.empty();
    if (!snapshot.because.empty() && close && waited) before.push_back(snapshot);
  }
  std::vector<Suspect> behind = InSnapshots(job, before);
  const bool itself = std::any_of(behind.begin(), behind.end(), [&](const Suspect& suspect) {
    return suspect.member == failed.suspect.member;
  });
  return itself ? std::vector<Suspect>() : behind;
}

// Several failed soon after few had ended well: those may have ended too early, and the others, in
// whose programs nobody else knows of the end, failed for want of them.
std::vector<Suspect> EndedBefore(const JobStatus& job, const Trouble& failed) {
  std::vector<Suspect> suspects;
  size_t failures = 0;
  for (const MemberStatus& member : job.members) {
    failures += member.process == ProcessState::kFailed;
    const int64_t gap = member.process_since_ago_us - failed.ago_us;
    const bool before = gap >= 0 && gap <= kSuspectCauseWindowUs;
    if (member.process != ProcessState::kEnded || !before) continue;
    suspects.push_back(Of(member, member.process_since_ago_us,
                          absl::StrCat(WhyOr(member, "its process ended"),
                                       ", and then the others failed, which may have needed it")));
  }
  const bool tells = failures >= 2 && AreFew(suspects.size(), job.members.size());
  return tells ? suspects : std::vector<Suspect>();
}

// Whether there is anybody who can be waited for, or wait.
bool AnybodyIsThere(const JobStatus& job) {
  return std::any_of(job.members.begin(), job.members.end(), [](const MemberStatus& member) {
    switch (member.process) {
      case ProcessState::kRunning:
      case ProcessState::kStopped:
        return true;
      case ProcessState::kEnded:
      case ProcessState::kFailed:
        return false;
      default:  // no launcher told
        return member.condition != MemberCondition::kMissing;
    }
  });
}

}  // namespace

std::vector<Suspect> FindSuspects(const JobStatus& job,
                                  const std::vector<StackSnapshot>& snapshots) {
  std::vector<Suspect> suspects;
  if (const auto first = FirstTrouble(job)) {
    if (!first->stops && !first->killed) suspects = BehindFailure(job, *first, snapshots);
    if (suspects.empty() && !first->stops && !first->killed) suspects = EndedBefore(job, *first);
    if (suspects.empty()) suspects.push_back(first->suspect);
  }
  if (suspects.empty()) suspects = AwaitedAtStore(job);
  if (suspects.empty()) suspects = AwaitedAtBarriers(job);
  if (suspects.empty()) suspects = NeverCame(job);
  if (suspects.empty() && AnybodyIsThere(job)) suspects = InSnapshots(job, snapshots);
  AddPlaces(snapshots, suspects);
  return suspects;
}

std::string SuspectText(const Suspect& suspect) {
  std::string text = Named(suspect.name, suspect.pid, suspect.host);
  if (suspect.since_ago_us) absl::StrAppend(&text, ", for ", DurationText(*suspect.since_ago_us));
  absl::StrAppend(&text, ": ", suspect.evidence);
  if (!suspect.stack_place.empty() &&
      suspect.evidence.find(suspect.stack_place) == std::string::npos) {
    absl::StrAppend(&text, "; it ", suspect.stack_place);
  }
  return text;
}

std::string SnapshotText(const StackSnapshot& snapshot) {
  std::map<std::string, std::vector<const ProcessLocation*>> groups;
  for (const ProcessLocation& process : snapshot.processes)
    groups[process.many].push_back(&process);
  std::vector<std::vector<const ProcessLocation*>> sorted;
  for (auto& [place, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::vector<std::string> parts;
  for (const auto& group : sorted) {
    if (parts.size() == kGroupsTold) break;
    const ProcessLocation& first = *group.front();
    parts.push_back(
        group.size() == 1
            ? absl::StrCat(Named(first.name, first.pid, first.host), " ", first.one)
            : absl::StrFormat("%d of %d %s", group.size(), snapshot.processes.size(), first.many));
  }
  if (sorted.size() > kGroupsTold) {
    parts.push_back(absl::StrFormat("+%d more places", sorted.size() - kGroupsTold));
  }
  return absl::StrJoin(parts, "; ");
}

}  // namespace lockstep::observe
