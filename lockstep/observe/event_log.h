// What has happened, kept for people who ask later: a ring of events for each job, and one of the
// server itself. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::observe {

// The event that a log entry of a coordinator tells of: without the "job 'x': " that its text may
// begin with.
wire::native::JobEvent EventOf(const std::string& job, const coord::LogEntry& entry);

// Numbers events from 1 up, one count for the whole log, so that who follows the server's events
// and a job's can bring both into one order. Thread-compatible. Bounds: `events_max` events and
// kRingBytesMax bytes for each job, and `bytes_max` for all of them, which takes from the largest
// ring first; the oldest are forgotten. A text is cut at kErrorTextBytesMax
// and has no control characters. A job's ring is there from its first event until `Forget`.
class EventLog {
 public:
  // In one answer.
  static constexpr size_t kEventsAnsweredMax = 1000;

  // Of the events of one job, or of the server: `events_bytes_max`.
  static constexpr size_t kRingBytesMax = size_t{4} << 20;

  // `log`: a number that no other log has, other than 0. `bytes_max`: of all rings; 0: there is
  // none.
  EventLog(uint64_t log, size_t events_max, size_t bytes_max = 0)
      : log_(log), events_max_(events_max), bytes_max_(bytes_max) {}

  // `job` empty: of the server.
  void Note(Time now, const std::string& job, wire::native::JobEvent event);
  // Its ring and its memory go; an event that comes later begins a new one. None: does nothing.
  void Forget(const std::string& job);
  // What all rings hold, about as it costs.
  size_t memory() const { return memory_; }

  // Its newest events, oldest first: so many, and so many bytes of texts.
  std::vector<wire::native::JobEvent> Newest(const std::string& job, size_t events_max,
                                             size_t bytes_max) const;

  // Those after `request.after`, if that counts in this log; else from the oldest.
  wire::native::WatchEventsReply After(Time now, const wire::native::WatchEvents& request) const;

 private:
  struct Timed {
    Time at;
    wire::native::JobEvent event;
  };
  struct Ring {
    std::deque<Timed> events;
    size_t bytes = 0;       // of `events`, as SizeOf counts
    int64_t forgotten = 0;  // how many there were before these
  };

  static size_t SizeOf(const Timed& timed);
  void ForgetOldest(Ring& ring);
  // Once there is too much: down to a little less, so that the largest need not be looked for with
  // each event.
  void ShrinkLargest();

  const uint64_t log_;
  const size_t events_max_;
  const size_t bytes_max_;
  size_t memory_ = 0;  // the bytes of all rings
  int64_t last_ = 0;
  std::map<std::string, Ring> rings_;
};

}  // namespace lockstep::observe
