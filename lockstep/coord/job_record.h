// What a job knows beyond its attempts: its roles, whose processes its members are, what went
// wrong, and what has changed. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/lazy_array.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/view.h"
#include "lockstep/coord/wait_index.h"

namespace lockstep::coord {

// What the launcher told of a member's process; all empty when nobody did.
struct ProcessRecord {
  std::string host;
  int64_t pid = 0;
  bool running = false;
  bool stopped = false;
  bool failed = false;    // of one that has ended, as far as known
  bool ending = false;    // its launcher said that it is about to end
  bool raised = false;    // and by an exception, which was told
  bool left_out = false;  // there is none, and none is awaited: the run is of fewer
  // It was started when nobody was in, and nobody has joined since: it belongs to a newer run than
  // the attempt's members do.
  bool newer = false;
  // It ended before the current attempt began, so it says nothing about that attempt's run.
  bool former = false;
  Time since;         // when that became so
  std::string ended;  // how, as far as this life of the server was told
};

// "its process was killed by SIGKILL".
std::string DescribeEnd(const ProcessEnded& end);

// Where a member said that it runs.
struct PlaceRecord {
  std::string host;
  int64_t pid = 0;
};

// A role of the job: members `first` to `first + size - 1`.
struct RoleRecord {
  std::string name;
  int32_t first = 0;
  int32_t size = 0;
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

// Held by the coordinator, lent to each attempt in turn. Thread-compatible.
//
// Also the one place where members get their names, so that every text prints them alike.
class JobRecord {
 public:
  explicit JobRecord(const CoordinatorOptions& options_in);

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
  // `task/0 to task/3`, for each role.
  std::string NameAll() const;

  bool IsMember(MemberIndex member) const {
    return member.value() >= 0 && member.value() < options.size;
  }
  const RoleRecord& RoleOf(MemberIndex member) const;
  // The role that a member calls so; the empty name is the only role there is. With an error when
  // there is none. Roles that were not given get their name here (SettleRole), not before.
  ErrorPtr FindRole(const std::string& name, const RoleRecord** role) const;
  // A member that was let in calls its role so: with no roles given, that is their name from now
  // on, until another attempt begins.
  void SettleRole(const std::string& name);
  // Members of a new attempt say anew what they are.
  void BeginAttempt();

  // Whether the member may die and come back.
  bool Recoverable(MemberIndex member) const {
    return options.recoverable || (IsMember(member) && recoverable[member.value()] != 0);
  }

  // The member starts another life, unless this one is its newest already. True when it does.
  bool NoteLife(MemberIndex member, Incarnation incarnation);
  // Whether the member lived so once, and lives otherwise by now, in whichever attempt. What such a
  // life sends was held up on the way and must not be taken for the new one's.
  bool IsFormerLife(MemberIndex member, Incarnation incarnation) const;

  // Whether the member, of this job, never lived so before.
  bool IsNewLife(MemberIndex member, Incarnation incarnation) const;

  // The lives of the member that are remembered, oldest first, each as a record of nothing else.
  std::vector<record::MemberChanged> KeptLives(MemberIndex member) const;
  // Members came in: the processes are theirs.
  void SomebodyJoined();
  // Whether processes were started that no member of the attempt is of.
  bool HasNewerRun() const;

  // What is known of the member's process.
  record::ProcessChanged RecordOfProcess(MemberIndex member) const;

  // Keeps an error for people; the oldest go first (`kept_errors_max`), but an attempt's root cause
  // after its consequences.
  void KeepError(ErrorView error);

  // Something that people see of the member, or of the job as a whole, has changed: `version` goes
  // up, and `changed_members` says of which member when.
  void Touch(MemberIndex member);
  void TouchJob() { ++version; }
  void TouchAll();
  // Versions from before are not known any more.
  void RestartVersions(int64_t base);

  const CoordinatorOptions options;
  const Participants everybody;  // all members
  std::vector<int32_t> lives;    // by member: how many incarnations it has had
  // By member, from the first that is known of it on: the last of its lives, newest last; its
  // process; and where its newest life runs.
  using Lives = std::vector<Incarnation>;
  LazyArray<Lives> incarnations;
  LazyArray<ProcessRecord> processes;
  LazyArray<PlaceRecord> places;
  bool newer_run = false;               // some process may be newer than the attempt's members
  std::vector<uint8_t> recoverable;     // by member: it said so itself, in this attempt
  std::map<int64_t, ErrorView> errors;  // oldest first, by the version at which they came
  int64_t attempt = 0;
  std::optional<FormerAttempt> former;
  WaitIndex waits;
  NoRoom no_room;  // while an event is handled

  // What it holds of its members, about as it costs.
  size_t memory() const;

  int64_t version = 0;
  int64_t first_version = 0;  // what changed since any version before is not known
  std::map<int64_t, MemberIndex> changed_members;  // by the version of their last change

 private:
  std::vector<RoleRecord> roles_;
  bool role_settled_ = true;       // false: a name may still come
  std::vector<int64_t> versions_;  // by member: its key in changed_members, 0 when it has none
};

// How many incarnations of a member are remembered: what is held up longer than that many lives is
// not told from a new one. `lives_kept_max`.
inline constexpr size_t kLivesKeptMax = 16;

// Members that an error lists for programs; people read three.
inline constexpr size_t kNamesListedMax = 64;

// "3.2s", "1m30s": for texts, to the millisecond.
std::string FormatSpan(absl::Duration span);

// Spreads a seed and a counter over 64 bits (the finaliser of SplitMix64). Never 0.
uint64_t DrawNumber(uint64_t seed, uint64_t counter);

}  // namespace lockstep::coord
