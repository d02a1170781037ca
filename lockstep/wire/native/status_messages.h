// What `lockstep status` asks and is told. Contract: proto/lockstep/v1/status.proto. Pure.
//
// Times are microseconds since ("ago") or until ("in") the moment the reply was made, never wall
// clock: two hosts need not agree on the time to read each other's status.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/field.h"
#include "lockstep/wire/native/preemption_messages.h"

namespace lockstep::wire::native {

struct StatusRequest {
  std::optional<std::string> job;  // absent: all jobs

  friend bool operator==(const StatusRequest&, const StatusRequest&) = default;
  static constexpr std::string_view kName = "lockstep.v1.StatusRequest";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "job", &StatusRequest::job, kIdBytes));
  }
};

// As coord::MemberCondition.
enum class MemberCondition : int32_t {
  kUnspecified = 0,
  kMissing = 1,
  kRegistering = 2,
  kConnected = 3,
  kSuspect = 4,
  kLost = 5,
  kFailed = 6,
  kLeft = 7,
};

constexpr std::array<EnumName<MemberCondition>, 8> EnumNames(MemberCondition) {
  using enum MemberCondition;
  return {{{kUnspecified, "unspecified"},
           {kMissing, "missing"},
           {kRegistering, "registering"},
           {kConnected, "connected"},
           {kSuspect, "suspect"},
           {kLost, "lost"},
           {kFailed, "failed"},
           {kLeft, "left"}}};
}

// As coord::AttemptState.
enum class AttemptState : int32_t {
  kUnspecified = 0,
  kWaiting = 1,
  kRunning = 2,
  kLeaving = 3,
  kEnded = 4,
  kFailed = 5,
  kStopped = 6,
};

constexpr std::array<EnumName<AttemptState>, 7> EnumNames(AttemptState) {
  using enum AttemptState;
  return {{{kUnspecified, "unspecified"},
           {kWaiting, "waiting"},
           {kRunning, "running"},
           {kLeaving, "leaving"},
           {kEnded, "ended"},
           {kFailed, "failed"},
           {kStopped, "stopped"}}};
}

// For people: what a member says about itself.
struct Label {
  std::string name;
  std::string value;

  friend bool operator==(const Label&, const Label&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Label";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "name", &Label::name, kIdBytes),
                           Field(2, "value", &Label::value, kIdBytes));
  }
};

enum class ProcessState : int32_t {
  kUnspecified = 0,  // no launcher told of one
  kRunning = 1,
  kStopped = 2,
  kEnded = 3,
  kFailed = 4,
  kLeftOut = 5,  // the run goes on without the member
};

constexpr std::array<EnumName<ProcessState>, 6> EnumNames(ProcessState) {
  using enum ProcessState;
  return {{{kUnspecified, "unspecified"},
           {kRunning, "running"},
           {kStopped, "stopped"},
           {kEnded, "ended"},
           {kFailed, "failed"},
           {kLeftOut, "left_out"}}};
}

struct MemberStatus {
  int32_t index = 0;
  std::string name;  // task/4#1
  MemberCondition condition = MemberCondition::kUnspecified;
  int64_t since_ago_us = 0;                  // when it became so
  std::optional<int64_t> last_heard_ago_us;  // absent: never
  std::string why;                           // suspect, lost, failed: one sentence
  std::string peer;                          // where it registered from
  std::string host;                          // from itself or its launcher, as is `pid`; else empty
  int64_t pid = 0;                           // 0: not known
  std::optional<int64_t> step;  // where it is in its work, as far as it said, as are `phase`
  std::string phase;            // and `labels`
  std::vector<Label> labels;
  std::string doing;    // "waits at barrier 'b' for 12s"; empty: not known
  bool native = false;  // it speaks lockstep.v1
  // What a launcher told of its process.
  ProcessState process = ProcessState::kUnspecified;
  int64_t process_since_ago_us = 0;

  friend bool operator==(const MemberStatus&, const MemberStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.MemberStatus";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "index", &MemberStatus::index), Field(2, "name", &MemberStatus::name),
        Field(3, "condition", &MemberStatus::condition),
        Field(4, "since_ago_us", &MemberStatus::since_ago_us),
        Field(5, "last_heard_ago_us", &MemberStatus::last_heard_ago_us),
        Field(6, "why", &MemberStatus::why), Field(7, "peer", &MemberStatus::peer),
        Field(8, "host", &MemberStatus::host), Field(9, "pid", &MemberStatus::pid),
        Field(10, "step", &MemberStatus::step), Field(11, "phase", &MemberStatus::phase),
        Field(12, "labels", &MemberStatus::labels), Field(13, "doing", &MemberStatus::doing),
        Field(14, "native", &MemberStatus::native), Field(15, "process", &MemberStatus::process),
        Field(16, "process_since_ago_us", &MemberStatus::process_since_ago_us));
  }
};

// A barrier that is open.
struct BarrierStatus {
  std::string id;
  int64_t counter = 0;  // which use of the id, from 0
  int64_t opened_ago_us = 0;
  std::optional<int64_t> deadline_in_us;  // absent: waits for ever
  std::vector<int32_t> waiting;           // members that arrived
  std::vector<int32_t> awaited;           // members that did not

  friend bool operator==(const BarrierStatus&, const BarrierStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.BarrierStatus";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "id", &BarrierStatus::id), Field(2, "counter", &BarrierStatus::counter),
        Field(3, "opened_ago_us", &BarrierStatus::opened_ago_us),
        Field(4, "deadline_in_us", &BarrierStatus::deadline_in_us),
        Field(5, "waiting", &BarrierStatus::waiting), Field(6, "awaited", &BarrierStatus::awaited));
  }
};

// A key that nobody has set and somebody waits for.
struct KeyWaitStatus {
  std::string key;
  int64_t waiters = 0;
  int64_t since_ago_us = 0;      // of the oldest
  std::vector<int32_t> members;  // those that are known

  friend bool operator==(const KeyWaitStatus&, const KeyWaitStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.KeyWaitStatus";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &KeyWaitStatus::key),
                           Field(2, "waiters", &KeyWaitStatus::waiters),
                           Field(3, "since_ago_us", &KeyWaitStatus::since_ago_us),
                           Field(4, "members", &KeyWaitStatus::members));
  }
};

// Who waits for something in a job's store, as far as can be told of a client that says nothing of
// itself.
struct StoreWaiter {
  std::string peer;             // HOST:PORT it calls from
  std::optional<int32_t> rank;  // probably: by the first key that it set
  int64_t since_ago_us = 0;

  friend bool operator==(const StoreWaiter&, const StoreWaiter&) = default;
  static constexpr std::string_view kName = "lockstep.v1.StoreWaiter";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "peer", &StoreWaiter::peer),
                           Field(2, "rank", &StoreWaiter::rank),
                           Field(3, "since_ago_us", &StoreWaiter::since_ago_us));
  }
};

// A key of the store that is waited for.
struct StoreWait {
  std::string key;
  int64_t waiters = 0;
  int64_t since_ago_us = 0;                // of the oldest
  std::vector<StoreWaiter> first_waiters;  // the oldest of them
  std::optional<int32_t> rank;             // whose key it probably is: by its name
  // Of a barrier: how many it waits for, and how many came; else 0.
  int64_t barrier_size = 0;
  int64_t arrived = 0;

  friend bool operator==(const StoreWait&, const StoreWait&) = default;
  static constexpr std::string_view kName = "lockstep.v1.StoreWait";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "key", &StoreWait::key), Field(2, "waiters", &StoreWait::waiters),
        Field(3, "since_ago_us", &StoreWait::since_ago_us),
        Field(4, "first_waiters", &StoreWait::first_waiters), Field(5, "rank", &StoreWait::rank),
        Field(6, "barrier_size", &StoreWait::barrier_size),
        Field(7, "arrived", &StoreWait::arrived));
  }
};

// The store that torch's clients use in the current attempt.
struct StoreStatus {
  int64_t attempt = 0;  // as counted by who starts the processes
  int64_t connections = 0;
  int64_t keys = 0;
  int64_t queues = 0;
  int64_t bytes = 0;
  int64_t waits = 0;
  int64_t keys_awaited = 0;        // all of them
  std::vector<StoreWait> awaited;  // the longest awaited first; cut

  friend bool operator==(const StoreStatus&, const StoreStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.StoreStatus";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "attempt", &StoreStatus::attempt),
        Field(2, "connections", &StoreStatus::connections), Field(3, "keys", &StoreStatus::keys),
        Field(4, "queues", &StoreStatus::queues), Field(5, "bytes", &StoreStatus::bytes),
        Field(6, "waits", &StoreStatus::waits),
        Field(7, "keys_awaited", &StoreStatus::keys_awaited),
        Field(8, "awaited", &StoreStatus::awaited));
  }
};

struct ErrorStatus {
  int64_t at_ago_us = 0;
  int32_t code = 0;    // as in absl::StatusCode
  std::string reason;  // stable (docs/errors.md)
  std::string message;
  std::string origin;        // name of the member it is about, or empty
  bool consequence = false;  // followed from the attempt's first error
  int64_t attempt = 0;

  friend bool operator==(const ErrorStatus&, const ErrorStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ErrorStatus";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "at_ago_us", &ErrorStatus::at_ago_us), Field(2, "code", &ErrorStatus::code),
        Field(3, "reason", &ErrorStatus::reason), Field(4, "message", &ErrorStatus::message),
        Field(5, "origin", &ErrorStatus::origin),
        Field(6, "consequence", &ErrorStatus::consequence),
        Field(7, "attempt", &ErrorStatus::attempt));
  }
};

// Where processes were in their code was asked when something timed out: the answers are keys of
// the job (stack_question.h).
struct StacksTaken {
  std::string id;       // of the question
  std::string because;  // "barrier 'x' timed out"
  int64_t ago_us = 0;
  std::vector<int32_t> awaited;  // members whom others waited for, when that is known

  friend bool operator==(const StacksTaken&, const StacksTaken&) = default;
  static constexpr std::string_view kName = "lockstep.v1.StacksTaken";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "id", &StacksTaken::id), Field(2, "because", &StacksTaken::because),
        Field(3, "ago_us", &StacksTaken::ago_us), Field(4, "awaited", &StacksTaken::awaited));
  }
};

struct JobStatus {
  std::string job;
  int32_t size = 0;
  int64_t attempt = 0;  // 1 is the first
  AttemptState state = AttemptState::kUnspecified;
  uint64_t service_incarnation = 0;
  std::optional<int64_t> started_ago_us;  // of the attempt; absent: nobody has come yet
  std::vector<MemberStatus> members;      // by index
  std::vector<BarrierStatus> barriers;    // those that are open, the oldest first; cut
  std::vector<KeyWaitStatus> key_waits;   // cut likewise
  std::vector<ErrorStatus> errors;        // newest last
  int64_t keys = 0;
  int64_t key_bytes = 0;
  int64_t waits = 0;          // parked calls
  std::string grpc;           // HOST:PORT for this job's stock clients
  int64_t barriers_open = 0;  // all of them, as is the next
  int64_t keys_awaited = 0;
  std::optional<PreemptionStatus> preemption;  // of this attempt: the current one, or the last
  std::string store;                           // HOST:PORT for torch's clients; empty: none
  std::optional<StoreStatus> torch_store;      // what they do there
  std::optional<StacksTaken> stacks;           // the last, as long as the answers live

  friend bool operator==(const JobStatus&, const JobStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.JobStatus";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "job", &JobStatus::job), Field(2, "size", &JobStatus::size),
        Field(3, "attempt", &JobStatus::attempt), Field(4, "state", &JobStatus::state),
        Field(5, "service_incarnation", &JobStatus::service_incarnation),
        Field(6, "started_ago_us", &JobStatus::started_ago_us),
        Field(7, "members", &JobStatus::members), Field(8, "barriers", &JobStatus::barriers),
        Field(9, "key_waits", &JobStatus::key_waits), Field(10, "errors", &JobStatus::errors),
        Field(11, "keys", &JobStatus::keys), Field(12, "key_bytes", &JobStatus::key_bytes),
        Field(13, "waits", &JobStatus::waits), Field(14, "grpc", &JobStatus::grpc),
        Field(15, "barriers_open", &JobStatus::barriers_open),
        Field(16, "keys_awaited", &JobStatus::keys_awaited),
        Field(17, "preemption", &JobStatus::preemption), Field(18, "store", &JobStatus::store),
        Field(19, "torch_store", &JobStatus::torch_store), Field(20, "stacks", &JobStatus::stacks));
  }
};

// One who holds memory: a job, the links of a host. `part`: what of it is the largest.
struct MemoryHolder {
  std::string owner;
  std::string part;
  int64_t bytes = 0;

  friend bool operator==(const MemoryHolder&, const MemoryHolder&) = default;
  static constexpr std::string_view kName = "lockstep.v1.MemoryHolder";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "owner", &MemoryHolder::owner),
                           Field(2, "part", &MemoryHolder::part),
                           Field(3, "bytes", &MemoryHolder::bytes));
  }
};

struct MemoryStatus {
  int64_t limit = 0;  // memory_max, in bytes
  int64_t held = 0;
  std::vector<MemoryHolder> holders;  // the largest first

  friend bool operator==(const MemoryStatus&, const MemoryStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.MemoryStatus";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "limit", &MemoryStatus::limit),
                           Field(2, "held", &MemoryStatus::held),
                           Field(3, "holders", &MemoryStatus::holders));
  }
};

struct ServerStatus {
  std::string version;  // of the program
  int64_t pid = 0;
  int64_t started_ago_us = 0;
  std::string listen;  // HOST:PORT of the link
  std::optional<MemoryStatus> memory;

  friend bool operator==(const ServerStatus&, const ServerStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ServerStatus";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "version", &ServerStatus::version), Field(2, "pid", &ServerStatus::pid),
        Field(3, "started_ago_us", &ServerStatus::started_ago_us),
        Field(4, "listen", &ServerStatus::listen), Field(5, "memory", &ServerStatus::memory));
  }
};

// A job of the state directory whose records cannot be used: it is served to nobody.
struct SetAsideJob {
  std::string job;
  // For people.
  std::string why;
  // Its records, which stay as they are until it is deleted.
  uint64_t kept_bytes = 0;

  friend bool operator==(const SetAsideJob&, const SetAsideJob&) = default;
  static constexpr std::string_view kName = "lockstep.v1.SetAsideJob";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "job", &SetAsideJob::job), Field(2, "why", &SetAsideJob::why),
                           Field(3, "kept_bytes", &SetAsideJob::kept_bytes));
  }
};

struct StatusReply {
  ServerStatus server;
  std::vector<JobStatus> jobs;
  // In the order of their names; not of one job.
  std::vector<SetAsideJob> set_aside;

  friend bool operator==(const StatusReply&, const StatusReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.StatusReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "server", &StatusReply::server),
                           Field(2, "jobs", &StatusReply::jobs),
                           Field(3, "set_aside", &StatusReply::set_aside));
  }
};

}  // namespace lockstep::wire::native
