// Where every transition goes: a line of the log, an event that is remembered, an answer to who
// follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "lockstep/coord/effects.h"
#include "lockstep/observe/event_log.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::server {

// Threads: loop-confined. Bounds: `events_max` for each job; kWatchersMax requests are parked, and
// one more is refused.
class EventFeed {
 public:
  static constexpr size_t kWatchersMax = 1024;
  static constexpr size_t kKeptEventsMax = 1000;
  static constexpr size_t kKeptEventBytesMax = size_t{1} << 20;

  // All events together may be this part of the account: `events_part`.
  static constexpr uint64_t kAccountPart = 8;

  // What is remembered is in `memory`, which outlives it.
  EventFeed(uint64_t log, size_t events_max, runtime::MemoryAccount* memory = nullptr)
      : log_(log, events_max, memory == nullptr ? 0 : memory->limit() / kAccountPart),
        share_(memory, "events", "events") {}

  // What a job's coordinator says.
  void Tell(const std::string& job, const coord::LogEntry& entry);
  // The same, as it happened at its `at_unix_us`.
  void Tell(const std::string& job, wire::native::JobEvent event);
  // What a former life of the server told: for who asks later.
  void Restore(const std::string& job, wire::native::JobEvent event);
  // Of a job, for a later life of the server: `kept_events_max`, `kept_event_bytes_max`.
  std::vector<wire::native::JobEvent> Kept(const std::string& job) const {
    return log_.Newest(job, kKeptEventsMax, kKeptEventBytesMax);
  }

  // What the server itself does.
  void Tell(wire::native::EventKind kind, std::string text,
            wire::native::EventSeverity severity = wire::native::EventSeverity::kInfo);
  // A job came or goes: for who follows the job, and for who follows the server.
  void TellOfJob(const std::string& job, wire::native::EventKind kind, const std::string& text);
  void TellOfJob(const std::string& job, const wire::native::JobEvent& event);

  // Answered at once, or with the next event. RESOURCE_EXHAUSTED (limit_exceeded) over
  // `kWatchersMax`.
  void Watch(const wire::native::WatchEvents& request, link::Responder responder);
  // Answered at once, whatever it says of waiting.
  wire::native::WatchEventsReply Read(const wire::native::WatchEvents& request) const;

  // The job is gone: who follows it is told `why`, and its events are forgotten.
  void JobDeleted(const std::string& job, const absl::Status& why);

 private:
  struct Watcher {
    wire::native::WatchEvents request;
    link::Responder responder;
  };

  void Note(const std::string& job, wire::native::JobEvent event);

  observe::EventLog log_;
  runtime::MemoryShare share_;
  std::list<Watcher> watchers_;  // oldest first
};

}  // namespace lockstep::server
