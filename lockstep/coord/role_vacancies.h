// Where to look for a free member of a role. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/coord/job_record.h"

namespace lockstep::coord {

// Remembers up to which index the members of each role are taken, so that a job that fills up
// member by member is not looked through for each of them.
//
// Invariant: no member below the remembered index is free. Each change that may free a member is
// noted here.
//
// Threads: thread-compatible.
class RoleVacancies {
 public:
  explicit RoleVacancies(const JobRecord& job) : job_(job), taken_(job.options.size) {}

  // The lowest member of the role that `is_free` holds for; absent: there is none.
  template <class IsFree>
  std::optional<MemberIndex> FirstFree(const RoleRecord& role, IsFree is_free) {
    int32_t& taken = taken_[role.first];
    while (taken < role.size && !is_free(MemberIndex(role.first + taken))) ++taken;
    if (taken == role.size) return std::nullopt;
    return MemberIndex(role.first + taken);
  }

  void NoteMayBeFree(MemberIndex member) {
    const int32_t first = job_.roles().Of(member).first;
    taken_[first] = std::min(taken_[first], member.value() - first);
  }

  size_t memory() const { return taken_.size() * sizeof(taken_[0]); }

 private:
  const JobRecord& job_;
  std::vector<int32_t> taken_;  // by the first member of a role
};

}  // namespace lockstep::coord
