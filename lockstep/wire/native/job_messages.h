// How the jobs of a server are made, ended and followed from outside. Contract:
// proto/lockstep/v1/jobs.proto. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

struct RoleSize {
  std::string name;
  int32_t size = 0;

  friend bool operator==(const RoleSize&, const RoleSize&) = default;
  static constexpr std::string_view kName = "lockstep.v1.RoleSize";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "name", &RoleSize::name, kIdBytes),
                           Field(2, "size", &RoleSize::size, kCheckedNumber));
  }
};

// Makes a job. Once more with the same shape changes nothing; with another, ALREADY_EXISTS.
struct CreateJob {
  std::string job;
  // How many members it has; 0 when `roles` says it.
  int32_t size = 0;
  // Empty: one role, which is called as the first member calls it.
  std::vector<RoleSize> roles;
  // Its members may die and come back without failing it.
  bool recoverable = false;

  friend bool operator==(const CreateJob&, const CreateJob&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CreateJob";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "job", &CreateJob::job, kIdBytes),
                           Field(2, "size", &CreateJob::size, kCheckedNumber),
                           Field(3, "roles", &CreateJob::roles, {}, kPerMember),
                           Field(4, "recoverable", &CreateJob::recoverable));
  }
};

struct CreateJobReply {
  // False: it was there.
  bool created = false;
  // HOST:PORT for its stock clients.
  std::string grpc;
  // HOST:PORT for torch's: what they take for MASTER_ADDR and MASTER_PORT. Empty: none.
  std::string store;

  friend bool operator==(const CreateJobReply&, const CreateJobReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CreateJobReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "created", &CreateJobReply::created),
                           Field(2, "grpc", &CreateJobReply::grpc),
                           Field(3, "store", &CreateJobReply::store));
  }
};

// The store of one attempt of a job, for torch's clients. Each attempt has its own, counted from 1
// by whoever starts the processes. The first to ask for an attempt begins it: the store of the one
// before is closed, with all its connections. FAILED_PRECONDITION (`attempt_over`): a later one has
// begun.
struct OpenStore {
  std::string job;
  // 0: the current one.
  int64_t attempt = 0;

  friend bool operator==(const OpenStore&, const OpenStore&) = default;
  static constexpr std::string_view kName = "lockstep.v1.OpenStore";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "job", &OpenStore::job, kIdBytes),
                           Field(2, "attempt", &OpenStore::attempt, kCheckedNumber));
  }
};

struct OpenStoreReply {
  int64_t attempt = 0;
  // HOST:PORT. Empty: this server has no stores.
  std::string store;

  friend bool operator==(const OpenStoreReply&, const OpenStoreReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.OpenStoreReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "attempt", &OpenStoreReply::attempt),
                           Field(2, "store", &OpenStoreReply::store));
  }
};

// Ends a job and forgets it; who waits in it is told. FAILED_PRECONDITION while members are
// connected, unless `running_too`.
struct DeleteJob {
  std::string job;
  bool running_too = false;

  friend bool operator==(const DeleteJob&, const DeleteJob&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DeleteJob";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "job", &DeleteJob::job, kIdBytes),
                           Field(2, "running_too", &DeleteJob::running_too));
  }
};

struct DeleteJobReply {
  friend bool operator==(const DeleteJobReply&, const DeleteJobReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DeleteJobReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

enum class EventKind : int32_t {
  kUnspecified = 0,
  kServerStarted = 1,
  kJobCreated = 2,
  kJobDeleted = 3,
  // The first member of an attempt has come.
  kAttemptBegan = 4,
  // All members are in.
  kAttemptRuns = 5,
  // The last member has left.
  kAttemptEnded = 6,
  kAttemptFailed = 7,
  kMemberJoined = 8,
  kMemberLeft = 9,
  kMemberSuspect = 10,
  // A suspect member is well again.
  kMemberRecovered = 11,
  kMemberLost = 12,
  // In error for another reason.
  kMemberFailed = 13,
  // A barrier timed out, was cancelled or failed by a member; an agreement timed out.
  kBarrierFailed = 14,
  // From launchers.
  kProcessStarted = 15,
  kProcessEnded = 16,
  // Anything else that an operator should know.
  kNotice = 17,
  // Members will be preempted, or will not, or at another time.
  kPreemptionNotice = 18,
  // On the step at which all save.
  kPreemptionAgreed = 19,
  // A member saved, or failed to.
  kPreemptionSaved = 20,
  kPreemptionEnded = 21,
  // A data worker came or is gone; an iteration began, ended or failed; a consumer came or is gone.
  kDataService = 22,
};

constexpr std::array<EnumName<EventKind>, 23> EnumNames(EventKind) {
  using enum EventKind;
  return {{{kUnspecified, "unspecified"},
           {kServerStarted, "server_started"},
           {kJobCreated, "job_created"},
           {kJobDeleted, "job_deleted"},
           {kAttemptBegan, "attempt_began"},
           {kAttemptRuns, "attempt_runs"},
           {kAttemptEnded, "attempt_ended"},
           {kAttemptFailed, "attempt_failed"},
           {kMemberJoined, "member_joined"},
           {kMemberLeft, "member_left"},
           {kMemberSuspect, "member_suspect"},
           {kMemberRecovered, "member_recovered"},
           {kMemberLost, "member_lost"},
           {kMemberFailed, "member_failed"},
           {kBarrierFailed, "barrier_failed"},
           {kProcessStarted, "process_started"},
           {kProcessEnded, "process_ended"},
           {kNotice, "notice"},
           {kPreemptionNotice, "preemption_notice"},
           {kPreemptionAgreed, "preemption_agreed"},
           {kPreemptionSaved, "preemption_saved"},
           {kPreemptionEnded, "preemption_ended"},
           {kDataService, "data_service"}}};
}

enum class EventSeverity : int32_t {
  kUnspecified = 0,
  kInfo = 1,
  kWarning = 2,
  kError = 3,
};

constexpr std::array<EnumName<EventSeverity>, 4> EnumNames(EventSeverity) {
  using enum EventSeverity;
  return {
      {{kUnspecified, "unspecified"}, {kInfo, "info"}, {kWarning, "warning"}, {kError, "error"}}};
}

// One transition.
struct JobEvent {
  // Within its log, from 1 up.
  int64_t sequence = 0;
  int64_t at_ago_us = 0;
  EventKind kind = EventKind::kUnspecified;
  EventSeverity severity = EventSeverity::kUnspecified;
  // 0: it is about no attempt.
  int64_t attempt = 0;
  // Name of the member that it is about, or empty.
  std::string member;
  // For people.
  std::string text;
  // When it was by the server's clock, since 1970; 0: not known.
  int64_t at_unix_us = 0;

  friend bool operator==(const JobEvent&, const JobEvent&) = default;
  static constexpr std::string_view kName = "lockstep.v1.JobEvent";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "sequence", &JobEvent::sequence), Field(2, "at_ago_us", &JobEvent::at_ago_us),
        Field(3, "kind", &JobEvent::kind), Field(4, "severity", &JobEvent::severity),
        Field(5, "attempt", &JobEvent::attempt), Field(6, "member", &JobEvent::member),
        Field(7, "text", &JobEvent::text), Field(8, "at_unix_us", &JobEvent::at_unix_us));
  }
};

// The events of a job: those after `after`, oldest first.
struct WatchEvents {
  // Empty: of the server itself.
  std::string job;
  int64_t after = 0;
  // The log that `after` counts in, as told by the last answer. A server that has another one by
  // now begins at its oldest event.
  uint64_t log = 0;
  // Parks until there is an event; otherwise it may be answered with none.
  bool wait = false;

  friend bool operator==(const WatchEvents&, const WatchEvents&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WatchEvents";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "job", &WatchEvents::job, kIdBytes),
                           Field(2, "after", &WatchEvents::after, kCheckedNumber),
                           Field(3, "log", &WatchEvents::log, kAnyNumber),
                           Field(4, "wait", &WatchEvents::wait));
  }
};

struct WatchEventsReply {
  // One life of the server's log.
  uint64_t log = 0;
  std::vector<JobEvent> events;
  // To ask with next.
  int64_t next_after = 0;
  // So many that came after `after` are forgotten already.
  int64_t forgotten = 0;

  friend bool operator==(const WatchEventsReply&, const WatchEventsReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WatchEventsReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "log", &WatchEventsReply::log),
                           Field(2, "events", &WatchEventsReply::events),
                           Field(3, "next_after", &WatchEventsReply::next_after),
                           Field(4, "forgotten", &WatchEventsReply::forgotten));
  }
};

}  // namespace lockstep::wire::native
