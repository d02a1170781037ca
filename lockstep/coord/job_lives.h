// The lives that the members of a job have had, in all its attempts. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/lazy_array.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// How many incarnations of a member are remembered: what is held up longer than that many lives is
// not told from a new one. `lives_kept_max`.
inline constexpr size_t kLivesKeptMax = 16;

// Numbers the lives of each member, and tells a former life from a new one: what a former life
// sends was held up on the way and must not be taken for the new one's.
//
// Threads: thread-compatible. Bounds: kLivesKeptMax incarnations for each member of the job; all
// methods are about members of the job.
class JobLives {
 public:
  explicit JobLives(int32_t size) : counts_(size), incarnations_(size) {}

  // The member starts another life, unless this one is its newest already. True when it does.
  bool Begin(MemberIndex member, Incarnation incarnation);
  // The same from a record that says which number the life has.
  bool Restore(MemberIndex member, Incarnation incarnation, int32_t life);

  // How many lives the member has had: the number of its newest; 0: it never lived.
  int32_t Count(MemberIndex member) const { return counts_[member.value()]; }
  // Those that are remembered, newest last.
  const std::vector<Incarnation>& Of(MemberIndex member) const {
    return incarnations_[member.value()];
  }
  // Whether the member lived so once, and lives otherwise by now, in whichever attempt.
  bool IsFormer(MemberIndex member, Incarnation incarnation) const;
  // Whether the member never lived so, as far as that is remembered.
  bool IsNew(MemberIndex member, Incarnation incarnation) const;

  // The lives of the member that are remembered, oldest first, each as a record of nothing else.
  std::vector<record::MemberChanged> RecordsOf(MemberIndex member) const;

  // What it holds, about as it costs.
  size_t memory() const { return counts_.size() * sizeof(counts_[0]) + incarnations_.memory(); }

 private:
  std::vector<int32_t> counts_;                       // by member
  LazyArray<std::vector<Incarnation>> incarnations_;  // by member: the last of its lives
};

}  // namespace lockstep::coord
