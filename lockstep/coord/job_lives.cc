#include "lockstep/coord/job_lives.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::coord {

bool JobLives::Begin(MemberIndex member, Incarnation incarnation) {
  std::vector<Incarnation>& known = incarnations_.Mutable(member.value());
  // A retry of the newest life begins nothing.
  if (!known.empty() && known.back() == incarnation) return false;
  ++counts_[member.value()];
  known.push_back(incarnation);
  // The oldest goes: a message of it is the least likely to arrive still.
  if (known.size() > kLivesKeptMax) known.erase(known.begin());
  return true;
}

bool JobLives::Restore(MemberIndex member, Incarnation incarnation, int32_t life) {
  if (!Begin(member, incarnation)) return false;
  int32_t& count = counts_[member.value()];
  // The lives before it may have been forgotten, and are in no record then.
  count = std::max(count, life);
  return true;
}

bool JobLives::IsFormer(MemberIndex member, Incarnation incarnation) const {
  const std::vector<Incarnation>& known = Of(member);
  // The newest life is not former, even if the member had the same number before.
  return !known.empty() && known.back() != incarnation &&
         std::find(known.begin(), known.end() - 1, incarnation) != known.end() - 1;
}

bool JobLives::IsNew(MemberIndex member, Incarnation incarnation) const {
  const std::vector<Incarnation>& known = Of(member);
  return std::find(known.begin(), known.end(), incarnation) == known.end();
}

std::vector<record::MemberChanged> JobLives::RecordsOf(MemberIndex member) const {
  const std::vector<Incarnation>& known = Of(member);
  std::vector<record::MemberChanged> records;
  records.reserve(known.size());
  // The newest has the highest number, and those that are kept follow each other.
  int32_t life = Count(member) - static_cast<int32_t>(known.size());
  LOCKSTEP_DCHECK(life >= 0);
  for (const Incarnation incarnation : known) {
    records.push_back({.member = member, .incarnation = incarnation, .life = ++life});
  }
  return records;
}

}  // namespace lockstep::coord
