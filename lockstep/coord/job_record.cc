#include "lockstep/coord/job_record.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

std::string DescribeEnd(const ProcessEnded& end) {
  if (end.signal == 0) return absl::StrCat("its process exited with code ", end.exit_code);
  const char* const name = sigabbrev_np(end.signal);
  return absl::StrCat("its process was killed by ",
                      name ? absl::StrCat("SIG", name) : absl::StrCat("signal ", end.signal));
}

JobRecord::JobRecord(const CoordinatorOptions& options_in)
    : options(options_in),
      everybody(AllMembers(options.size)),
      lives(options.size),
      incarnations(options.size),
      processes(options.size),
      places(options.size),
      recoverable(options.size),
      versions_(options.size) {
  int32_t first = 0;
  for (const RoleOptions& role : options.roles) {
    roles_.push_back({.name = role.name, .first = first, .size = role.size});
    first += role.size;
  }
  if (roles_.empty()) {
    roles_.push_back({.name = options.role, .first = 0, .size = options.size});
    role_settled_ = false;
  }
  LOCKSTEP_CHECK(options.roles.empty() || first == options.size);
}

const RoleRecord& JobRecord::RoleOf(MemberIndex member) const {
  const auto beyond = std::upper_bound(
      roles_.begin(), roles_.end(), member.value(),
      [](int32_t index, const RoleRecord& role) { return index < role.first + role.size; });
  return beyond == roles_.end() ? roles_.back() : *beyond;
}

ErrorPtr JobRecord::FindRole(const std::string& name, const RoleRecord** role) const {
  *role = nullptr;
  if (name.size() > options.label_bytes_max) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
        absl::StrCat("a role name of ", name.size(), " bytes is over label_bytes_max (",
                     options.label_bytes_max, "); use a shorter one"));
  }
  if (options.roles.empty()) {
    if (role_settled_ && !name.empty() && name != roles_[0].name) {
      return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                       absl::StrCat("job '", options.job,
                                    "' was given no roles, and its first member calls its "
                                    "own '",
                                    roles_[0].name, "'; another calls its role '", name,
                                    "': use one name, or start the job with roles, as in ",
                                    options.job, "=", roles_[0].name, ":N,", name, ":M"));
    }
    *role = &roles_[0];
    return nullptr;
  }
  if (name.empty() && roles_.size() == 1) {
    *role = &roles_[0];
    return nullptr;
  }
  const auto found = std::find_if(roles_.begin(), roles_.end(),
                                  [&name](const RoleRecord& each) { return each.name == name; });
  if (found != roles_.end()) {
    *role = &*found;
    return nullptr;
  }
  const std::string known =
      absl::StrJoin(roles_, ", ", [](std::string* out, const RoleRecord& each) {
        absl::StrAppend(out, "'", each.name, "' (", each.size, ")");
      });
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kUnknownRole,
                   absl::StrCat("job '", options.job, "' has no role '", name, "'; it has ", known,
                                name.empty() ? "; say which one" : "; check the name"));
}

void JobRecord::SettleRole(const std::string& name) {
  if (!options.roles.empty() || role_settled_ || name.empty()) return;
  role_settled_ = true;
  if (roles_[0].name == name) return;
  roles_[0].name = name;
  TouchAll();
}

void JobRecord::BeginAttempt() {
  role_settled_ = false;
  std::fill(recoverable.begin(), recoverable.end(), uint8_t{0});
  places.Clear();
  processes.ForEachWritten([](ProcessRecord& process) {
    process.former = process.former || (process.pid != 0 && !process.running && !process.newer);
  });
  TouchAll();
}

void JobRecord::SomebodyJoined() {
  if (!newer_run) return;  // looked at for each of many that join
  newer_run = false;
  processes.ForEachWritten([](ProcessRecord& process) { process.newer = false; });
}

bool JobRecord::HasNewerRun() const {
  return newer_run &&
         processes.AnyWritten([](const ProcessRecord& process) { return process.newer; });
}

std::string JobRecord::Name(MemberIndex member) const {
  const RoleRecord& role = RoleOf(member);
  return absl::StrCat(role.name, "/", member.value() - role.first);
}

std::string JobRecord::NameWithLife(MemberIndex member) const {
  const int32_t life = IsMember(member) ? lives[member.value()] : 0;
  return life == 0 ? Name(member) : absl::StrCat(Name(member), "#", life);
}

std::string JobRecord::Describe(MemberIndex member) const {
  std::string text = NameWithLife(member);
  if (!IsMember(member)) return text;
  const ProcessRecord& process = processes[member.value()];
  const PlaceRecord& place = places[member.value()];
  const bool told = place.pid != 0;
  const int64_t pid = told ? place.pid : process.former ? 0 : process.pid;
  if (pid != 0) {
    absl::StrAppend(&text, " (pid ", pid, " on ", told ? place.host : process.host, ")");
  }
  return text;
}

const std::string& JobRecord::HostOf(MemberIndex member) const {
  const PlaceRecord& place = places[member.value()];
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

std::string JobRecord::NameAll() const {
  return absl::StrJoin(roles_, ", ", [](std::string* out, const RoleRecord& role) {
    absl::StrAppend(out, role.name, "/0 to ", role.name, "/", role.size - 1);
  });
}

bool JobRecord::NoteLife(MemberIndex member, Incarnation incarnation) {
  Lives& known = incarnations.Mutable(member.value());
  if (!known.empty() && known.back() == incarnation) return false;
  ++lives[member.value()];
  known.push_back(incarnation);
  if (known.size() > kLivesKeptMax) known.erase(known.begin());
  return true;
}

bool JobRecord::IsFormerLife(MemberIndex member, Incarnation incarnation) const {
  const Lives& known = incarnations[member.value()];
  return !known.empty() && known.back() != incarnation &&
         std::find(known.begin(), known.end() - 1, incarnation) != known.end() - 1;
}

bool JobRecord::IsNewLife(MemberIndex member, Incarnation incarnation) const {
  if (!IsMember(member)) return false;
  const Lives& known = incarnations[member.value()];
  return std::find(known.begin(), known.end(), incarnation) == known.end();
}

std::vector<record::MemberChanged> JobRecord::KeptLives(MemberIndex member) const {
  const Lives& known = incarnations[member.value()];
  std::vector<record::MemberChanged> kept;
  int32_t life = lives[member.value()] - static_cast<int32_t>(known.size());
  for (Incarnation incarnation : known) {
    kept.push_back({.member = member, .incarnation = incarnation, .life = ++life});
  }
  return kept;
}

record::ProcessChanged JobRecord::RecordOfProcess(MemberIndex member) const {
  const ProcessRecord& process = processes[member.value()];
  return {.member = member,
          .host = process.host,
          .pid = process.pid,
          .running = process.running,
          .stopped = process.stopped,
          .left_out = process.left_out,
          .failed = process.failed,
          .newer = process.newer,
          .former = process.former};
}

size_t JobRecord::memory() const {
  // Texts of hosts and ends; nodes of changed_members.
  constexpr size_t kTextBytes = 128;
  constexpr size_t kNodeBytes = 64;
  constexpr size_t kErrorBytes = 4096;
  return everybody->size() * sizeof(MemberIndex) +
         lives.size() * (sizeof(lives[0]) + sizeof(recoverable[0]) + sizeof(versions_[0])) +
         incarnations.memory() + processes.memory() + places.memory() +
         changed_members.size() * (kNodeBytes + kTextBytes) + errors.size() * kErrorBytes;
}

void JobRecord::KeepError(ErrorView error) {
  errors.emplace(++version, std::move(error));
  if (errors.size() <= options.kept_errors_max) return;
  const auto victim = std::find_if(errors.begin(), errors.end(),
                                   [](const auto& kept) { return kept.second.consequence; });
  errors.erase(victim == errors.end() ? errors.begin() : victim);
}

void JobRecord::Touch(MemberIndex member) {
  int64_t& known = versions_[member.value()];
  if (known != 0) changed_members.erase(known);
  known = ++version;
  changed_members.emplace(known, member);
}

void JobRecord::TouchAll() {
  for (int32_t i = 0; i < options.size; ++i) Touch(MemberIndex(i));
}

void JobRecord::RestartVersions(int64_t base) {
  version = base;
  first_version = base;
  changed_members.clear();
  std::fill(versions_.begin(), versions_.end(), 0);
  std::map<int64_t, ErrorView> kept;
  for (auto& [old, error] : errors) kept.emplace(++version, std::move(error));
  errors = std::move(kept);
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
