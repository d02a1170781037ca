// Everything that can happen to the coordinator of one job. Pure.
//
// Requests carry a `Caller` and are answered exactly once, by a Reply with the same call id, unless
// the caller leaves first (`CallLeft`). Facts (`Process...`, `DeadlineReached`) are not answered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/preemption.h"

namespace lockstep::coord {

// What a caller may do, as its token says (docs/security.md).
enum class Standing : uint8_t {
  // Everything. So may all who need no token: the kernel knows them, or the network is safe.
  kOperator,
  // Everything in its job, but with Lockstep's own keys (key_rights.h).
  kLauncher,
  // That, for itself and what dies with its host.
  kTask,
};

// Who asks, as every request but the registration says it.
struct Caller {
  CallId call;
  // The attempt that the caller registered with; 0 when it never did.
  ServiceIncarnation service;
  // The life that asks. Names the waiter in views; 0 when the caller does not say.
  Incarnation incarnation;

  // A native client says only this: who it is, and with that `service`, `incarnation` and the
  // `member` of the request, is filled in by the coordinator from what its session joined as.
  SessionId session;
  // Of the request within its session, from 1 up; a repeated number is a retry.
  uint64_t number = 0;
  Standing standing = Standing::kOperator;
  // The only member that the caller may act as, by its certificate. Absent: any.
  std::optional<MemberIndex> bound = std::nullopt;
  // Of a stock client whose call its host's agent passes on: the agent's session, in which `number`
  // counts. The client itself says the rest, as it would say it to the server.
  SessionId agent = {};

  // In which `number` counts; none: the caller numbers nothing, and asks nothing twice.
  SessionId numbered_in() const { return native() ? session : agent; }
  bool native() const { return !session.none(); }  // whether it came through the native listener
};

// What is the same for every request of a type. Each says it of itself.
struct RequestTraits {
  // Only asked in a session, and done by who holds those.
  bool in_session = false;
  // A session that is no member may ask it.
  bool for_tools = false;
  // Answered at once, and changes something: a retry must not do it again.
  bool takes_effect = false;
  // Makes the job hold more when it takes effect.
  bool writes = false;
  // May be parked for others; `status` then shows what it waits for (`WaitOf` in coordinator.cc).
  // Work that is done in slices and watches park without it.
  bool waits = false;
};

// --- Sessions of native clients ---

// A link wants to speak for this session. Answered with SessionOpened. Without it every other
// request of the session is refused.
struct OpenSession {
  CallId call;
  SessionId session;
  // The client has spoken in this session before: refused when the session is not known any more,
  // since then nobody could say which of its requests took effect.
  bool resume = false;
  std::string who;   // as the client calls itself
  std::string peer;  // where its link comes from
};

// The session's link is gone. `silent`: it was closed because nothing was heard, which is no proof
// of a death; otherwise the other end closed it, as the kernel does when a process dies.
struct SessionBroke {
  SessionId session;
  bool silent = false;
};

// The client has all answers up to this number and will not ask for them again.
struct AnsweredThrough {
  SessionId session;
  uint64_t number = 0;
};

// The client ends its session; a member that has not left is given up.
struct CloseSession {
  static constexpr RequestTraits kTraits = {.in_session = true};
  Caller caller;
};

// The session becomes a member of the job. Answered with Joined, when all members have come.
struct JoinJob {
  static constexpr RequestTraits kTraits = {.in_session = true};
  Caller caller;
  // Empty: the only role there is.
  std::string role;
  // Within the role. Absent: "give me one", the lowest that nobody has.
  std::optional<int32_t> index;
  Incarnation incarnation;
  // When the caller itself stops waiting. It is told who is missing shortly before.
  Time deadline = Time::Infinite();
  std::string host;
  int64_t pid = 0;
  std::string peer;
  std::vector<std::pair<std::string, std::string>> labels;  // for people
  // Which attempt the process was started for, by whoever counts them. 0: it does not matter.
  int64_t attempt = 0;
};

// Where the member is in its work; a sign of life, too. Absent and empty: as before.
struct ReportProgress {
  static constexpr RequestTraits kTraits = {.in_session = true};
  Caller caller;
  std::optional<int64_t> step;
  std::string phase;  // "loading data": one or two words
};

// Answered with JobChanged: at once when something has changed after `after` (0: everything),
// otherwise with the next change.
struct WatchJob {
  static constexpr RequestTraits kTraits = {.in_session = true, .for_tools = true};
  Caller caller;
  int64_t after = 0;
};

// "From which index on do we all ...?" Answered for all when every member of the list that is still
// there has asked: with the lowest multiple of `stride` that none of them has passed.
struct AgreeOnIndex {
  static constexpr RequestTraits kTraits = {.waits = true};
  Caller caller;
  MemberIndex member;
  std::string name;
  int64_t counter = 0;  // which use of the name, from 0
  int64_t index = 0;    // the first at which the caller can still act; it waits before that one
  int64_t stride = 1;
  absl::Duration timeout = absl::InfiniteDuration();  // counts from the first caller
  std::vector<MemberIndex> members;                   // empty: all members of the job
};

// Somebody has learnt that members will be preempted, or that they will not, or not yet. Answered
// with PreemptionNoted.
struct NotifyPreemption {
  enum class Act { kNotify, kExtend, kWithdraw };
  static constexpr RequestTraits kTraits = {.for_tools = true};
  Caller caller;
  std::optional<MemberIndex> member;  // who says so, when it is one
  Act act = Act::kNotify;
  std::string source;  // "gce", "signal", "operator"
  // The source's own name of it, the same when it is said again. Empty: with kNotify always a new
  // one; else all notices of the open preemption.
  std::string event;
  // Who will die. None and no host: the caller, or everybody when that is no member.
  std::vector<MemberIndex> subjects;
  std::string host;                    // all members there
  std::optional<absl::Duration> left;  // until then; absent: not known
  std::string text;                    // for people
};

// Answered with PreemptionChanged when the state has another version than `after`.
struct WatchPreemption {
  static constexpr RequestTraits kTraits = {.for_tools = true};
  Caller caller;
  std::optional<MemberIndex> member;
  int64_t after = 0;
  // The member polls its steps against the hold: it is asked for a step when a preemption opens.
  bool answers = false;
};

// The member has read that the hold is up, and begins no step from `first` on until it knows the
// sync step.
struct AnswerHold {
  static constexpr RequestTraits kTraits = {};
  Caller caller;
  MemberIndex member;
  int64_t preemption = 0;
  // The first step at which it can still act; absent: it has not begun its first.
  std::optional<int64_t> first;
  int64_t stride = 1;                // it comes by `first`, `first` + stride...
  std::optional<int64_t> last_step;  // when it knows where its work ends
  absl::Duration step_time;          // zero: not known, as is the next
  absl::Duration save_time;
};

// What the member has come to in a preemption: kReached, kSaved, kFailed or kFinished.
struct ReportSave {
  static constexpr RequestTraits kTraits = {};
  Caller caller;
  MemberIndex member;
  int64_t preemption = 0;
  SyncState state = SyncState::kReached;
  std::optional<int64_t> step;
  std::string text;  // where it saved, or why it did not
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
  // What the member calls its role; empty when it does not say.
  std::string role;
  // This member may die and come back, whatever the job's option says.
  bool recoverable = false;
  // As Caller::bound.
  std::optional<MemberIndex> bound = std::nullopt;
  // As Caller::agent.
  SessionId agent = {};
};

struct Heartbeat {
  static constexpr RequestTraits kTraits = {};
  Caller caller;
  MemberIndex member;
  Incarnation incarnation;
};

// Parks until something goes wrong in the job. Its breaking is how the death of a process is seen.
struct PollForError {
  static constexpr RequestTraits kTraits = {};
  Caller caller;
  MemberIndex member;
};

// The member says that it cannot go on.
struct ReportError {
  static constexpr RequestTraits kTraits = {.takes_effect = true};
  Caller caller;
  MemberIndex member;
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string message;
};

// The member is done. With a shutdown time-out, answered when all are.
struct LeaveJob {
  static constexpr RequestTraits kTraits = {.waits = true};
  Caller caller;
  MemberIndex member;
};

// The member starts over: leaves at once, whether connected or in error, and may register again.
struct ResetMember {
  static constexpr RequestTraits kTraits = {};
  Caller caller;
  MemberIndex member;
};

// The state of these members, at once.
struct GetMemberStates {
  static constexpr RequestTraits kTraits = {.for_tools = true};
  Caller caller;
  std::vector<MemberIndex> members;
};

// Answered with the state of all members: now if `version` is not the current one (or absent),
// otherwise after the next change.
struct WatchMembers {
  static constexpr RequestTraits kTraits = {.for_tools = true};
  Caller caller;
  std::optional<int64_t> version;
};

// How long a key lives.
struct KeyLifetime {
  // From when it was set (again) until it is deleted.
  absl::Duration ttl = absl::InfiniteDuration();
  // Until the member that set it leaves or is lost. Native members only.
  bool with_member = false;
};

struct SetKey {
  static constexpr RequestTraits kTraits = {
      .for_tools = true, .takes_effect = true, .writes = true};
  Caller caller;
  std::string key;
  std::string value;
  bool overwrite = false;
  KeyLifetime lifetime;
};

// What a key must be for a conditional write to happen; exactly one is said.
struct KeyCondition {
  bool absent = false;               // there is no such key
  std::optional<std::string> value;  // it has this value
  std::optional<int64_t> revision;   // it was last written at this revision
};

// Answered with KeySwapped, whether or not the condition held.
struct CompareAndSetKey {
  static constexpr RequestTraits kTraits = {
      .for_tools = true, .takes_effect = true, .writes = true};
  Caller caller;
  std::string key;
  KeyCondition expected;
  std::string value;
  KeyLifetime lifetime;
};

// The key becomes the greater of its number and this one; answered with KeyRead.
struct MaxKey {
  static constexpr RequestTraits kTraits = {
      .for_tools = true, .takes_effect = true, .writes = true};
  Caller caller;
  std::string key;
  int64_t number = 0;
};

// Waits until each of these keys has a value; answered with KeysListed in the order asked.
struct GetKeys {
  static constexpr RequestTraits kTraits = {.for_tools = true, .waits = true};
  Caller caller;
  std::vector<std::string> keys;
};

// Waits until the key has a value.
struct GetKey {
  static constexpr RequestTraits kTraits = {.for_tools = true, .waits = true};
  Caller caller;
  std::string key;
};

struct TryGetKey {
  static constexpr RequestTraits kTraits = {.for_tools = true};
  Caller caller;
  std::string key;
};

struct IncrementKey {
  static constexpr RequestTraits kTraits = {
      .for_tools = true, .takes_effect = true, .writes = true};
  Caller caller;
  std::string key;
  int64_t increment = 0;
};

struct ListKeys {
  static constexpr RequestTraits kTraits = {.for_tools = true};
  Caller caller;
  std::string directory;
  // Native clients read in pages: at most this many entries (0: all), those behind `after`.
  size_t limit = 0;
  std::string after;
};

// Removes the key and everything below it. Native clients may ask for the key alone, and for a
// condition on it.
struct DeleteKey {
  static constexpr RequestTraits kTraits = {.for_tools = true, .takes_effect = true};
  Caller caller;
  std::string key;
  bool only_key = false;
  std::optional<int64_t> revision;
};

// Answered with KeysChanged: what has changed at or below `key` after the revision `after`, at once
// when there is something, otherwise with the next change. With `after` 0 (nothing is known yet),
// or one that is too long ago, all that is there.
struct WatchKeys {
  static constexpr RequestTraits kTraits = {.for_tools = true};
  Caller caller;
  std::string key;  // empty: all keys
  int64_t after = 0;
};

struct ArriveAtBarrier {
  static constexpr RequestTraits kTraits = {.waits = true};
  Caller caller;
  MemberIndex member;
  std::string id;
  // Which use of the id: 0 for the first.
  int64_t counter = 0;
  absl::Duration timeout = absl::InfiniteDuration();  // counts from the first arrival
  // Empty: all members of the job.
  std::vector<MemberIndex> members;
  // Given to all when the barrier passes; absent: this member brings none.
  std::optional<std::string> value;
  // An instance that has passed is answered again to whoever comes later with any counter; for
  // WaitForAllTasks of stock clients, which is called once or again.
  bool once = false;
};

struct CancelBarrier {
  static constexpr RequestTraits kTraits = {.takes_effect = true};
  Caller caller;
  MemberIndex member;
  std::string id;
  // Absent: the instance that is open. Stock agents never say which.
  std::optional<int64_t> counter;
};

// Answered when every live member of the list has asked the same. An empty list is that of all
// members when a native client asks; a stock one is refused, since it is not in it.
struct GetAliveMembers {
  static constexpr RequestTraits kTraits = {.waits = true};
  Caller caller;
  MemberIndex member;
  std::vector<MemberIndex> members;
};

// Answered at once with BarriersListed.
struct ListBarriers {
  static constexpr RequestTraits kTraits = {.for_tools = true};
  Caller caller;
};

// The caller of a request cancelled it, ran into its own deadline or lost its connection before it
// had the answer. Not answered. Unknown calls are ignored, and answered ones but for a
// registration: its caller is in and does not know it.
struct CallLeft {
  // Where the agent is that forwarded the call, of those that an agent did.
  enum class Agent {
    kConnected,  // the caller left by itself
    kAway,       // its link is silent; it will forward the call again: no news of the caller
    kEnded,      // and the connection of each of its callers with it
  };
  CallId call;
  Agent agent = Agent::kConnected;
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
  // How long ago, as its launcher could not tell earlier.
  absl::Duration ago = absl::ZeroDuration();
};
// Its launcher knows that it is about to end: it raised `error`, or, where that is empty, the
// launcher tells it to end, which is no news of a preemption.
struct ProcessEnding {
  MemberIndex member;
  int64_t pid = 0;
  std::string error;  // one line
};
struct ProcessStopped {  // by SIGSTOP or a debugger
  MemberIndex member;
  int64_t pid = 0;
};
struct ProcessContinued {
  MemberIndex member;
  int64_t pid = 0;
};

// Fact from the node group: an attempt of the run begins, with members 0 to `size - 1`. What
// was told of processes beyond is of an attempt before, and nobody will tell more of them.
struct RunBegan {
  int32_t size = 0;
};

// A host is given up: its agent, whose session this is, was not heard for so long, while the server
// was within reach of most others. The session ends, and all members that called through it are
// lost.
struct HostLost {
  SessionId agent;
  std::string host;
  absl::Duration unheard;
  // Filled in by the coordinator.
  std::vector<MemberIndex> members = {};
};

// `NextDeadline()` has passed.
struct DeadlineReached {};

// The state was restored from records (Coordinator::Apply) and the server begins to listen. Who was
// connected has as long as `restart_grace` to come back.
struct Restored {};

// The server goes away: every wait is answered, later requests are refused.
struct Stop {};

using Event =
    std::variant<RegisterMember, Heartbeat, PollForError, ReportError, LeaveJob, ResetMember,
                 WatchMembers, GetMemberStates, SetKey, GetKey, TryGetKey, IncrementKey, ListKeys,
                 DeleteKey, ArriveAtBarrier, CancelBarrier, GetAliveMembers, ListBarriers, CallLeft,
                 // Native clients only, up to ReportSave. The simulation of stock clients must send
                 // every request that stands outside of this part (sim/simulation_test.cc).
                 OpenSession, SessionBroke, AnsweredThrough, CloseSession, JoinJob, ReportProgress,
                 WatchJob, AgreeOnIndex, CompareAndSetKey, MaxKey, GetKeys, WatchKeys,
                 NotifyPreemption, WatchPreemption, AnswerHold, ReportSave,
                 // Facts:
                 ProcessStarted, ProcessEnded, ProcessEnding, ProcessStopped, ProcessContinued,
                 RunBegan, DeadlineReached, Restored, Stop, HostLost>;

}  // namespace lockstep::coord
