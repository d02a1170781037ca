// What the coordinator wants done. Pure. The shell carries effects out in the order of the fields.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

struct MemberStatus {
  MemberIndex member;
  Incarnation incarnation;
  MemberState state = MemberState::kDisconnected;
  ErrorPtr error;  // set in kError
};

struct KeyValue {
  std::string key;
  std::shared_ptr<const std::string> value;
  int64_t revision = 0;  // of its last write
};

struct AliveMember {
  MemberIndex member;
  Incarnation incarnation;
  friend bool operator==(const AliveMember&, const AliveMember&) = default;
};

// What a successful request brings back, besides success.
struct Registered {
  ServiceIncarnation service;
};
struct HeartbeatTaken {
  ServiceIncarnation service;
};
struct KeyRead {
  KeyValue entry;
};
struct KeysListed {
  std::vector<KeyValue> entries;
  int64_t revision = 0;  // of the whole store, when it was read
  bool more = false;     // a page that is not the last
};
struct KeyWritten {
  int64_t revision = 0;
};
struct KeySwapped {
  bool swapped = false;
  // The key as it is now; absent when there is none.
  std::optional<KeyValue> entry;
};
struct KeysDeleted {
  int64_t deleted = 0;
  int64_t revision = 0;
};
// One change of a key: a null value says that it was deleted.
struct KeysChanged {
  std::vector<KeyValue> changes;  // in the order in which they happened
  int64_t revision = 0;           // ask for what comes after this one next
  bool snapshot = false;          // `changes` is all that is there, instead of what has changed
};
struct BarrierPassed {
  int64_t counter = 0;
  MemberValues values;  // null when nobody brought any
};
struct IndexAgreed {
  int64_t counter = 0;
  int64_t index = 0;
};
struct PreemptionNoted {
  int64_t preemption = 0;  // which one the notice belongs to
};
struct PreemptionChanged {
  std::shared_ptr<const PreemptionState> state;
};
struct SessionOpened {
  bool resumed = false;
  int64_t attempt = 0;
  int32_t size = 0;
};
struct Joined {
  MemberIndex member;
  std::string role;
  int32_t index = 0;  // within the role
  std::string name;   // task/4#1
  ServiceIncarnation service;
  int64_t attempt = 0;
  int32_t size = 0;  // of the job
  bool recoverable = false;
};
// What has become of the job since the version that was asked for.
struct JobChanged {
  std::shared_ptr<const JobChange> change;
};
struct AliveMembers {
  std::shared_ptr<const std::vector<AliveMember>> members;
};
// The barriers that are open at `at`, the oldest first; `open` counts them all.
struct BarriersListed {
  std::vector<BarrierView> barriers;
  size_t open = 0;
  Time at;
};
struct MembersWatched {
  std::shared_ptr<const std::vector<MemberStatus>> members;
  int64_t version = 0;
};

using Answer = std::variant<std::monostate, Registered, HeartbeatTaken, KeyRead, KeysListed,
                            BarrierPassed, BarriersListed, AliveMembers, MembersWatched, KeyWritten,
                            KeySwapped, KeysDeleted, KeysChanged, IndexAgreed, SessionOpened,
                            Joined, JobChanged, PreemptionNoted, PreemptionChanged>;

// The one answer to a call: the error when there is one, else the answer.
struct Reply {
  CallId call;
  ErrorPtr error;
  Answer answer;
};

enum class Severity { kInfo, kWarning, kError };

// What kind of transition a log entry tells of, for those who sort and filter.
enum class LogKind {
  kOther,
  kAttemptBegan,   // the first member of an attempt has come
  kAttemptRuns,    // all members are in
  kAttemptEnded,   // the last member has left
  kAttemptFailed,  // by its first failure
  kMemberJoined,
  kMemberLeft,
  kMemberSuspect,     // stopped, or silent
  kMemberRecovered,   // a suspect one is well again
  kMemberLost,        // died or fell silent
  kMemberFailed,      // in error for another reason
  kBarrierFailed,     // it timed out, was cancelled, or a member of it was lost; agreements too
  kPreemptionNotice,  // members will be preempted, or will not, or at another time
  kPreemptionAgreed,  // on the sync step
  kPreemptionSaved,   // a member saved, or failed to
  kPreemptionEnded,
  kProcessStarted,  // from launchers, as is the next
  kProcessEnded,
};
struct LogSubject {
  LogKind kind = LogKind::kOther;
  std::optional<MemberIndex> member;
};

// A sentence for the operator. Each transition gives one.
struct LogEntry {
  Severity severity = Severity::kInfo;
  std::string text;
  LogSubject about;
  // Filled in by the coordinator: the attempt, and the name of the member that it is about.
  int64_t attempt = 0;
  std::string member;
};

struct Effects {
  // To be durable before anything below leaves the process.
  std::vector<Record> records;
  std::vector<Reply> replies;
  std::vector<LogEntry> log;

  // Each call is answered once.
  void Succeed(CallId call, Answer answer = {}) {
    replies.push_back({call, nullptr, std::move(answer)});
  }
  // `error` is not null.
  void Fail(CallId call, ErrorPtr error) { replies.push_back({call, std::move(error), {}}); }
  // A line for the log and for those who follow the job's events.
  void Tell(Severity severity, std::string text, LogSubject about = {}) {
    log.push_back({severity, std::move(text), about});
  }
};

}  // namespace lockstep::coord
