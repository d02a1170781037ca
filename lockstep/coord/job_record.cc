#include "lockstep/coord/job_record.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lockstep::coord {

JobRecord::JobRecord(const CoordinatorOptions& options_in)
    : options(options_in),
      everybody(AllMembers(options.size)),
      lives(options.size),
      places(options.size),
      processes(options.size),
      recoverable(options.size),
      changes(options),
      roles_(options) {}

void JobRecord::SettleRole(const std::string& name) {
  // The name of the role is in the name of each member.
  if (roles_.Settle(name)) changes.TouchAll();
}

void JobRecord::BeginAttempt() {
  // The next attempt's members may call their role otherwise.
  roles_.Unsettle();
  // Members say so anew in each attempt, as they say where they run.
  std::fill(recoverable.begin(), recoverable.end(), uint8_t{0});
  places.Clear();
  processes.BeginAttempt();
  // All of that is in what people see of a member.
  changes.TouchAll();
}

std::string JobRecord::Name(MemberIndex member) const {
  const RoleRecord& role = roles_.Of(member);
  return absl::StrCat(role.name, "/", member.value() - role.first);
}

std::string JobRecord::NameWithLife(MemberIndex member) const {
  // Errors also name strangers, which have no lives here.
  const int32_t life = IsMember(member) ? lives.Count(member) : 0;
  return life == 0 ? Name(member) : absl::StrCat(Name(member), "#", life);
}

std::string JobRecord::Describe(MemberIndex member) const {
  std::string text = NameWithLife(member);
  if (!IsMember(member)) return text;
  const ProcessRecord& process = processes[member.value()];
  const PlaceRecord& place = places[member.value()];
  // What the member says of itself is surer: its launcher may know of a wrapper only.
  const bool told = place.pid != 0;
  const int64_t pid = told ? place.pid : process.former ? 0 : process.pid;
  if (pid != 0) {
    absl::StrAppend(&text, " (pid ", pid, " on ", told ? place.host : process.host, ")");
  }
  return text;
}

const std::string& JobRecord::HostOf(MemberIndex member) const {
  const PlaceRecord& place = places[member.value()];
  // Stock members do not say where they run; their launchers do.
  return place.host.empty() ? processes[member.value()].host : place.host;
}

std::string JobRecord::NameSome(const std::vector<MemberIndex>& members) const {
  std::string text;
  const size_t named = std::min(members.size(), kNamesInErrorMax);
  for (size_t i = 0; i < named; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", NameWithLife(members[i]));
  }
  if (members.size() > named) absl::StrAppend(&text, " +", members.size() - named, " more");
  return text;
}

std::string JobRecord::ListNames(const std::vector<MemberIndex>& members) const {
  std::string text;
  const size_t named = std::min(members.size(), kNamesListedMax);
  for (size_t i = 0; i < named; ++i) absl::StrAppend(&text, i == 0 ? "" : ",", Name(members[i]));
  if (members.size() > named) absl::StrAppend(&text, ",+", members.size() - named, " more");
  return text;
}

size_t JobRecord::memory() const {
  return everybody->size() * sizeof(MemberIndex) + recoverable.size() * sizeof(recoverable[0]) +
         lives.memory() + places.memory() + processes.memory() + changes.memory();
}

std::string FormatSpan(absl::Duration span) {
  return absl::FormatDuration(absl::Trunc(span, absl::Milliseconds(1)));
}

uint64_t DrawNumber(uint64_t seed, uint64_t counter) {
  uint64_t x = seed + uint64_t{0x9e3779b97f4a7c15} * counter;
  x = (x ^ (x >> 30)) * uint64_t{0xbf58476d1ce4e5b9};
  x = (x ^ (x >> 27)) * uint64_t{0x94d049bb133111eb};
  x ^= x >> 31;
  return x == 0 ? 1 : x;
}

}  // namespace lockstep::coord
