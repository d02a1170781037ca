// What a job knows beyond its attempts: its roles, the lives and processes of its members,
// what went wrong, and what has changed. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/lazy_array.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/job_changes.h"
#include "lockstep/coord/job_lives.h"
#include "lockstep/coord/member_processes.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/role_table.h"
#include "lockstep/coord/wait_index.h"

namespace lockstep::coord {

// Where a member said that it runs.
struct PlaceRecord {
  std::string host;
  int64_t pid = 0;
};

// How the attempt before the current one went, for those who come from it.
struct FormerAttempt {
  int64_t attempt = 0;
  ServiceIncarnation service;
  ErrorPtr root_cause;  // null: it ended well
};

// Why there is no memory left; both null: there is. The texts are those that callers get.
struct NoRoom {
  ErrorPtr for_new;    // for what makes the job hold more
  ErrorPtr for_small;  // nor even for the small waits of members that are in, or for new members
};

// Held by the coordinator, lent to each attempt in turn: what attempts share, each in a type of its
// own. Also the one place where members get their names, so that every text prints them alike.
//
// Threads: thread-compatible. Bounds: one entry for each member of the job, and those of the parts.
class JobRecord {
 public:
  explicit JobRecord(const CoordinatorOptions& options_in);
  JobRecord(const JobRecord&) = delete;  // its parts refer to its options
  JobRecord& operator=(const JobRecord&) = delete;

  // `task/4`: any member, known or not.
  std::string Name(MemberIndex member) const;
  // `task/4#2`: with the number of its newest life, when it ever lived.
  std::string NameWithLife(MemberIndex member) const;
  // `task/4#2 (pid 17 on gpu-3)`, as far as that is known.
  std::string Describe(MemberIndex member) const;
  // Where the member runs, as it said itself or its launcher; empty: not known.
  const std::string& HostOf(MemberIndex member) const;
  // `task/1, task/2, task/5 +13 more`.
  std::string NameSome(const std::vector<MemberIndex>& members) const;
  // `task/1,task/2`, for programs: at most `kNamesListedMax`, then `+13 more` as the last.
  std::string ListNames(const std::vector<MemberIndex>& members) const;

  bool IsMember(MemberIndex member) const {
    return member.value() >= 0 && member.value() < options.size;
  }
  const RoleTable& roles() const { return roles_; }
  // A member that was let in calls its role so: with no roles given, that is their name from now
  // on, until another attempt begins.
  void SettleRole(const std::string& name);
  // Members of a new attempt say anew what they are.
  void BeginAttempt();

  // Whether the member may die and come back.
  bool Recoverable(MemberIndex member) const {
    return options.recoverable || (IsMember(member) && recoverable[member.value()] != 0);
  }

  const CoordinatorOptions options;
  const Participants everybody;  // all members
  JobLives lives;
  LazyArray<PlaceRecord> places;  // by member: where its newest life runs
  MemberProcesses processes;
  std::vector<uint8_t> recoverable;  // by member: it said so itself, in this attempt
  JobChanges changes;
  int64_t attempt = 0;
  std::optional<FormerAttempt> former;
  WaitIndex waits;
  NoRoom no_room;  // while an event is handled

  // What it holds of its members, about as it costs.
  size_t memory() const;

 private:
  RoleTable roles_;
};

// Members that an error lists for programs; people read three.
inline constexpr size_t kNamesListedMax = 64;

// "3.2s", "1m30s": for texts, to the millisecond.
std::string FormatSpan(absl::Duration span);

// Spreads a seed and a counter over 64 bits (the finaliser of SplitMix64). Never 0.
uint64_t DrawNumber(uint64_t seed, uint64_t counter);

}  // namespace lockstep::coord
