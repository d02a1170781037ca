// The coordinator's state as people and tests look at it: plain values, no behaviour. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/preemption.h"

namespace lockstep::coord {

// How a member is, in more detail than clients are told.
enum class MemberCondition {
  kMissing,      // has not come in this attempt
  kRegistering,  // waits for the others to register
  kConnected,
  kSuspect,  // stopped, silent for long, or its connection broke: not yet lost
  kLost,     // died or fell silent
  kFailed,   // in error for another reason: reported, restarted, or with everybody else
  kLeft,     // done
};

absl::string_view MemberConditionName(MemberCondition condition);

enum class ProcessState {
  kUnknown,  // nobody told
  kRunning,
  kStopped,  // by SIGSTOP or a debugger
  kEnded,    // with exit code 0
  kFailed,
  kLeftOut,  // there is none: the run goes on with fewer members than the job has
};

struct MemberView {
  MemberIndex member;
  std::string name;  // task/4#1
  MemberCondition condition = MemberCondition::kMissing;
  Time since;  // when it became so
  std::optional<Time> last_heard;
  std::string why;   // for kSuspect, kLost and kFailed: one sentence
  std::string peer;  // where it registered from
  std::string host;  // from the member itself or its launcher, as is `pid`
  int64_t pid = 0;
  std::optional<int64_t> step;  // as far as it said, as are `phase` and `labels`
  std::string phase;
  std::vector<std::pair<std::string, std::string>> labels;
  std::string
      doing;  // "waits at barrier 'b' for 12s", "waits for key 'k' for 3s"; empty: not known
  bool native = false;
  // What its launcher told, when one did.
  ProcessState process = ProcessState::kUnknown;
  Time process_since;
};

struct BarrierView {
  BarrierRef barrier;
  Time opened;
  Time deadline;
  std::vector<MemberIndex> waiting;  // arrived, and still there
  std::vector<MemberIndex> awaited;  // not arrived
};

// Members that wait for a key nobody has set.
struct KeyWaitView {
  std::string key;
  size_t waiters = 0;
  Time since;                        // of the oldest
  std::vector<MemberIndex> members;  // those that are known, in order
};

// The current preemption, or the last one.
struct PreemptionView {
  PreemptionState state;
  std::vector<SyncMember> members;
};

struct ErrorView {
  Time at;
  absl::StatusCode code;
  Reason reason;
  std::string message;
  std::string origin;        // member name, or empty
  bool consequence = false;  // followed from the attempt's first error
  int64_t attempt = 0;
};

enum class AttemptState { kWaiting, kRunning, kLeaving, kEnded, kFailed, kStopped };

absl::string_view AttemptStateName(AttemptState state);

// What has changed in a job after a version: for those who follow it.
struct JobChange {
  int64_t version = 0;    // ask for what comes after this one next
  bool snapshot = false;  // all there is, instead of what has changed
  int64_t attempt = 0;
  AttemptState state = AttemptState::kWaiting;
  std::vector<MemberView> members;  // those that changed, as they are now
  // Instead of them when they are many: whoever answers reads each as it is then, a few in a turn.
  std::vector<MemberIndex> later;
  std::vector<ErrorView> errors;  // those that are new
};

// By host: when any of its members that are in was heard last.
using HostsHeard = std::map<std::string, Time>;

// With so many members listed, a view lists no further barrier.
inline constexpr size_t kViewMembersMax = 131'072;

struct CoordinatorView {
  std::string job;
  int32_t size = 0;
  int64_t attempt = 0;  // 1 is the first
  AttemptState state = AttemptState::kWaiting;
  ServiceIncarnation service;
  Time started;                // of the attempt; meaningless before its first registration
  bool somebody_came = false;  // in this attempt, and is not missing again
  std::vector<MemberView> members;
  // Open ones only, the oldest first; `view_rows_max`, and kViewMembersMax members in all.
  std::vector<BarrierView> barriers;
  std::vector<KeyWaitView> key_waits;  // by key; as many at most
  size_t barriers_open = 0;            // all of them, as is the next
  size_t keys_awaited = 0;
  std::vector<ErrorView> errors;  // newest last, of all attempts
  std::optional<PreemptionView> preemption;
  size_t keys = 0;
  size_t key_bytes = 0;
  size_t waits = 0;  // parked calls
};

}  // namespace lockstep::coord
