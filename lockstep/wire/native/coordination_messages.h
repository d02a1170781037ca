// What native clients ask of a job, and are told. Contract: proto/lockstep/v1/coordination.proto,
// which also says how a session works. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/field.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::wire::native {

// --- The session ---

struct OpenSession {
  // 16 random bytes, chosen by the client.
  Bytes session;
  std::string job;
  // The client has sent requests in this session before; refused with `unknown_session` when the
  // server does not know it any more.
  bool resume = false;
  // Makes the job when the server has none of that name: how many members, all of one role. 0: the
  // job must be there.
  int32_t create_size = 0;

  friend bool operator==(const OpenSession&, const OpenSession&) = default;
  static constexpr std::string_view kName = "lockstep.v1.OpenSession";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "session", &OpenSession::session, kIdBytes),
                           Field(2, "job", &OpenSession::job, kIdBytes),
                           Field(3, "resume", &OpenSession::resume),
                           Field(4, "create_size", &OpenSession::create_size, kCheckedNumber));
  }
};

struct OpenSessionReply {
  bool resumed = false;
  // Of the job now.
  int64_t attempt = 0;
  int32_t size = 0;

  friend bool operator==(const OpenSessionReply&, const OpenSessionReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.OpenSessionReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "resumed", &OpenSessionReply::resumed),
                           Field(2, "attempt", &OpenSessionReply::attempt),
                           Field(3, "size", &OpenSessionReply::size));
  }
};

// The client has all answers up to this number and forgets them. Not answered: its frame is of type
// `answered`.
struct Answered {
  uint64_t through = 0;

  friend bool operator==(const Answered&, const Answered&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Answered";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "through", &Answered::through, kAnyNumber));
  }
};

struct CloseSession {
  friend bool operator==(const CloseSession&, const CloseSession&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CloseSession";
  static constexpr auto Fields() { return std::make_tuple(); }
};

struct CloseSessionReply {
  friend bool operator==(const CloseSessionReply&, const CloseSessionReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CloseSessionReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

// The session becomes a member; answered when all members of the job have come.
struct JoinJob {
  // Empty: the only role there is.
  std::string role;
  // Within the role; absent: the lowest that nobody has.
  std::optional<int32_t> index;
  // A random number other than 0, new in each life of the process.
  uint64_t incarnation = 0;
  // How long the caller waits; 0: as long as the job allows.
  int64_t timeout_us = 0;
  std::string host;
  int64_t pid = 0;
  std::vector<Label> labels;
  // Which attempt of the job the process was started for; 0: whichever is on.
  int64_t attempt = 0;

  friend bool operator==(const JoinJob&, const JoinJob&) = default;
  static constexpr std::string_view kName = "lockstep.v1.JoinJob";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "role", &JoinJob::role, kIdBytes),
                           Field(2, "index", &JoinJob::index, kCheckedNumber),
                           Field(3, "incarnation", &JoinJob::incarnation, kCheckedNumber),
                           Field(4, "timeout_us", &JoinJob::timeout_us, kCheckedNumber),
                           Field(5, "host", &JoinJob::host, kIdBytes),
                           Field(6, "pid", &JoinJob::pid, kPid),
                           Field(7, "labels", &JoinJob::labels, {}, kMany),
                           Field(8, "attempt", &JoinJob::attempt, kCheckedNumber));
  }
};

struct JoinJobReply {
  // In the whole job: what `members` of other messages count.
  int32_t member = 0;
  std::string role;
  // Within the role.
  int32_t index = 0;
  // "trainer/4#1"
  std::string name;
  int64_t attempt = 0;
  uint64_t service_incarnation = 0;
  int32_t size = 0;
  bool recoverable = false;

  friend bool operator==(const JoinJobReply&, const JoinJobReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.JoinJobReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "member", &JoinJobReply::member), Field(2, "role", &JoinJobReply::role),
        Field(3, "index", &JoinJobReply::index), Field(4, "name", &JoinJobReply::name),
        Field(5, "attempt", &JoinJobReply::attempt),
        Field(6, "service_incarnation", &JoinJobReply::service_incarnation),
        Field(7, "size", &JoinJobReply::size), Field(8, "recoverable", &JoinJobReply::recoverable));
  }
};

// The member is done. Answered when all are, if the job has a shutdown time-out.
struct LeaveJob {
  friend bool operator==(const LeaveJob&, const LeaveJob&) = default;
  static constexpr std::string_view kName = "lockstep.v1.LeaveJob";
  static constexpr auto Fields() { return std::make_tuple(); }
};

struct LeaveJobReply {
  friend bool operator==(const LeaveJobReply&, const LeaveJobReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.LeaveJobReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

// A sign of life, and where the member is in its work. What is absent or empty is as before.
struct ReportProgress {
  std::optional<int64_t> step;
  std::string phase;

  friend bool operator==(const ReportProgress&, const ReportProgress&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ReportProgress";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "step", &ReportProgress::step, kAnyNumber),
                           Field(2, "phase", &ReportProgress::phase, kIdBytes));
  }
};

struct ReportProgressReply {
  friend bool operator==(const ReportProgressReply&, const ReportProgressReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ReportProgressReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

// --- Errors ---

// Parks until the attempt fails; then it is answered with that error, never with a reply.
struct PollForError {
  friend bool operator==(const PollForError&, const PollForError&) = default;
  static constexpr std::string_view kName = "lockstep.v1.PollForError";
  static constexpr auto Fields() { return std::make_tuple(); }
};

struct PollForErrorReply {
  friend bool operator==(const PollForErrorReply&, const PollForErrorReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.PollForErrorReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

// The member says that it cannot go on.
struct ReportError {
  int32_t code = 0;
  std::string message;

  friend bool operator==(const ReportError&, const ReportError&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ReportError";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "code", &ReportError::code, kCheckedNumber),
                           Field(2, "message", &ReportError::message, kValueBytes));
  }
};

struct ReportErrorReply {
  friend bool operator==(const ReportErrorReply&, const ReportErrorReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ReportErrorReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

// --- Barriers and agreement ---

struct Barrier {
  std::string id;
  // Which use of the id: 0 for the first, and one more after each verdict.
  int64_t counter = 0;
  // 0: none.
  int64_t timeout_us = 0;
  // Empty: all members of the job.
  std::vector<int32_t> members;
  // Given to all.
  std::optional<Bytes> value;

  friend bool operator==(const Barrier&, const Barrier&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Barrier";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "id", &Barrier::id, kIdBytes),
                           Field(2, "counter", &Barrier::counter, kCheckedNumber),
                           Field(3, "timeout_us", &Barrier::timeout_us, kCheckedNumber),
                           Field(4, "members", &Barrier::members, kCheckedNumber, kMany),
                           Field(5, "value", &Barrier::value, kValueBytes));
  }
};

struct BarrierValue {
  int32_t member = 0;
  Bytes value;

  friend bool operator==(const BarrierValue&, const BarrierValue&) = default;
  static constexpr std::string_view kName = "lockstep.v1.BarrierValue";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "member", &BarrierValue::member),
                           Field(2, "value", &BarrierValue::value));
  }
};

struct BarrierReply {
  int64_t counter = 0;
  // By member; those that brought one.
  std::vector<BarrierValue> values;

  friend bool operator==(const BarrierReply&, const BarrierReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.BarrierReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "counter", &BarrierReply::counter),
                           Field(2, "values", &BarrierReply::values));
  }
};

struct CancelBarrier {
  std::string id;
  // Absent: the instance that is open.
  std::optional<int64_t> counter;

  friend bool operator==(const CancelBarrier&, const CancelBarrier&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CancelBarrier";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "id", &CancelBarrier::id, kIdBytes),
                           Field(2, "counter", &CancelBarrier::counter, kCheckedNumber));
  }
};

struct CancelBarrierReply {
  friend bool operator==(const CancelBarrierReply&, const CancelBarrierReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CancelBarrierReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

struct AgreeOnIndex {
  std::string name;
  int64_t counter = 0;
  // The first index at which the caller can still act.
  int64_t index = 0;
  // The answer is a multiple of it; 0 counts as 1.
  int64_t stride = 0;
  int64_t timeout_us = 0;
  std::vector<int32_t> members;

  friend bool operator==(const AgreeOnIndex&, const AgreeOnIndex&) = default;
  static constexpr std::string_view kName = "lockstep.v1.AgreeOnIndex";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "name", &AgreeOnIndex::name, kIdBytes),
                           Field(2, "counter", &AgreeOnIndex::counter, kCheckedNumber),
                           Field(3, "index", &AgreeOnIndex::index, kAnyNumber),
                           Field(4, "stride", &AgreeOnIndex::stride, kCheckedNumber),
                           Field(5, "timeout_us", &AgreeOnIndex::timeout_us, kCheckedNumber),
                           Field(6, "members", &AgreeOnIndex::members, kCheckedNumber, kMany));
  }
};

struct AgreeOnIndexReply {
  int64_t counter = 0;
  int64_t index = 0;

  friend bool operator==(const AgreeOnIndexReply&, const AgreeOnIndexReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.AgreeOnIndexReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "counter", &AgreeOnIndexReply::counter),
                           Field(2, "index", &AgreeOnIndexReply::index));
  }
};

struct GetAliveMembers {
  // Empty: all members of the job.
  std::vector<int32_t> members;

  friend bool operator==(const GetAliveMembers&, const GetAliveMembers&) = default;
  static constexpr std::string_view kName = "lockstep.v1.GetAliveMembers";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "members", &GetAliveMembers::members, kCheckedNumber, kMany));
  }
};

struct AliveMember {
  int32_t member = 0;
  uint64_t incarnation = 0;

  friend bool operator==(const AliveMember&, const AliveMember&) = default;
  static constexpr std::string_view kName = "lockstep.v1.AliveMember";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "member", &AliveMember::member),
                           Field(2, "incarnation", &AliveMember::incarnation));
  }
};

struct GetAliveMembersReply {
  std::vector<AliveMember> members;

  friend bool operator==(const GetAliveMembersReply&, const GetAliveMembersReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.GetAliveMembersReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "members", &GetAliveMembersReply::members));
  }
};

// --- Keys ---

struct Entry {
  std::string key;
  Bytes value;
  int64_t revision = 0;

  friend bool operator==(const Entry&, const Entry&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Entry";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &Entry::key), Field(2, "value", &Entry::value),
                           Field(3, "revision", &Entry::revision));
  }
};

struct GetKey {
  std::string key;
  // Parks until the key has a value; otherwise NOT_FOUND.
  bool wait = false;

  friend bool operator==(const GetKey&, const GetKey&) = default;
  static constexpr std::string_view kName = "lockstep.v1.GetKey";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &GetKey::key, kIdBytes),
                           Field(2, "wait", &GetKey::wait));
  }
};

struct GetKeyReply {
  Entry entry;

  friend bool operator==(const GetKeyReply&, const GetKeyReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.GetKeyReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(Field(1, "entry", &GetKeyReply::entry)); }
};

// Parks until each key has a value.
struct GetKeys {
  std::vector<std::string> keys;

  friend bool operator==(const GetKeys&, const GetKeys&) = default;
  static constexpr std::string_view kName = "lockstep.v1.GetKeys";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "keys", &GetKeys::keys, kIdBytes, kMany));
  }
};

struct GetKeysReply {
  // In the order asked.
  std::vector<Entry> entries;

  friend bool operator==(const GetKeysReply&, const GetKeysReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.GetKeysReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "entries", &GetKeysReply::entries));
  }
};

struct SetKey {
  std::string key;
  Bytes value;
  // Otherwise ALREADY_EXISTS when the key is there.
  bool overwrite = false;
  // 0: for ever.
  int64_t ttl_us = 0;
  // Deleted when the member that set it leaves or is lost.
  bool with_member = false;

  friend bool operator==(const SetKey&, const SetKey&) = default;
  static constexpr std::string_view kName = "lockstep.v1.SetKey";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &SetKey::key, kIdBytes),
                           Field(2, "value", &SetKey::value, kValueBytes),
                           Field(3, "overwrite", &SetKey::overwrite),
                           Field(4, "ttl_us", &SetKey::ttl_us, kCheckedNumber),
                           Field(5, "with_member", &SetKey::with_member));
  }
};

struct SetKeyReply {
  int64_t revision = 0;

  friend bool operator==(const SetKeyReply&, const SetKeyReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.SetKeyReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "revision", &SetKeyReply::revision));
  }
};

struct CompareAndSetKey {
  std::string key;
  // Exactly one of the three says what the key must be.
  bool absent = false;
  std::optional<Bytes> expected_value;
  std::optional<int64_t> expected_revision;
  Bytes value;
  int64_t ttl_us = 0;
  bool with_member = false;

  friend bool operator==(const CompareAndSetKey&, const CompareAndSetKey&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CompareAndSetKey";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "key", &CompareAndSetKey::key, kIdBytes),
        Field(2, "absent", &CompareAndSetKey::absent),
        Field(3, "expected_value", &CompareAndSetKey::expected_value, kValueBytes),
        Field(4, "expected_revision", &CompareAndSetKey::expected_revision, kCheckedNumber),
        Field(5, "value", &CompareAndSetKey::value, kValueBytes),
        Field(6, "ttl_us", &CompareAndSetKey::ttl_us, kCheckedNumber),
        Field(7, "with_member", &CompareAndSetKey::with_member));
  }
};

struct CompareAndSetKeyReply {
  bool swapped = false;
  // The key as it is now; absent when there is none.
  std::optional<Entry> entry;

  friend bool operator==(const CompareAndSetKeyReply&, const CompareAndSetKeyReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CompareAndSetKeyReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "swapped", &CompareAndSetKeyReply::swapped),
                           Field(2, "entry", &CompareAndSetKeyReply::entry));
  }
};

struct IncrementKey {
  std::string key;
  int64_t increment = 0;

  friend bool operator==(const IncrementKey&, const IncrementKey&) = default;
  static constexpr std::string_view kName = "lockstep.v1.IncrementKey";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &IncrementKey::key, kIdBytes),
                           Field(2, "increment", &IncrementKey::increment, kAnyNumber));
  }
};

struct IncrementKeyReply {
  int64_t value = 0;
  int64_t revision = 0;

  friend bool operator==(const IncrementKeyReply&, const IncrementKeyReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.IncrementKeyReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "value", &IncrementKeyReply::value),
                           Field(2, "revision", &IncrementKeyReply::revision));
  }
};

struct MaxKey {
  std::string key;
  int64_t value = 0;

  friend bool operator==(const MaxKey&, const MaxKey&) = default;
  static constexpr std::string_view kName = "lockstep.v1.MaxKey";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &MaxKey::key, kIdBytes),
                           Field(2, "value", &MaxKey::value, kAnyNumber));
  }
};

struct MaxKeyReply {
  int64_t value = 0;
  int64_t revision = 0;

  friend bool operator==(const MaxKeyReply&, const MaxKeyReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.MaxKeyReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "value", &MaxKeyReply::value),
                           Field(2, "revision", &MaxKeyReply::revision));
  }
};

struct DeleteKey {
  std::string key;
  // And everything below it.
  bool below = false;
  // Only if it was last written at this revision; for the key alone.
  std::optional<int64_t> expected_revision;

  friend bool operator==(const DeleteKey&, const DeleteKey&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DeleteKey";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "key", &DeleteKey::key, kIdBytes), Field(2, "below", &DeleteKey::below),
        Field(3, "expected_revision", &DeleteKey::expected_revision, kCheckedNumber));
  }
};

struct DeleteKeyReply {
  int64_t deleted = 0;
  int64_t revision = 0;

  friend bool operator==(const DeleteKeyReply&, const DeleteKeyReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DeleteKeyReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "deleted", &DeleteKeyReply::deleted),
                           Field(2, "revision", &DeleteKeyReply::revision));
  }
};

struct ListKeys {
  // Empty: all.
  std::string directory;
  // 0: all. Otherwise a page of so many, of those behind `after`.
  int64_t limit = 0;
  std::string after;

  friend bool operator==(const ListKeys&, const ListKeys&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ListKeys";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "directory", &ListKeys::directory, kIdBytes),
                           Field(2, "limit", &ListKeys::limit, kCheckedNumber),
                           Field(3, "after", &ListKeys::after, kIdBytes));
  }
};

struct ListKeysReply {
  std::vector<Entry> entries;
  int64_t revision = 0;
  bool more = false;

  friend bool operator==(const ListKeysReply&, const ListKeysReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ListKeysReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "entries", &ListKeysReply::entries),
                           Field(2, "revision", &ListKeysReply::revision),
                           Field(3, "more", &ListKeysReply::more));
  }
};

// Parks until something at or below `key` changes after the revision.
struct WatchKeys {
  // Empty: all keys.
  std::string key;
  int64_t after = 0;

  friend bool operator==(const WatchKeys&, const WatchKeys&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WatchKeys";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &WatchKeys::key, kIdBytes),
                           Field(2, "after", &WatchKeys::after, kCheckedNumber));
  }
};

struct KeyChange {
  std::string key;
  // Absent: the key was deleted.
  std::optional<Bytes> value;
  int64_t revision = 0;

  friend bool operator==(const KeyChange&, const KeyChange&) = default;
  static constexpr std::string_view kName = "lockstep.v1.KeyChange";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &KeyChange::key), Field(2, "value", &KeyChange::value),
                           Field(3, "revision", &KeyChange::revision));
  }
};

struct WatchKeysReply {
  std::vector<KeyChange> changes;
  // To ask with next.
  int64_t revision = 0;
  // `changes` is all that is there, instead of what has changed.
  bool snapshot = false;

  friend bool operator==(const WatchKeysReply&, const WatchKeysReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WatchKeysReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "changes", &WatchKeysReply::changes),
                           Field(2, "revision", &WatchKeysReply::revision),
                           Field(3, "snapshot", &WatchKeysReply::snapshot));
  }
};

// --- Following the job ---

// Parks until something about the job changes after that version; 0: answered at once with all.
struct WatchJob {
  int64_t after = 0;

  friend bool operator==(const WatchJob&, const WatchJob&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WatchJob";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "after", &WatchJob::after, kCheckedNumber));
  }
};

struct WatchJobReply {
  // To ask with next.
  int64_t version = 0;
  // `members` and `errors` are all there is, instead of what has changed.
  bool snapshot = false;
  int64_t attempt = 0;
  AttemptState state = AttemptState::kUnspecified;
  std::vector<MemberStatus> members;
  std::vector<ErrorStatus> errors;

  friend bool operator==(const WatchJobReply&, const WatchJobReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WatchJobReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "version", &WatchJobReply::version),
        Field(2, "snapshot", &WatchJobReply::snapshot),
        Field(3, "attempt", &WatchJobReply::attempt), Field(4, "state", &WatchJobReply::state),
        Field(5, "members", &WatchJobReply::members), Field(6, "errors", &WatchJobReply::errors));
  }
};

}  // namespace lockstep::wire::native
