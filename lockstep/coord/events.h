// Everything that can happen to the coordinator of one job. Pure.
//
// Requests carry a `Caller` and are answered exactly once, by a Reply with the same call id, unless
// the caller leaves first (`CallLeft`). Facts (`Process...`, `DeadlineReached`) are not answered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"

namespace lockstep::coord {

// Who asks, as every request but the registration says it.
struct Caller {
  CallId call;
  // The attempt that the caller registered with; 0 when it never did.
  ServiceIncarnation service;
  // The life that asks. Names the waiter in views; 0 when the caller does not say.
  Incarnation incarnation;
};

// Asks to be let in; answered when all members of the job have asked.
struct RegisterMember {
  CallId call;
  MemberIndex member;
  Incarnation incarnation;
  // When the caller itself stops waiting. It is told who is missing shortly before.
  Time deadline = Time::Infinite();
  // Where it calls from, for people.
  std::string peer;
};

struct Heartbeat {
  Caller caller;
  MemberIndex member;
  Incarnation incarnation;
};

// Parks until something goes wrong in the job. Its breaking is how the death of a process is seen.
struct PollForError {
  Caller caller;
  MemberIndex member;
};

// The member says that it cannot go on.
struct ReportError {
  Caller caller;
  MemberIndex member;
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string message;
};

// The member is done. With a shutdown time-out, answered when all are.
struct LeaveJob {
  Caller caller;
  MemberIndex member;
};

// The member starts over: leaves at once, whether connected or in error, and may register again.
struct ResetMember {
  Caller caller;
  MemberIndex member;
};

// Answered with the state of all members: now if `version` is not the current one (or absent),
// otherwise after the next change.
struct WatchMembers {
  Caller caller;
  std::optional<int64_t> version;
};

struct SetKey {
  Caller caller;
  std::string key;
  std::string value;
  bool overwrite = false;
};

// Waits until the key has a value.
struct GetKey {
  Caller caller;
  std::string key;
};

struct TryGetKey {
  Caller caller;
  std::string key;
};

struct IncrementKey {
  Caller caller;
  std::string key;
  int64_t increment = 0;
};

struct ListKeys {
  Caller caller;
  std::string directory;
};

// Removes the key and everything below it.
struct DeleteKey {
  Caller caller;
  std::string key;
};

struct ArriveAtBarrier {
  Caller caller;
  MemberIndex member;
  std::string id;
  // Which use of the id: 0 for the first.
  int64_t counter = 0;
  absl::Duration timeout = absl::InfiniteDuration();
  // Empty: all members of the job.
  std::vector<MemberIndex> members;
};

struct CancelBarrier {
  Caller caller;
  MemberIndex member;
  std::string id;
  // Absent: the instance that is open. Stock agents never say which.
  std::optional<int64_t> counter;
};

// Answered when every live member of the list has asked the same.
struct GetAliveMembers {
  Caller caller;
  MemberIndex member;
  std::vector<MemberIndex> members;
};

// The caller of a request cancelled it, ran into its own deadline or lost its connection before it
// had the answer. Not answered. Unknown calls are ignored, and answered ones but for a
// registration: its caller is in and does not know it.
struct CallLeft {
  CallId call;
};

// Facts from the launcher that started the member's process.
struct ProcessStarted {
  MemberIndex member;
  std::string host;
  int64_t pid = 0;
};
struct ProcessEnded {
  MemberIndex member;
  int64_t pid = 0;
  // Exactly one is meaningful: `signal` when it is not zero.
  int exit_code = 0;
  int signal = 0;
};
struct ProcessStopped {  // by SIGSTOP or a debugger
  MemberIndex member;
  int64_t pid = 0;
};
struct ProcessContinued {
  MemberIndex member;
  int64_t pid = 0;
};

// `NextDeadline()` has passed.
struct DeadlineReached {};

// The server goes away: every wait is answered, later requests are refused.
struct Stop {};

using Event =
    std::variant<RegisterMember, Heartbeat, PollForError, ReportError, LeaveJob, ResetMember,
                 WatchMembers, SetKey, GetKey, TryGetKey, IncrementKey, ListKeys, DeleteKey,
                 ArriveAtBarrier, CancelBarrier, GetAliveMembers, CallLeft, ProcessStarted,
                 ProcessEnded, ProcessStopped, ProcessContinued, DeadlineReached, Stop>;

}  // namespace lockstep::coord
