#include "lockstep/server/event_feed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/server/log.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {

using wire::native::EventKind;
using wire::native::EventSeverity;
using wire::native::JobEvent;
using wire::native::WatchEvents;
using wire::native::WatchEventsReply;

// What a later life of the server is given of a job is remembered now, and is one answer.
static_assert(EventFeed::kKeptEventBytesMax <= observe::EventLog::kRingBytesMax);
static_assert(EventFeed::kKeptEventsMax <= observe::EventLog::kEventsAnsweredMax);

void EventFeed::Tell(const std::string& job, const coord::LogEntry& entry) {
  Tell(job, observe::EventOf(job, entry));
}

void EventFeed::Tell(const std::string& job, JobEvent event) {
  LogEvent(job, event);
  Note(job, std::move(event));
}

void EventFeed::Restore(const std::string& job, JobEvent event) {
  const absl::Duration ago = absl::Now() - absl::FromUnixMicros(event.at_unix_us);
  log_.Note(runtime::MonotonicNow() - std::max(absl::ZeroDuration(), ago), job, std::move(event));
  share_.Set(log_.memory());
}

void EventFeed::Tell(EventKind kind, std::string text, EventSeverity severity) {
  const JobEvent event = {.kind = kind, .severity = severity, .text = std::move(text)};
  LogEvent("", event);
  Note("", event);
}

void EventFeed::TellOfJob(const std::string& job, EventKind kind, const std::string& text) {
  TellOfJob(job, {.kind = kind, .severity = EventSeverity::kInfo, .text = text});
}

void EventFeed::TellOfJob(const std::string& job, const JobEvent& event) {
  LogEvent(job, event);
  Note(job, event);
  Note("", event);
}

void EventFeed::Note(const std::string& job, JobEvent event) {
  if (event.at_unix_us == 0) event.at_unix_us = absl::ToUnixMicros(absl::Now());
  log_.Note(runtime::MonotonicNow(), job, std::move(event));
  share_.Set(log_.memory());
  for (auto next = watchers_.begin(); next != watchers_.end();) {
    const auto watcher = next++;
    if (watcher->request.job != job) continue;
    watcher->responder.Answer(wire::native::Encode(Read(watcher->request)));
    watchers_.erase(watcher);
  }
}

WatchEventsReply EventFeed::Read(const WatchEvents& request) const {
  return log_.After(runtime::MonotonicNow(), request);
}

void EventFeed::Watch(const WatchEvents& request, link::Responder responder) {
  const WatchEventsReply reply = Read(request);
  // Who counts in another log is told of this one at once.
  if (!reply.events.empty() || !request.wait || request.log != reply.log) {
    return responder.Answer(wire::native::Encode(reply));
  }
  LOCKSTEP_DCHECK(watchers_.size() <= kWatchersMax);
  if (watchers_.size() == kWatchersMax) {
    // To answer the oldest instead would have it ask again, and so put out the next one.
    return responder.Fail(wire::native::WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            kWatchersMax, " requests are already waiting for events (event_watchers_max); retry ",
            "without waiting, or stop some of `lockstep events --follow`")),
        "limit_exceeded"));
  }
  watchers_.push_back({request, std::move(responder)});
}

void EventFeed::JobDeleted(const std::string& job, const absl::Status& why) {
  for (auto next = watchers_.begin(); next != watchers_.end();) {
    const auto watcher = next++;
    if (watcher->request.job != job) continue;
    watcher->responder.Fail(why);
    watchers_.erase(watcher);
  }
  log_.Forget(job);
  share_.Set(log_.memory());
}

}  // namespace lockstep::server
