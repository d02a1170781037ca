// Which lives the members of a job have, or had, in one attempt. Pure.
#pragma once

#include <cstddef>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/lazy_array.h"
#include "lockstep/coord/job_record.h"

namespace lockstep::coord {

// Finds members by their newest incarnation, and tells the lives of this attempt from those of
// earlier ones, which JobLives keeps in one list.
//
// Threads: thread-compatible. Bounds: lives_kept_max for each member.
class AttemptLives {
 public:
  explicit AttemptLives(const JobRecord& job) : job_(job), here_(job.options.size) {}

  // The member lives as `incarnation` from now on. `former`: its life before, if it had one in this
  // attempt. `is_new`: the job did not know the life before.
  void Begin(MemberIndex member, Incarnation incarnation, std::optional<Incarnation> former,
             bool is_new);

  // The member that began this life last, and may have begun another one since.
  std::optional<MemberIndex> Find(Incarnation incarnation) const;
  // Whether the member has, or had, this life in this attempt.
  bool Knew(MemberIndex member, Incarnation incarnation) const;
  // How many of the lives that the job keeps of the member belong to this attempt.
  size_t CountHere(MemberIndex member) const;

  size_t size() const { return by_incarnation_.size(); }
  // Of what is kept by member, about as it costs.
  size_t memory() const { return here_.memory(); }

 private:
  const JobRecord& job_;
  absl::flat_hash_map<Incarnation, MemberIndex> by_incarnation_;  // newest lives; looked up only
  LazyArray<size_t> here_;                                        // by member: lives begun here
};

}  // namespace lockstep::coord
