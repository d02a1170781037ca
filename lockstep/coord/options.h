// What the coordinator of one job is given: sizes, time-outs and limits. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/limits.h"

namespace lockstep::coord {

struct RoleOptions {
  std::string name;
  int32_t size = 0;
};

// Each limit and time-out has the name of its option in its error text. Read once, when the job
// begins.
struct CoordinatorOptions {
  std::string job = "job";
  // How members are called in texts: `task/4#1`. Stock clients carry no role.
  std::string role = "task";
  // How many members the job has: indices 0 .. size-1.
  int32_t size = 1;
  // The roles of the job, whose sizes add up to `size`; the members of the first come first. Empty:
  // one role, which is called as the first member calls it (`role` until then).
  std::vector<RoleOptions> roles;

  // From the first registration of an attempt until the last; then the attempt fails.
  absl::Duration register_timeout = absl::Minutes(60);
  // From the last sign of life until a member is lost. Stock clients send one every half of *their
  // own* time-out, which is not on the wire: one that polls has longer (kSilentPeriods).
  absl::Duration heartbeat_timeout = absl::Seconds(100);
  // From the first member that shuts down until the last; zero: no shutdown barrier, each leaves
  // alone.
  absl::Duration shutdown_timeout = absl::Minutes(5);
  // From a broken connection until the member is lost. Long enough for a client that re-polls over
  // a new connection, short against a person's patience.
  absl::Duration connection_grace = absl::Milliseconds(200);
  // The same for a native member, whose client comes back by itself and at once.
  absl::Duration session_grace = absl::Milliseconds(300);
  // For everybody who was connected when the server died, from its restart.
  absl::Duration restart_grace = absl::Seconds(30);
  // A session that is no member's is forgotten this long after its link broke.
  absl::Duration session_timeout = absl::Minutes(15);
  // Members may die and come back: nobody else is told, and barriers wait for them.
  bool recoverable = false;
  // Parked state watches are answered at most this often; the first change after a rest, at once.
  absl::Duration watch_interval = absl::Milliseconds(100);

  // A preemption whose deaths are further away than this begins when they are not.
  absl::Duration preempt_window = absl::Minutes(15);
  // Members that do not say within this where they are, are left out of the sync step.
  absl::Duration preempt_sync_timeout = absl::Seconds(5);
  // Members that have not begun their first step are waited for, too, as long as that.
  bool preempt_awaits_all = false;
  // What a save takes, unless a member knows better.
  absl::Duration preempt_save_estimate;
  // From the sync step's publication, or the death when that is later, until a preemption ends
  // without those who have not saved.
  absl::Duration preempt_save_timeout = absl::Minutes(10);
  // The same before there is a sync step, when nobody says when the death will be.
  absl::Duration preempt_answer_timeout = absl::Minutes(1);

  // Service incarnations of the attempts are drawn from it. Random in production.
  uint64_t incarnation_seed = 0;

  // Limits, each answered by RESOURCE_EXHAUSTED with its name.
  size_t keys_max = 1'000'000;
  size_t key_bytes_max = 16 << 10;
  size_t value_bytes_max = kMessageBytesMax - kMessageOverheadMax;
  size_t store_bytes_max = size_t{4} << 30;
  size_t list_bytes_max = size_t{1} << 30;
  // What a native client gets in one answer: a page ends before it, anything else is refused.
  size_t page_bytes_max = size_t{32} << 20;
  // The same in keys, which bounds the time that one answer takes.
  size_t page_entries_max = 8192;
  // Keys that one call waits for.
  size_t keys_per_wait_max = 65'536;
  size_t open_barriers_max = 10'000;
  // An id goes into the metadata of its errors, of which clients take 8 KiB.
  size_t barrier_id_bytes_max = 2 << 10;
  // Parked calls of the whole job: key waits, barrier arrivals, polls, watches.
  size_t waits_max = 1'000'000;
  // What those who wait for keys cost: names, and who waits. Of the whole job, and of one session.
  size_t wait_bytes_max = size_t{256} << 20;
  size_t session_wait_bytes_max = size_t{64} << 20;

  // What one member brings to a barrier, and all together.
  size_t barrier_value_bytes_max = 64 << 10;
  size_t barrier_values_bytes_max = 32 << 20;
  size_t sessions_max = 150'000;  // every member, and tools
  // Of one session: requests that took effect and whose answers the client has not confirmed.
  size_t kept_answers_max = 4096;
  // Of one member: labels, and the bytes of each and of the phase.
  size_t labels_max = 32;
  size_t label_bytes_max = 256;

  // Of one preemption.
  size_t preempt_notices_max = 1024;

  // A view has so many open barriers and awaited keys, and says how many there are.
  size_t view_rows_max = 256;

  // Not answered, but forgotten, oldest first. Changes of keys: who is further behind reads all.
  size_t kept_key_changes_max = 10'000;
  size_t kept_barrier_values_bytes_max = 256 << 20;
  size_t kept_barriers_max = 100'000;
  size_t kept_errors_max = 256;
};

}  // namespace lockstep::coord
