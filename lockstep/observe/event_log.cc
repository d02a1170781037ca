#include "lockstep/observe/event_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/limits.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::observe {
namespace {

using wire::native::EventKind;
using wire::native::EventSeverity;
using wire::native::JobEvent;
using wire::native::WatchEvents;
using wire::native::WatchEventsReply;

constexpr size_t kMemberBytesMax = 512;

// An answer of the longest events is a part of a ring, and fits into a message.
static_assert((kErrorTextBytesMax + kMemberBytesMax) * EventLog::kEventsAnsweredMax <
              EventLog::kRingBytesMax);
static_assert(EventLog::kRingBytesMax < kMessageBytesMax);

// Of all that may be kept: as much is forgotten at a time.
constexpr size_t kSlackPart = 64;

EventKind KindOf(coord::LogKind kind) {
  switch (kind) {
    case coord::LogKind::kOther:
      return EventKind::kNotice;
    case coord::LogKind::kAttemptBegan:
      return EventKind::kAttemptBegan;
    case coord::LogKind::kAttemptRuns:
      return EventKind::kAttemptRuns;
    case coord::LogKind::kAttemptEnded:
      return EventKind::kAttemptEnded;
    case coord::LogKind::kAttemptFailed:
      return EventKind::kAttemptFailed;
    case coord::LogKind::kMemberJoined:
      return EventKind::kMemberJoined;
    case coord::LogKind::kMemberLeft:
      return EventKind::kMemberLeft;
    case coord::LogKind::kMemberSuspect:
      return EventKind::kMemberSuspect;
    case coord::LogKind::kMemberRecovered:
      return EventKind::kMemberRecovered;
    case coord::LogKind::kMemberLost:
      return EventKind::kMemberLost;
    case coord::LogKind::kMemberFailed:
      return EventKind::kMemberFailed;
    case coord::LogKind::kBarrierFailed:
      return EventKind::kBarrierFailed;
    case coord::LogKind::kPreemptionNotice:
      return EventKind::kPreemptionNotice;
    case coord::LogKind::kPreemptionAgreed:
      return EventKind::kPreemptionAgreed;
    case coord::LogKind::kPreemptionSaved:
      return EventKind::kPreemptionSaved;
    case coord::LogKind::kPreemptionEnded:
      return EventKind::kPreemptionEnded;
    case coord::LogKind::kProcessStarted:
      return EventKind::kProcessStarted;
    case coord::LogKind::kProcessEnded:
      return EventKind::kProcessEnded;
  }
  return EventKind::kNotice;
}

EventSeverity SeverityOf(coord::Severity severity) {
  switch (severity) {
    case coord::Severity::kInfo:
      return EventSeverity::kInfo;
    case coord::Severity::kWarning:
      return EventSeverity::kWarning;
    case coord::Severity::kError:
      return EventSeverity::kError;
  }
  return EventSeverity::kUnspecified;
}

}  // namespace

JobEvent EventOf(const std::string& job, const coord::LogEntry& entry) {
  const std::string prefix = absl::StrCat("job '", job, "': ");
  const bool prefixed = absl::StartsWith(entry.text, prefix);
  return {.kind = KindOf(entry.about.kind),
          .severity = SeverityOf(entry.severity),
          .attempt = entry.attempt,
          .member = wire::native::ToUtf8(entry.member),
          .text = wire::native::ToUtf8(prefixed ? entry.text.substr(prefix.size()) : entry.text)};
}

void EventLog::Forget(const std::string& job) {
  const auto found = rings_.find(job);
  if (found == rings_.end()) return;
  memory_ -= found->second.bytes;
  rings_.erase(found);
}

void EventLog::Note(Time now, const std::string& job, JobEvent event) {
  event.sequence = ++last_;
  event.member = CleanText(event.member, kMemberBytesMax);
  event.text = CleanText(event.text, kErrorTextBytesMax);
  Ring& ring = rings_[job];
  ring.events.push_back({now, std::move(event)});
  const size_t size = SizeOf(ring.events.back());
  ring.bytes += size;
  memory_ += size;
  while (ring.events.size() > events_max_ || ring.bytes > kRingBytesMax) {
    ForgetOldest(ring);
  }
  if (bytes_max_ > 0 && memory_ > bytes_max_) ShrinkLargest();
}

void EventLog::ForgetOldest(Ring& ring) {
  const size_t bytes = SizeOf(ring.events.front());
  ring.bytes -= bytes;
  memory_ -= bytes;
  ring.events.pop_front();
  ++ring.forgotten;
}

void EventLog::ShrinkLargest() {
  const size_t goal = bytes_max_ - bytes_max_ / kSlackPart;
  while (memory_ > goal) {
    Ring* largest = nullptr;
    for (auto& [job, ring] : rings_) {
      if (largest == nullptr || ring.bytes > largest->bytes) largest = &ring;
    }
    // Its newest stays, whatever there is: it tells what became of the job.
    if (largest->events.size() <= 1) return;
    const size_t half = largest->bytes / 2;
    while (memory_ > goal && largest->bytes > half && largest->events.size() > 1) {
      ForgetOldest(*largest);
    }
  }
}

size_t EventLog::SizeOf(const Timed& timed) {
  return sizeof(Timed) + timed.event.text.capacity() + timed.event.member.capacity();
}

std::vector<JobEvent> EventLog::Newest(const std::string& job, size_t events_max,
                                       size_t bytes_max) const {
  const auto found = rings_.find(job);
  if (found == rings_.end()) return {};
  const std::deque<Timed>& events = found->second.events;
  auto first = events.end();
  for (size_t bytes = 0; first != events.begin(); --first) {
    const JobEvent& before = std::prev(first)->event;
    bytes += sizeof(JobEvent) + before.member.size() + before.text.size();
    if (bytes > bytes_max || static_cast<size_t>(events.end() - first) >= events_max) break;
  }
  std::vector<JobEvent> newest;
  for (; first != events.end(); ++first) newest.push_back(first->event);
  return newest;
}

WatchEventsReply EventLog::After(Time now, const WatchEvents& request) const {
  WatchEventsReply reply{.log = log_};
  const int64_t after = request.log == log_ ? request.after : 0;
  reply.next_after = after;
  const auto found = rings_.find(request.job);
  if (found == rings_.end()) return reply;
  const Ring& ring = found->second;
  auto next = std::upper_bound(
      ring.events.begin(), ring.events.end(), after,
      [](int64_t sequence, const Timed& timed) { return sequence < timed.event.sequence; });
  // Who has seen none of those that are left may have missed some; it is not known how many of the
  // forgotten ones it had seen, unless it begins.
  if (next == ring.events.begin() && after == 0) reply.forgotten = ring.forgotten;
  for (; next != ring.events.end() && reply.events.size() < kEventsAnsweredMax; ++next) {
    reply.events.push_back(next->event);
    reply.events.back().at_ago_us = std::max<int64_t>(0, absl::ToInt64Microseconds(now - next->at));
    reply.next_after = next->event.sequence;
  }
  return reply;
}

}  // namespace lockstep::observe
