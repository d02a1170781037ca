#include "lockstep/server/job_outlet.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/time/clock.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/attempt.h"
#include "lockstep/observe/event_log.h"
#include "lockstep/server/entries.h"
#include "lockstep/wire/store/entry.h"

namespace lockstep::server {

JobOutlet::JobOutlet(runtime::Loop& loop, std::string job, Ways ways, Listeners listeners)
    : job_(std::move(job)),
      ways_(ways),
      listeners_(std::move(listeners)),
      answers_(
          loop,
          [this](const std::vector<coord::Reply>& replies, SharedAnswers& shared) {
            Answer(replies, shared);
          },
          ways.native.fan_out()),
      long_answers_(
          loop, {.kind = [this](CallId call) { return ways_.native.Asked(call); },
                 .member = [this](Time now,
                                  MemberIndex member) { return listeners_.member(now, member); },
                 .answer =
                     [this](CallId call, const LongAnswers::Bytes& bytes) {
                       ways_.native.AnswerEncoded(call, bytes);
                     }}) {}

void JobOutlet::Settle(coord::Effects&& effects, CallId alive) {
  Observe(effects.records);
  Events events;
  for (const coord::LogEntry& entry : effects.log) {
    events.push_back(observe::EventOf(job_, entry));
  }
  effects.log.clear();
  if (alive != CallId() && effects.records.empty()) AnswerAlive(effects, alive);
  SettleWith(std::move(effects), std::move(events));
}

void JobOutlet::Observe(const std::vector<coord::Record>& records) {
  for (const coord::Record& record : records) {
    if (const auto* changed = std::get_if<coord::record::PreemptionChanged>(&record)) {
      ways_.counters.Count(*changed->state);
    }
    if (const auto* member = std::get_if<coord::record::MemberChanged>(&record)) {
      TellOfLoss(*member);
    }
    const auto* session = std::get_if<coord::record::SessionChanged>(&record);
    if (session != nullptr && !session->open) listeners_.session_ended(session->session);
  }
}

void JobOutlet::TellOfLoss(const coord::record::MemberChanged& changed) const {
  if (!keeps_ || on_member_lost_ == nullptr || changed.state != coord::MemberState::kError) return;
  if (changed.host.empty() || changed.pid <= 0 || changed.error == nullptr) return;
  // Those who only follow it in its error live.
  if (changed.error->origin != changed.member || !coord::IsLoss(changed.error->reason)) return;
  on_member_lost_(changed.host, changed.pid);
}

void JobOutlet::AnswerAlive(coord::Effects& effects, CallId call) {
  const auto own = std::find_if(
      effects.replies.begin(), effects.replies.end(),
      [call](const coord::Reply& reply) { return reply.call == call && !reply.error; });
  if (own == effects.replies.end()) return;
  coord::Effects alone;
  alone.replies.push_back(std::move(*own));
  effects.replies.erase(own);
  CarryOut(alone, {});
}

void JobOutlet::Tell(const coord::LogEntry& entry) {
  SettleWith({}, {observe::EventOf(job_, entry)});
}

void JobOutlet::TellServed(const std::string& text, bool again) {
  SettleWith(
      {}, {{.kind = again ? wire::native::EventKind::kNotice : wire::native::EventKind::kJobCreated,
            .severity = wire::native::EventSeverity::kInfo,
            .text = text}});
}

void JobOutlet::SettleWith(coord::Effects&& effects, Events&& events) {
  const absl::Time now = absl::Now();
  for (wire::native::JobEvent& event : events) event.at_unix_us = absl::ToUnixMicros(now);
  CommitQueue& commits = ways_.commits;
  if (!keeps() || (effects.records.empty() && events.empty())) {
    if (commits.idle() && untold_.empty()) return CarryOut(effects, events);
    if (effects.replies.empty() && events.empty()) return;
    // Nothing to write, but it may tell of what is being written.
    untold_.insert(untold_.end(), events.begin(), events.end());
    return commits.Follow(Later(std::move(effects), std::move(events)));
  }
  std::vector<std::string> entries =
      EntriesOf(absl::MakeConstSpan(effects.records), [&](auto records, std::string& out) {
        return wire::store::EncodeRecords(job_, now, records, out);
      });
  effects.records.clear();
  wire::store::AppendEvents(events, entries.back());
  untold_.insert(untold_.end(), events.begin(), events.end());
  commits.Commit(std::move(entries), Later(std::move(effects), std::move(events)));
}

CommitQueue::Release JobOutlet::Later(coord::Effects effects, Events events) {
  return [this, alive = std::weak_ptr(alive_), effects = std::move(effects),
          events = std::move(events)](bool durable) mutable {
    if (alive.expired()) return;
    LOCKSTEP_DCHECK(events.size() <= untold_.size());
    untold_.erase(untold_.begin(), untold_.begin() + static_cast<ptrdiff_t>(events.size()));
    durable ? CarryOut(effects, events) : Refuse(effects);
  };
}

std::vector<wire::native::JobEvent> JobOutlet::KeptEvents() const {
  std::vector<wire::native::JobEvent> events = ways_.feed.Kept(job_);
  events.insert(events.end(), untold_.begin(), untold_.end());
  return events;
}

void JobOutlet::CarryOut(coord::Effects& effects, const Events& events) {
  long_answers_.Take(effects.replies);
  listeners_.answered(effects.replies);
  answers_.Add(std::move(effects.replies));
  for (const wire::native::JobEvent& event : events) {
    const bool for_all = event.kind == wire::native::EventKind::kJobCreated;
    for_all ? ways_.feed.TellOfJob(job_, event) : ways_.feed.Tell(job_, event);
  }
}

void JobOutlet::Answer(const std::vector<coord::Reply>& replies, SharedAnswers& shared) {
  ways_.stock.Answer(replies);
  ways_.native.Answer(replies, shared);
  for (const coord::Reply& reply : replies) {
    if (reply.error) ways_.counters.Count(*reply.error);
  }
}

// Instead of answers that may not be true after the next start.
void JobOutlet::Refuse(const coord::Effects& effects) {
  static const coord::ErrorPtr* const kWhy = new coord::ErrorPtr(coord::MakeError(
      {.code = absl::StatusCode::kUnavailable,
       .reason = coord::Reason::kServiceStopped,
       .message = "the server cannot write its state and is shutting down: this request may or may "
                  "not have taken effect; retry when the server is back",
       .from_service = false}));
  std::vector<coord::Reply> replies;
  for (const coord::Reply& reply : effects.replies) replies.push_back({reply.call, *kWhy, {}});
  ways_.stock.Answer(replies);
  ways_.native.Answer(replies);
}

}  // namespace lockstep::server
