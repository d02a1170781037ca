// The tables of `lockstep members`, `hosts`, `barriers`, `jobs`, `events` and `kv`. Pure. Each text
// ends with a new line; whatever clients wrote comes without control characters.
#pragma once

#include <string>

#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

// One row a member, all of them: the worst first. With what each says of its step and phase, and
// what it waits for, and of the preemption, if there was one.
std::string MembersTable(const wire::native::JobStatus& job);
// {"job", "attempt", "members": [...], "preemption": {...}}
std::string MembersJson(const wire::native::JobStatus& job);

// One row a host that has an agent: the lost and silent ones first.
std::string HostsTable(const wire::native::JobStatus& job);
// {"job", "attempt", "hosts_total", "hosts": [...]}
std::string HostsJson(const wire::native::JobStatus& job);

// Each open barrier: since when, who is there, who is missing and what each of those does instead.
std::string BarriersTable(const wire::native::JobStatus& job);
// {"job", "attempt", "barriers_open", "barriers": [...]}
std::string BarriersJson(const wire::native::JobStatus& job);

// One row a job.
std::string JobsTable(const wire::native::StatusReply& status);
// {"server": {...}, "jobs": [{"job", "size", "attempt", "state", ...}], "set_aside": [{"job",
// "why", "kept_bytes"}]}: counts for the members, by condition, and for processes that launchers
// told of.
std::string JobsJson(const wire::native::StatusReply& status);

// "2026-11-21T05:51:27.123Z  attempt 2  error  member_lost  task/2#1  ...": one line an event.
// `now_us`: microseconds since 1970 at which the answer came, for servers that do not say when it
// was.
std::string EventLine(const wire::native::JobEvent& event, int64_t now_us);
// One object a line, with "at" added.
std::string EventJsonLine(const wire::native::JobEvent& event, const std::string& job,
                          int64_t now_us);

// Revision, size, key and the beginning of the value.
std::string KeysTable(const wire::native::ListKeysReply& keys);
std::string KeysJson(const wire::native::ListKeysReply& keys);

}  // namespace lockstep::observe
