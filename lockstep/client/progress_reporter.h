// What a member says of where it is, and when: its heartbeats. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/client/session_call.h"
#include "lockstep/wire/native/coordination_messages.h"

namespace lockstep::client {

// Silent until `Begin`. Then one report at a time is on its way: news after `progress_interval`;
// without any, an empty report after `heartbeat_interval` says that the member lives.
//
// Threads: thread-compatible. Bounds: a phase has at most 256 bytes, as many as the server takes.
class ProgressReporter {
 public:
  ProgressReporter(absl::Duration progress_interval, absl::Duration heartbeat_interval)
      : progress_interval_(progress_interval), heartbeat_interval_(heartbeat_interval) {}

  // Where the member is. Negative step, empty phase: as before.
  void Note(int64_t step, std::string_view phase);
  // The member has joined, which was a sign of life.
  void Begin(Time now) {
    active_ = true;
    last_report_ = now;
  }
  // Silent until `Resume`, with a report at once: the server may be a new one.
  void LinkLost() {
    active_ = false;
    in_flight_ = 0;
  }
  // The session is open again: where the member is counts as news, also when it was reported over
  // the former link.
  void Resume() { active_ = news_ = true; }
  // The member has left or failed.
  void Stop() { active_ = false; }

  // When to report; infinite: not while it is silent or a report has no answer.
  Time Due() const;
  // The report that is sent under this number.
  wire::native::ReportProgress Report(Time now, RequestNumber request);
  // True: it was the answer to the report.
  bool TakeAnswer(RequestNumber request);

 private:
  const absl::Duration progress_interval_;
  const absl::Duration heartbeat_interval_;
  bool active_ = false;
  RequestNumber in_flight_ = 0;
  bool news_ = false;
  int64_t step_ = -1;
  std::string phase_;
  Time last_report_;
};

}  // namespace lockstep::client
