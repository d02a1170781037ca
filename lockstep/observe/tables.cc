#include "lockstep/observe/tables.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "lockstep/base/limits.h"
#include "lockstep/observe/member_groups.h"
#include "lockstep/observe/preemption_text.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

constexpr size_t kValueBytesShown = 60;
// A host that was not heard for so long: several datagrams in a row are missing.
constexpr int64_t kSilent = 1'500'000;

// `why`: of its state, clean.
std::string WithDoing(const JobStatus& job, const MemberStatus& member, const std::string& why) {
  std::vector<std::string> parts;
  if (!why.empty()) parts.push_back(why);
  if (std::string doing = DoingText(job, member); !doing.empty()) parts.push_back(doing);
  return absl::StrJoin(parts, "; ");
}

std::string LabelsText(const MemberStatus& member) {
  return absl::StrJoin(member.labels, " ", [](std::string* out, const Label& label) {
    absl::StrAppend(out, CleanText(label.name, 80), "=", CleanText(label.value, 80));
  });
}

// Beside the server's.
std::string ClockText(const std::optional<int64_t>& ahead_us) {
  if (!ahead_us) return "";
  const int64_t ahead = std::max(*ahead_us, -std::numeric_limits<int64_t>::max());
  return absl::StrCat(ahead < 0 ? "-" : "+", DurationText(ahead < 0 ? -ahead : ahead));
}

std::string DumpLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string AtText(int64_t at_us) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromUnixMicros(at_us), absl::UTCTimeZone());
}

// An older server says only how long ago it was, which is another time whenever it is asked.
int64_t AtUs(const JobEvent& event, int64_t now_us) {
  return event.at_unix_us != 0 ? event.at_unix_us : now_us - event.at_ago_us;
}

// Unless it says so itself: "attempt 4 begins".
std::string OfAttempt(const JobEvent& event) {
  const std::string of = absl::StrCat("attempt ", event.attempt);
  const bool said = event.text.starts_with(of + " ");
  return event.attempt > 0 && !said ? of + ": " : "";
}

}  // namespace

std::string MembersTable(const JobStatus& job) {
  Grid grid("");
  // A column more only when it says something.
  const auto row = [&](Grid::Row cells, std::string preemption, std::string why) {
    if (job.preemption) cells.push_back(std::move(preemption));
    cells.push_back(std::move(why));
    grid.Add(std::move(cells));
  };
  row({"MEMBER", "STATE", "SINCE", "HEARD", "STEP", "PHASE", "PROCESS", "LABELS"}, "PREEMPTION",
      "WHY");
  for (const MemberGroup& group : GroupsByNeed(job)) {
    for (const MemberStatus* member : group.members) {
      row({CleanText(member->name), group.state, DurationText(group.SinceUs(*member)),
           HeardText(member->last_heard_ago_us), member->step ? absl::StrCat(*member->step) : "",
           CleanText(member->phase, 80), ProcessText(*member), LabelsText(*member)},
          SyncText(job, member->index), WithDoing(job, *member, group.WhyText(*member)));
    }
  }
  return absl::StrFormat("job %s  attempt %d %s  %s\n", CleanText(job.job), job.attempt,
                         std::string(NameOf(StandingOf(job))), StandingText(job)) +
         grid.Text();
}

std::string MembersJson(const JobStatus& job) {
  return Dump({{"job", job.job},
               {"attempt", job.attempt},
               {"members", ToJson(job.members)},
               {"preemption", ToJson(job.preemption)}});
}

std::string HostsTable(const JobStatus& job) {
  if (job.hosts.empty()) {
    return absl::StrFormat("job %s: no host has an agent (lockstep run --agent, lockstep agent)\n",
                           CleanText(job.job));
  }
  Grid grid("");
  grid.Add({"HOST", "STATE", "PROCESSES", "HEARD", "ROUND TRIP", "CLOCK", "AGENT", "ADDRESS"});
  for (const HostStatus& host : job.hosts) {
    const char* const state = host.lost                      ? "lost"
                              : !host.heard_ago_us           ? "not heard yet"
                              : *host.heard_ago_us > kSilent ? "silent"
                              : host.waits                   ? "heard, waits"
                                                             : "heard";
    grid.Add({CleanText(host.name), state, absl::StrCat(host.members), HeardText(host.heard_ago_us),
              host.round_trip_us > 0 ? DurationText(host.round_trip_us) : "",
              ClockText(host.clock_ahead_us), CleanText(host.version), host.address});
  }
  std::string text = absl::StrFormat("job %s  attempt %d  %d hosts with an agent\n",
                                     CleanText(job.job), job.attempt, job.hosts_total) +
                     grid.Text();
  const auto more = job.hosts_total - static_cast<int64_t>(job.hosts.size());
  if (more > 0) absl::StrAppendFormat(&text, "+%d more, which were heard last\n", more);
  return text;
}

std::string HostsJson(const JobStatus& job) {
  return Dump({{"job", job.job},
               {"attempt", job.attempt},
               {"hosts_total", job.hosts_total},
               {"hosts", ToJson(job.hosts)}});
}

std::string BarriersTable(const JobStatus& job) {
  const size_t open =
      std::max(job.barriers.size(), static_cast<size_t>(std::max<int64_t>(0, job.barriers_open)));
  if (open == 0) return absl::StrFormat("job %s: no open barriers\n", CleanText(job.job));
  std::string text =
      absl::StrFormat("job %s  attempt %d  %d open\n", CleanText(job.job), job.attempt, open);
  for (size_t i = 0; i < std::min(job.barriers.size(), kRowsMax); ++i) {
    const BarrierStatus& barrier = job.barriers[i];
    absl::StrAppendFormat(
        &text, "barrier '%s' (use %d): %d of %d arrived, open for %s, %s\n", CleanText(barrier.id),
        barrier.counter, barrier.waiting.size(), barrier.waiting.size() + barrier.awaited.size(),
        DurationText(barrier.opened_ago_us),
        barrier.deadline_in_us ? DurationText(*barrier.deadline_in_us) + " left" : "no deadline");
    absl::StrAppendFormat(&text, "  waiting  %s\n", MembersRangesText(job, barrier.waiting));
    absl::StrAppendFormat(&text, "  missing  %s\n", MembersRangesText(job, barrier.awaited));
    Grid grid("    ");
    for (size_t k = 0; k < std::min(barrier.awaited.size(), kNamesInErrorMax); ++k) {
      const MemberStatus* member = MemberAt(job, barrier.awaited[k]);
      if (member == nullptr) continue;
      grid.Add({CleanText(member->name), std::string(NameOf(member->condition)),
                "heard " + HeardText(member->last_heard_ago_us),
                member->step ? absl::StrCat("step ", *member->step) : "", ProcessText(*member),
                WithDoing(job, *member, CleanText(member->why))});
    }
    text += grid.Text();
  }
  if (open > std::min(job.barriers.size(), kRowsMax)) {
    absl::StrAppendFormat(&text, "+%d more\n", open - std::min(job.barriers.size(), kRowsMax));
  }
  return text;
}

std::string BarriersJson(const JobStatus& job) {
  // Each once, though many barriers wait for it.
  std::set<int32_t> awaited;
  for (const BarrierStatus& barrier : job.barriers) {
    awaited.insert(barrier.awaited.begin(), barrier.awaited.end());
  }
  Json missing = Json::array();
  for (const int32_t index : awaited) {
    if (const MemberStatus* member = MemberAt(job, index)) missing.push_back(ToJson(*member));
  }
  return Dump({{"job", job.job},
               {"attempt", job.attempt},
               {"barriers_open", job.barriers_open},
               {"barriers", ToJson(job.barriers)},
               {"missing", missing}});
}

std::string JobsTable(const StatusReply& status) {
  std::string set_aside;
  for (const wire::native::SetAsideJob& job : status.set_aside) {
    absl::StrAppend(&set_aside, SetAsideName(job),
                    " is set aside: ", CleanText(job.why, kErrorTextBytesMax), " (", job.kept_bytes,
                    " bytes kept; lockstep job delete ", CleanText(job.job), " ends it)\n");
  }
  if (status.jobs.empty()) return absl::StrCat("no jobs\n", set_aside);
  Grid grid("");
  grid.Add(
      {"JOB", "SIZE", "ATTEMPT", "STATE", "BEGAN", "MEMBERS", "BARRIERS", "KEYS", "STOCK CLIENTS"});
  for (const JobStatus& job : status.jobs) {
    grid.Add({CleanText(job.job), absl::StrCat(job.size), absl::StrCat(job.attempt),
              std::string(NameOf(StandingOf(job))),
              job.started_ago_us ? DurationText(*job.started_ago_us) + " ago" : "-",
              StandingText(job), absl::StrCat(job.barriers_open), absl::StrCat(job.keys),
              CleanText(job.grpc)});
  }
  return absl::StrCat(grid.Text(), set_aside);
}

std::string JobsJson(const StatusReply& status) {
  Json jobs = Json::array();
  for (const JobStatus& job : status.jobs) {
    Json counts = Json::object();
    for (const MemberCondition condition : kConditionsByNeed) {
      if (condition == MemberCondition::kUnspecified) continue;
      counts[std::string(NameOf(condition))] = MembersThatAre(job, condition).size();
    }
    // What launchers told, of members that joined as well.
    Json processes = Json::object();
    for (const MemberStatus& member : job.members) {
      if (member.process == ProcessState::kUnspecified) continue;
      Json& count = processes[std::string(NameOf(member.process))];
      count = count.is_null() ? 1 : count.get<int64_t>() + 1;
    }
    jobs.push_back({{"job", job.job},
                    {"size", job.size},
                    {"attempt", job.attempt},
                    {"state", std::string(NameOf(StateForPrograms(job)))},
                    {"started_ago_us", ToJson(job.started_ago_us)},
                    {"members", counts},
                    {"processes", processes},
                    {"barriers_open", job.barriers_open},
                    {"keys", job.keys},
                    {"key_bytes", job.key_bytes},
                    {"waits", job.waits},
                    {"grpc", job.grpc},
                    {"store", job.store}});
  }
  Json set_aside = Json::array();
  for (const wire::native::SetAsideJob& job : status.set_aside) set_aside.push_back(ToJson(job));
  return Dump({{"server", ToJson(status.server)}, {"jobs", jobs}, {"set_aside", set_aside}});
}

std::string EventLine(const JobEvent& event, int64_t now_us) {
  return absl::StrFormat("%s  %-7s  %-17s  %s%s\n", AtText(AtUs(event, now_us)),
                         std::string(NameOf(event.severity)), std::string(NameOf(event.kind)),
                         OfAttempt(event), CleanText(event.text, kErrorTextBytesMax));
}

std::string EventJsonLine(const JobEvent& event, const std::string& job, int64_t now_us) {
  Json json = {{"at", AtText(AtUs(event, now_us))}, {"job", job}};
  const Json fields = ToJson(event);
  for (const auto& [name, value] : fields.items()) json[name] = value;
  return DumpLine(json) + "\n";
}

std::string KeysTable(const ListKeysReply& keys) {
  if (keys.entries.empty()) return "no keys\n";
  Grid grid("");
  grid.Add({"REVISION", "BYTES", "KEY", "VALUE"});
  for (const Entry& entry : keys.entries) {
    const bool text = IsUtf8(entry.value.data);
    grid.Add({absl::StrCat(entry.revision), absl::StrCat(entry.value.data.size()),
              CleanText(entry.key),
              text ? CleanText(entry.value.data, kValueBytesShown) : "(bytes)"});
  }
  return grid.Text() + (keys.more ? "(there are more)\n" : "");
}

std::string KeysJson(const ListKeysReply& keys) { return Dump(ToJson(keys)); }

}  // namespace lockstep::observe
