// The entries of a server's journal as messages. Contract: proto/lockstep/store/v1/records.proto.
// What they mean is said in lockstep/coord/records.h. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/field.h"
#include "lockstep/wire/store/data_messages.h"
#include "lockstep/wire/store/torch_messages.h"

namespace lockstep::wire::store {

using native::EnumName;

enum class MemberState : int32_t { kDisconnected = 0, kConnected = 1, kError = 2 };

constexpr std::array<EnumName<MemberState>, 3> EnumNames(MemberState) {
  using enum MemberState;
  return {{{kDisconnected, "disconnected"}, {kConnected, "connected"}, {kError, "error"}}};
}

// A role of a job.
struct RoleSize {
  std::string name;
  int32_t size = 0;

  friend bool operator==(const RoleSize&, const RoleSize&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.RoleSize";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "name", &RoleSize::name), Field(2, "size", &RoleSize::size));
  }
};

// A job, as its coordinator is made again.
struct JobCreated {
  std::string name;
  int32_t size = 0;
  std::vector<RoleSize> roles;  // Empty: one role, as its members call it.
  bool recoverable = false;
  bool temporary = false;  // Deleted when nobody has used it for a while.
  std::string host;  // Where its stock clients call, as it was chosen: the same after a restart.
  int32_t port = 0;
  uint64_t incarnation_seed = 0;  // Of the service incarnations of its attempts.

  friend bool operator==(const JobCreated&, const JobCreated&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.JobCreated";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "name", &JobCreated::name), Field(2, "size", &JobCreated::size),
                           Field(3, "roles", &JobCreated::roles),
                           Field(4, "recoverable", &JobCreated::recoverable),
                           Field(5, "temporary", &JobCreated::temporary),
                           Field(6, "host", &JobCreated::host), Field(7, "port", &JobCreated::port),
                           Field(8, "incarnation_seed", &JobCreated::incarnation_seed));
  }
};

// Nothing of the job is left.
struct JobDeleted {
  friend bool operator==(const JobDeleted&, const JobDeleted&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.JobDeleted";
  static constexpr auto Fields() { return std::make_tuple(); }
};

// What a request was refused or failed with.
struct Error {
  int32_t code = 0;    // As gRPC counts them.
  std::string reason;  // Its stable name.
  Bytes message;
  bool from_service = false;
  std::optional<int32_t> origin;    // The member that it is about.
  bool reported = false;            // The origin reported it itself.
  std::optional<Bytes> barrier_id;  // With the next: the barrier that it is about.
  int64_t barrier_counter = 0;
  std::optional<uint64_t> right_service;  // The service incarnation that would have been right.
  Bytes missing;                          // Who did not come, of what timed out.

  friend bool operator==(const Error&, const Error&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.Error";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "code", &Error::code), Field(2, "reason", &Error::reason),
        Field(3, "message", &Error::message), Field(4, "from_service", &Error::from_service),
        Field(5, "origin", &Error::origin), Field(6, "reported", &Error::reported),
        Field(7, "barrier_id", &Error::barrier_id),
        Field(8, "barrier_counter", &Error::barrier_counter),
        Field(9, "right_service", &Error::right_service), Field(10, "missing", &Error::missing));
  }
};

struct Label {
  Bytes name;
  Bytes value;

  friend bool operator==(const Label&, const Label&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.Label";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "name", &Label::name), Field(2, "value", &Label::value));
  }
};

// What a member brought to a barrier.
struct MemberValue {
  int32_t member = 0;
  Bytes value;

  friend bool operator==(const MemberValue&, const MemberValue&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.MemberValue";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "member", &MemberValue::member),
                           Field(2, "value", &MemberValue::value));
  }
};

struct AttemptBegan {
  int64_t attempt = 0;
  uint64_t service = 0;  // Its service incarnation.

  friend bool operator==(const AttemptBegan&, const AttemptBegan&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.AttemptBegan";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "attempt", &AttemptBegan::attempt),
                           Field(2, "service", &AttemptBegan::service));
  }
};

struct AttemptRuns {
  friend bool operator==(const AttemptRuns&, const AttemptRuns&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.AttemptRuns";
  static constexpr auto Fields() { return std::make_tuple(); }
};

struct AttemptFailed {
  std::optional<Error> root_cause;

  friend bool operator==(const AttemptFailed&, const AttemptFailed&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.AttemptFailed";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "root_cause", &AttemptFailed::root_cause));
  }
};

struct ShutdownEnded {
  std::optional<Error> verdict;  // Absent: passed.

  friend bool operator==(const ShutdownEnded&, const ShutdownEnded&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.ShutdownEnded";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "verdict", &ShutdownEnded::verdict));
  }
};

struct MemberChanged {
  int32_t member = 0;
  MemberState state = MemberState::kDisconnected;
  uint64_t incarnation = 0;
  int32_t life = 0;  // The how manieth of the member in this job, from 1 up.
  std::optional<Error> error;
  bool left = false;  // Disconnected after it had been connected.
  bool recoverable = false;
  Bytes role;  // As the member calls it.
  Bytes peer;
  Bytes host;
  int64_t pid = 0;
  std::vector<Label> labels;
  Bytes session;  // Of a native member: 16 bytes.

  friend bool operator==(const MemberChanged&, const MemberChanged&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.MemberChanged";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "member", &MemberChanged::member), Field(2, "state", &MemberChanged::state),
        Field(3, "incarnation", &MemberChanged::incarnation),
        Field(4, "life", &MemberChanged::life), Field(5, "error", &MemberChanged::error),
        Field(6, "left", &MemberChanged::left),
        Field(7, "recoverable", &MemberChanged::recoverable),
        Field(8, "role", &MemberChanged::role), Field(9, "peer", &MemberChanged::peer),
        Field(10, "host", &MemberChanged::host), Field(11, "pid", &MemberChanged::pid),
        Field(12, "labels", &MemberChanged::labels), Field(13, "session", &MemberChanged::session));
  }
};

// What the launcher told of a member's process.
struct ProcessChanged {
  int32_t member = 0;
  Bytes host;
  int64_t pid = 0;
  bool running = false;
  bool stopped = false;
  bool left_out = false;
  bool failed = false;
  bool newer = false;
  bool former = false;

  friend bool operator==(const ProcessChanged&, const ProcessChanged&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.ProcessChanged";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "member", &ProcessChanged::member), Field(2, "host", &ProcessChanged::host),
        Field(3, "pid", &ProcessChanged::pid), Field(4, "running", &ProcessChanged::running),
        Field(5, "stopped", &ProcessChanged::stopped),
        Field(6, "left_out", &ProcessChanged::left_out),
        Field(7, "failed", &ProcessChanged::failed), Field(8, "newer", &ProcessChanged::newer),
        Field(9, "former", &ProcessChanged::former));
  }
};

// For people: what went wrong.
struct ErrorKept {
  int32_t code = 0;
  std::string reason;
  Bytes message;
  Bytes origin;
  bool consequence = false;
  int64_t attempt = 0;

  friend bool operator==(const ErrorKept&, const ErrorKept&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.ErrorKept";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "code", &ErrorKept::code), Field(2, "reason", &ErrorKept::reason),
        Field(3, "message", &ErrorKept::message), Field(4, "origin", &ErrorKept::origin),
        Field(5, "consequence", &ErrorKept::consequence), Field(6, "attempt", &ErrorKept::attempt));
  }
};

struct KeySet {
  Bytes key;
  int64_t revision = 0;
  std::optional<int64_t> ttl_ns;  // Absent: it stays.
  std::optional<int32_t> owner;   // Dies with this member.
  SharedBytes value;

  friend bool operator==(const KeySet&, const KeySet&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.KeySet";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &KeySet::key), Field(2, "revision", &KeySet::revision),
                           Field(3, "ttl_ns", &KeySet::ttl_ns), Field(4, "owner", &KeySet::owner),
                           Field(5, "value", &KeySet::value));
  }
};

struct KeyDeleted {
  Bytes key;
  bool below = false;  // And everything below it.
  int64_t revision = 0;

  friend bool operator==(const KeyDeleted&, const KeyDeleted&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.KeyDeleted";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &KeyDeleted::key), Field(2, "below", &KeyDeleted::below),
                           Field(3, "revision", &KeyDeleted::revision));
  }
};

struct BarrierEnded {
  Bytes id;
  int64_t counter = 0;
  std::vector<int32_t> members;  // Empty: everybody.
  std::optional<Error> verdict;  // Absent: passed.
  bool has_values = false;       // Somebody brought a value.
  std::vector<MemberValue> values;
  bool values_forgotten = false;  // They are not kept any more.

  friend bool operator==(const BarrierEnded&, const BarrierEnded&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.BarrierEnded";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "id", &BarrierEnded::id), Field(2, "counter", &BarrierEnded::counter),
        Field(3, "members", &BarrierEnded::members), Field(4, "verdict", &BarrierEnded::verdict),
        Field(5, "has_values", &BarrierEnded::has_values),
        Field(6, "values", &BarrierEnded::values),
        Field(7, "values_forgotten", &BarrierEnded::values_forgotten));
  }
};

struct IndexAgreed {
  Bytes name;
  int64_t counter = 0;
  std::vector<int32_t> members;  // Empty: everybody.
  std::optional<Error> verdict;  // Absent: agreed.
  int64_t index = 0;

  friend bool operator==(const IndexAgreed&, const IndexAgreed&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.IndexAgreed";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "name", &IndexAgreed::name), Field(2, "counter", &IndexAgreed::counter),
        Field(3, "members", &IndexAgreed::members), Field(4, "verdict", &IndexAgreed::verdict),
        Field(5, "index", &IndexAgreed::index));
  }
};

struct SessionChanged {
  Bytes session;
  bool open = false;

  friend bool operator==(const SessionChanged&, const SessionChanged&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.SessionChanged";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "session", &SessionChanged::session),
                           Field(2, "open", &SessionChanged::open));
  }
};

// The answer to a request that took effect.
struct AnswerKept {
  Bytes session;
  uint64_t number = 0;
  std::optional<int64_t> revision;
  std::optional<int64_t> deleted;
  std::optional<int64_t> result;
  bool swapped = false;
  Bytes key;
  uint64_t through = 0;  // Answers up to this one are not kept any more.

  friend bool operator==(const AnswerKept&, const AnswerKept&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.AnswerKept";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "session", &AnswerKept::session), Field(2, "number", &AnswerKept::number),
        Field(3, "revision", &AnswerKept::revision), Field(4, "deleted", &AnswerKept::deleted),
        Field(5, "result", &AnswerKept::result), Field(6, "swapped", &AnswerKept::swapped),
        Field(7, "key", &AnswerKept::key), Field(8, "through", &AnswerKept::through));
  }
};

// A notice of a preemption. Times are in nanoseconds from the record's own.
struct PreemptionNotice {
  Bytes source;
  Bytes event;
  std::vector<int32_t> subjects;  // Empty: everybody.
  std::optional<int64_t> death_in_ns;
  Bytes text;

  friend bool operator==(const PreemptionNotice&, const PreemptionNotice&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.PreemptionNotice";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "source", &PreemptionNotice::source),
                           Field(2, "event", &PreemptionNotice::event),
                           Field(3, "subjects", &PreemptionNotice::subjects),
                           Field(4, "death_in_ns", &PreemptionNotice::death_in_ns),
                           Field(5, "text", &PreemptionNotice::text));
  }
};

// The state of the attempt's preemption. The numbers of enums are those of lockstep.v1.
struct PreemptionChanged {
  int64_t version = 0;
  int64_t id = 0;
  int32_t phase = 0;
  int64_t round = 0;
  std::optional<int64_t> sync_step;
  bool withdrawn = false;
  int32_t outcome = 0;
  Bytes text;
  std::vector<PreemptionNotice> notices;
  std::optional<int64_t> death_in_ns;
  int64_t since_in_ns = 0;

  friend bool operator==(const PreemptionChanged&, const PreemptionChanged&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.PreemptionChanged";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "version", &PreemptionChanged::version), Field(2, "id", &PreemptionChanged::id),
        Field(3, "phase", &PreemptionChanged::phase), Field(4, "round", &PreemptionChanged::round),
        Field(5, "sync_step", &PreemptionChanged::sync_step),
        Field(6, "withdrawn", &PreemptionChanged::withdrawn),
        Field(7, "outcome", &PreemptionChanged::outcome),
        Field(8, "text", &PreemptionChanged::text),
        Field(9, "notices", &PreemptionChanged::notices),
        Field(10, "death_in_ns", &PreemptionChanged::death_in_ns),
        Field(11, "since_in_ns", &PreemptionChanged::since_in_ns));
  }
};

// What became of a member in it.
struct SyncMemberChanged {
  int32_t member = 0;
  int32_t state = 0;
  std::optional<int64_t> step;
  Bytes text;

  friend bool operator==(const SyncMemberChanged&, const SyncMemberChanged&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.SyncMemberChanged";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "member", &SyncMemberChanged::member),
                           Field(2, "state", &SyncMemberChanged::state),
                           Field(3, "step", &SyncMemberChanged::step),
                           Field(4, "text", &SyncMemberChanged::text));
  }
};

// A member is gone with more keys than go at once: what it owns now goes, key by key.
struct OwnerGone {
  int32_t member = 0;

  friend bool operator==(const OwnerGone&, const OwnerGone&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.OwnerGone";
  static constexpr auto Fields() { return std::make_tuple(Field(1, "member", &OwnerGone::member)); }
};

// What became of a thing. Exactly one is set, besides the age.
struct Record {
  int64_t age_ns = 0;  // How long before its entry was written; in snapshots.
  std::optional<AttemptBegan> attempt_began;
  std::optional<AttemptRuns> attempt_runs;
  std::optional<AttemptFailed> attempt_failed;
  std::optional<ShutdownEnded> shutdown_ended;
  std::optional<MemberChanged> member_changed;
  std::optional<ProcessChanged> process_changed;
  std::optional<ErrorKept> error_kept;
  std::optional<KeySet> key_set;
  std::optional<KeyDeleted> key_deleted;
  std::optional<BarrierEnded> barrier_ended;
  std::optional<IndexAgreed> index_agreed;
  std::optional<SessionChanged> session_changed;
  std::optional<AnswerKept> answer_kept;
  std::optional<PreemptionChanged> preemption_changed;
  std::optional<SyncMemberChanged> sync_member_changed;
  std::optional<OwnerGone> owner_gone;

  friend bool operator==(const Record&, const Record&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.Record";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "age_ns", &Record::age_ns), Field(2, "attempt_began", &Record::attempt_began),
        Field(3, "attempt_runs", &Record::attempt_runs),
        Field(4, "attempt_failed", &Record::attempt_failed),
        Field(5, "shutdown_ended", &Record::shutdown_ended),
        Field(6, "member_changed", &Record::member_changed),
        Field(7, "process_changed", &Record::process_changed),
        Field(8, "error_kept", &Record::error_kept), Field(9, "key_set", &Record::key_set),
        Field(10, "key_deleted", &Record::key_deleted),
        Field(11, "barrier_ended", &Record::barrier_ended),
        Field(12, "index_agreed", &Record::index_agreed),
        Field(13, "session_changed", &Record::session_changed),
        Field(14, "answer_kept", &Record::answer_kept),
        Field(15, "preemption_changed", &Record::preemption_changed),
        Field(16, "sync_member_changed", &Record::sync_member_changed),
        Field(17, "owner_gone", &Record::owner_gone));
  }
};

// What has happened in a job, for people who ask later.
struct EventKept {
  int64_t at_unix_us = 0;  // When it happened, since 1970.
  // As in lockstep.v1.JobEvent.
  int32_t kind = 0;
  int32_t severity = 0;
  int64_t attempt = 0;
  Bytes member;
  Bytes text;

  friend bool operator==(const EventKept&, const EventKept&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.EventKept";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "at_unix_us", &EventKept::at_unix_us), Field(2, "kind", &EventKept::kind),
        Field(3, "severity", &EventKept::severity), Field(4, "attempt", &EventKept::attempt),
        Field(5, "member", &EventKept::member), Field(6, "text", &EventKept::text));
  }
};

// What is kept whole or not at all.
struct Entry {
  std::string job;
  int64_t wall_us = 0;  // When it was written, since 1970.
  std::optional<JobCreated> job_created;
  std::optional<JobDeleted> job_deleted;
  std::vector<Record> records;
  // Not of a job: `job` is empty.
  std::vector<DataRecord> data;
  std::vector<TorchRecord> torch;
  std::vector<EventKept> events;  // What the records of this entry brought about.

  friend bool operator==(const Entry&, const Entry&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.Entry";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "job", &Entry::job), Field(2, "wall_us", &Entry::wall_us),
                           Field(3, "job_created", &Entry::job_created),
                           Field(4, "job_deleted", &Entry::job_deleted),
                           Field(5, "records", &Entry::records), Field(6, "data", &Entry::data),
                           Field(7, "torch", &Entry::torch), Field(8, "events", &Entry::events));
  }
};

}  // namespace lockstep::wire::store
