// One job of up to a million stock members behind agents, step by step, with network delays. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace lockstep::sim {

struct LargeJobOptions {
  int32_t members = 1'000'000;
  int32_t members_a_host = 8;
  uint64_t seed = 1;
  // Of each message: a part for each host, and as much again drawn anew.
  absl::Duration delay_min = absl::Microseconds(100);
  absl::Duration delay_max = absl::Milliseconds(1);
  absl::Duration starts_within = absl::Seconds(2);  // the members' first calls
  int barriers = 16;
  int missing = 3000;  // of the last barrier, whose error names them
  // The processor time that was spent, in seconds.
  std::function<double()> processor_time = nullptr;
};

struct LargeJobPhase {
  std::string name;
  absl::Duration first_to_last;  // from the first call to the last answer: only delays count
  absl::Duration last_to_last;   // from the last call
  double processor_s = 0;        // of the coordinator and this world
  double longest_event_s = 0;    // of the coordinator alone
  int64_t answers = 0;
};

struct LargeJobResult {
  std::string failure;  // empty, or the rule that was broken
  std::vector<LargeJobPhase> phases;
  double bytes_a_member = 0;  // as the coordinator counts, while all poll
  std::string missing_text;   // of a barrier that misses so many
  std::string lost_text;      // what all are told when a host is lost
};

// Rules: every call is answered exactly once; nobody passes a barrier before all have come; all
// read the value that was set; when a host is lost, all others are told the same.
LargeJobResult RunLargeJob(const LargeJobOptions& options);

}  // namespace lockstep::sim
