// The jobs of a server, made and ended while it runs. Contract: proto/lockstep/v1/jobs.proto. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/field.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::wire::native {

struct RoleSize {
  std::string role;
  int32_t size = 0;

  friend bool operator==(const RoleSize&, const RoleSize&) = default;
  static constexpr std::string_view kName = "lockstep.v1.RoleSize";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "role", &RoleSize::role), Field(2, "size", &RoleSize::size));
  }
};

// Makes a job. One of the same name and shape is left as it is; another shape is refused.
struct CreateJob {
  std::string job;
  // How many members, all of one role. 0: as `roles` say.
  int32_t size = 0;
  // The members of the first role come first. Empty: one role, as the first member calls it.
  std::vector<RoleSize> roles;
  bool recoverable = false;

  friend bool operator==(const CreateJob&, const CreateJob&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CreateJob";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "job", &CreateJob::job), Field(2, "size", &CreateJob::size),
                           Field(3, "roles", &CreateJob::roles),
                           Field(4, "recoverable", &CreateJob::recoverable));
  }
};

struct CreateJobReply {
  // False: it was there.
  bool created = false;
  // HOST:PORT for the job's stock clients.
  std::string grpc;

  friend bool operator==(const CreateJobReply&, const CreateJobReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CreateJobReply";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "created", &CreateJobReply::created),
                           Field(2, "grpc", &CreateJobReply::grpc));
  }
};

// Ends a job and forgets all that it had.
struct DeleteJob {
  std::string job;

  friend bool operator==(const DeleteJob&, const DeleteJob&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DeleteJob";
  static constexpr auto Fields() { return std::make_tuple(Field(1, "job", &DeleteJob::job)); }
};

struct DeleteJobReply {
  friend bool operator==(const DeleteJobReply&, const DeleteJobReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DeleteJobReply";
  static constexpr auto Fields() { return std::make_tuple(); }
};

struct ListJobs {
  friend bool operator==(const ListJobs&, const ListJobs&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ListJobs";
  static constexpr auto Fields() { return std::make_tuple(); }
};

struct JobSummary {
  std::string job;
  int32_t size = 0;
  // Empty: one role.
  std::vector<RoleSize> roles;
  int64_t attempt = 0;
  AttemptState state = AttemptState::kUnspecified;
  // Members that are connected, or were so a moment ago.
  int32_t connected = 0;
  // Native sessions with a link.
  int32_t sessions = 0;
  // HOST:PORT for the job's stock clients.
  std::string grpc;
  // Until it is deleted if nobody uses it. Absent: somebody does, or it never is.
  std::optional<int64_t> expires_in_us;

  friend bool operator==(const JobSummary&, const JobSummary&) = default;
  static constexpr std::string_view kName = "lockstep.v1.JobSummary";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "job", &JobSummary::job), Field(2, "size", &JobSummary::size),
        Field(3, "roles", &JobSummary::roles), Field(4, "attempt", &JobSummary::attempt),
        Field(5, "state", &JobSummary::state), Field(6, "connected", &JobSummary::connected),
        Field(7, "sessions", &JobSummary::sessions), Field(8, "grpc", &JobSummary::grpc),
        Field(9, "expires_in_us", &JobSummary::expires_in_us));
  }
};

struct ListJobsReply {
  // In the order of their names.
  std::vector<JobSummary> jobs;
  // How many the server takes.
  int64_t jobs_max = 0;

  friend bool operator==(const ListJobsReply&, const ListJobsReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ListJobsReply";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "jobs", &ListJobsReply::jobs),
                           Field(2, "jobs_max", &ListJobsReply::jobs_max));
  }
};

}  // namespace lockstep::wire::native
