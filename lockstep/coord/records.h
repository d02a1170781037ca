// What a coordinator wants to remember beyond its own death. Pure.
//
// A record says what became of a thing, not what was asked: applying the records of a snapshot and
// those behind it, in order, gives the state back. What only lives as long as somebody's connection
// (parked calls, arrivals at an open barrier, signs of life) is in none: who waited asks again.
//
// The records of one `Effects` are one unit: after a crash all of them are there, or none. An
// effect without the answer that is kept of it would happen twice when its client asks again.
//
// Bytes: lockstep/wire/store. Kept by: lockstep/platform/journal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/preemption.h"

namespace lockstep::coord {

// What a member brought to a barrier.
struct MemberValue {
  MemberIndex member;
  std::string value;
};
using MemberValues = std::shared_ptr<const std::vector<MemberValue>>;  // by index

// A member as coordination clients see it.
enum class MemberState { kDisconnected, kConnected, kError };

namespace record {

// A new attempt; nothing of the one before it is left but the job's own history.
struct AttemptBegan {
  int64_t attempt = 0;
  ServiceIncarnation service;
};

// All members were in: the attempt runs.
struct AttemptRuns {};

// The first failure that was told.
struct AttemptFailed {
  ErrorPtr root_cause;
};

// The shutdown barrier ended: passed (null) or not.
struct ShutdownEnded {
  ErrorPtr verdict;
};

// Everything about a member that others may have been told.
struct MemberChanged {
  MemberIndex member;
  MemberState state = MemberState::kDisconnected;
  Incarnation incarnation;
  int32_t life = 0;   // the how manieth of the member in this job that is, from 1 up
  ErrorPtr error;     // in kError
  bool left = false;  // disconnected after it had been connected
  bool recoverable = false;
  std::string role;  // as the member calls it; empty when it did not say
  std::string peer;
  std::string host;
  int64_t pid = 0;
  std::vector<std::pair<std::string, std::string>> labels;
  SessionId session;  // of a native member
};

// What the launcher told of a member's process.
struct ProcessChanged {
  MemberIndex member;
  std::string host;
  int64_t pid = 0;
  bool running = false;
  bool stopped = false;
  bool left_out = false;  // nothing else holds then
  bool failed = false;
  bool newer = false;  // as in ProcessRecord, as is the next
  bool former = false;
};

// For people: what went wrong, as kept in the job's history.
struct ErrorKept {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  Reason reason = Reason::kInvalidArgument;
  std::string message;
  std::string origin;
  bool consequence = false;
  int64_t attempt = 0;
};

struct KeySet {
  std::string key;
  std::shared_ptr<const std::string> value;
  int64_t revision = 0;
  absl::Duration ttl = absl::InfiniteDuration();  // from when it was set; infinite: none
  std::optional<MemberIndex> owner;               // dies with this member
};

// One key (or with everything below it), at one revision.
struct KeyDeleted {
  std::string key;
  bool below = false;
  int64_t revision = 0;
};

// Its member is gone, with more keys than go at once: what it owned at this revision goes in
// slices, each with a KeyDeleted for every key.
struct OwnerGone {
  MemberIndex member;
};

// An instance of a barrier, or an agreement on an index, has its verdict.
struct BarrierEnded {
  std::string id;
  int64_t counter = 0;
  std::vector<MemberIndex> members;  // empty: everybody
  ErrorPtr verdict;                  // null: passed
  MemberValues values;               // null when nobody brought any
  bool values_forgotten = false;     // there were values, which are not kept any more
};
struct IndexAgreed {
  std::string name;
  int64_t counter = 0;
  std::vector<MemberIndex> members;  // empty: everybody
  ErrorPtr verdict;                  // null: agreed
  int64_t index = 0;
};

// The state of the attempt's preemption. The times in it are those of the machine at `at`.
struct PreemptionChanged {
  std::shared_ptr<const PreemptionState> state;
  Time at;
};

// What became of a member in the current preemption.
struct SyncMemberChanged {
  MemberIndex member;
  SyncState state = SyncState::kAsked;
  std::optional<int64_t> step;
  std::string text;
};

// A native session began, or ended (then nothing of it is remembered).
struct SessionChanged {
  SessionId session;
  bool open = false;
};

// The answer to a request that took effect, kept until its client says that it has it. Exactly one
// of the two is set, or neither: success that says nothing.
struct AnswerKept {
  SessionId session;
  uint64_t number = 0;
  std::optional<int64_t> revision;  // of a write or a deletion
  std::optional<int64_t> deleted;   // of a deletion
  std::optional<int64_t> result;    // the number after an increment or a maximum
  bool swapped = false;             // of a compare-and-set that took effect
  std::string key;                  // that was written, as the caller spelled it
  // The client had said that it has all answers up to this number: those are not kept any more.
  uint64_t through = 0;
};

}  // namespace record

using Record =
    std::variant<record::AttemptBegan, record::AttemptRuns, record::AttemptFailed,
                 record::ShutdownEnded, record::MemberChanged, record::ProcessChanged,
                 record::ErrorKept, record::KeySet, record::KeyDeleted, record::BarrierEnded,
                 record::IndexAgreed, record::SessionChanged, record::AnswerKept,
                 record::PreemptionChanged, record::SyncMemberChanged, record::OwnerGone>;

// A record and when it came to be.
struct TimedRecord {
  Time at;
  Record record;
};

}  // namespace lockstep::coord
