#include "lockstep/coord/attempt_lives.h"

#include <algorithm>
#include <vector>

#include "lockstep/base/check.h"

namespace lockstep::coord {

void AttemptLives::Begin(MemberIndex member, Incarnation incarnation,
                         std::optional<Incarnation> former, bool is_new) {
  size_t& here = here_.Mutable(member.value());
  // A life that the job knew from an earlier attempt counts here once, when it first comes.
  if (is_new || here == 0) here = std::min(here + 1, kLivesKeptMax);
  if (former && *former != incarnation) {
    const auto found = by_incarnation_.find(*former);
    // Another member may have drawn the same number since: its entry stays.
    if (found != by_incarnation_.end() && found->second == member) by_incarnation_.erase(found);
  }
  LOCKSTEP_DCHECK(!job_.lives.Of(member).empty() && job_.lives.Of(member).back() == incarnation);
  by_incarnation_[incarnation] = member;
}

std::optional<MemberIndex> AttemptLives::Find(Incarnation incarnation) const {
  const auto life = by_incarnation_.find(incarnation);
  if (life == by_incarnation_.end()) return std::nullopt;
  return life->second;
}

size_t AttemptLives::CountHere(MemberIndex member) const {
  // The job forgets its oldest lives, so fewer may be left than began here.
  return std::min(here_[member.value()], job_.lives.Of(member).size());
}

bool AttemptLives::Knew(MemberIndex member, Incarnation incarnation) const {
  const std::vector<Incarnation>& known = job_.lives.Of(member);
  // The newest lives are those of this attempt.
  const auto here = known.end() - static_cast<ptrdiff_t>(CountHere(member));
  return std::find(here, known.end(), incarnation) != known.end();
}

}  // namespace lockstep::coord
