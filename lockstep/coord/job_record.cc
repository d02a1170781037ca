#include "lockstep/coord/job_record.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::coord {

std::string JobRecord::Name(MemberIndex member) const {
  return absl::StrCat(options.role, "/", member.value());
}

std::string JobRecord::NameWithLife(MemberIndex member) const {
  const int32_t life = IsMember(member) ? lives[member.value()] : 0;
  return life == 0 ? Name(member) : absl::StrCat(Name(member), "#", life);
}

std::string JobRecord::Describe(MemberIndex member) const {
  std::string text = NameWithLife(member);
  if (!IsMember(member)) return text;
  const ProcessRecord& process = processes[member.value()];
  if (process.pid != 0) absl::StrAppend(&text, " (pid ", process.pid, " on ", process.host, ")");
  return text;
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

void JobRecord::NoteLife(MemberIndex member, Incarnation incarnation) {
  std::deque<Incarnation>& known = incarnations[member.value()];
  if (!known.empty() && known.back() == incarnation) return;
  ++lives[member.value()];
  known.push_back(incarnation);
  if (known.size() > kLivesKeptMax) known.pop_front();
}

bool JobRecord::IsFormerLife(MemberIndex member, Incarnation incarnation) const {
  const std::deque<Incarnation>& known = incarnations[member.value()];
  return !known.empty() &&
         std::find(known.begin(), known.end() - 1, incarnation) != known.end() - 1;
}

bool JobRecord::IsNewLife(MemberIndex member, Incarnation incarnation) const {
  if (!IsMember(member)) return false;
  const std::deque<Incarnation>& known = incarnations[member.value()];
  return std::find(known.begin(), known.end(), incarnation) == known.end();
}

void JobRecord::KeepError(ErrorView error) {
  errors.push_back(std::move(error));
  if (errors.size() <= options.kept_errors_max) return;
  auto victim = std::find_if(errors.begin(), errors.end(),
                             [](const ErrorView& kept) { return kept.consequence; });
  errors.erase(victim == errors.end() ? errors.begin() : victim);
}

std::string FormatSpan(absl::Duration span) {
  return absl::FormatDuration(absl::Trunc(span, absl::Milliseconds(1)));
}

}  // namespace lockstep::coord
