// What a job knows beyond its attempts: whose processes they are, and what went wrong. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

// What the launcher told of a member's process; all empty when nobody did.
struct ProcessRecord {
  std::string host;
  int64_t pid = 0;
  bool running = false;
  bool stopped = false;
  Time stopped_at;
};

// Held by the coordinator, lent to each attempt in turn. Thread-compatible.
//
// Also the one place where members get their names, so that every text prints them alike.
struct JobRecord {
  explicit JobRecord(const CoordinatorOptions& options_in)
      : options(options_in),
        lives(options.size),
        incarnations(options.size),
        processes(options.size) {}

  // `task/4`: any member, known or not.
  std::string Name(MemberIndex member) const;
  // `task/4#2`: with the number of its newest life, when it ever lived.
  std::string NameWithLife(MemberIndex member) const;
  // `task/4#2 (pid 17 on gpu-3)`, as far as that is known.
  std::string Describe(MemberIndex member) const;
  // `task/1, task/2, task/5 +13 more`.
  std::string NameSome(const std::vector<MemberIndex>& members) const;

  bool IsMember(MemberIndex member) const {
    return member.value() >= 0 && member.value() < options.size;
  }

  // The member starts another life, unless this one is its newest already.
  void NoteLife(MemberIndex member, Incarnation incarnation);
  // Whether the member lived so once, and lives otherwise by now, in whichever attempt. What such a
  // life sends was held up on the way and must not be taken for the new one's.
  bool IsFormerLife(MemberIndex member, Incarnation incarnation) const;

  // Whether the member, of this job, never lived so before.
  bool IsNewLife(MemberIndex member, Incarnation incarnation) const;

  // Keeps an error for people; the oldest go first (`kept_errors_max`), but an attempt's root cause
  // after its consequences.
  void KeepError(ErrorView error);

  const CoordinatorOptions options;
  std::vector<int32_t> lives;                         // by member: how many incarnations it has had
  std::vector<std::deque<Incarnation>> incarnations;  // by member: the last of them, newest last
  std::vector<ProcessRecord> processes;
  std::deque<ErrorView> errors;  // oldest first
  int64_t attempt = 0;
};

// How many incarnations of a member are remembered: what is held up longer than that many lives is
// not told from a new one. `lives_kept_max`.
inline constexpr size_t kLivesKeptMax = 16;

// "3.2s", "1m30s": for texts, to the millisecond.
std::string FormatSpan(absl::Duration span);

}  // namespace lockstep::coord
