#include "lockstep/sim/native_server.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/sim/event_fields.h"
#include "lockstep/sim/native_simulation.h"

namespace lockstep::sim {

NativeServer::NativeServer(Schedule& schedule, Random random, const NativeScenario& scenario,
                           const MakeDurableMachine& make, Trace& trace, bool speaks_too_early)
    : schedule_(schedule),
      random_(random),
      scenario_(scenario),
      make_(make),
      trace_(trace),
      speaks_too_early_(speaks_too_early),
      machine_(make(scenario.coordinator)) {}

absl::Duration NativeServer::Delay() {
  return random_.Between(scenario_.delay_min, scenario_.delay_max);
}

NativeServer::LinkId NativeServer::Dial(LinkEvents events) {
  if (!up()) return 0;
  links_[++last_link_].events = std::move(events);
  return last_link_;
}

void NativeServer::Send(LinkId link, SessionId session, uint64_t number, coord::Event event) {
  auto found = links_.find(link);
  if (found == links_.end() || !found->second.client_end) return;
  Time& last = found->second.last_up;
  last = std::max(last, schedule_.now() + Delay());
  schedule_.At(last, [this, link, session, number, event = std::move(event)]() mutable {
    Arrived(link, session, number, std::move(event));
  });
}

void NativeServer::Arrived(LinkId link, SessionId session, uint64_t number, coord::Event event) {
  auto found = links_.find(link);
  if (found == links_.end() || !found->second.server_end || !up()) return;
  if (std::holds_alternative<coord::OpenSession>(event)) {
    // A new link of a session whose old one is not known to be broken yet: that one is.
    if (auto old = link_of_.find(session); old != link_of_.end() && old->second != link) {
      const LinkId superseded = old->second;
      DropServerEnd(superseded, false, false);
      // And is closed: its question may have overtaken this one's, which then is the older.
      Break(superseded, false);
    }
    found->second.session = session;
    link_of_[session] = link;
  }
  if (RequestCall(event)) {
    const CallId call(++last_call_);
    SetRequestCall(event, call);
    calls_[call] = {link, number};
    if (coord::Caller* caller = CallerOf(event)) {
      caller->session = session;
      caller->number = number;
    }
  }
  Handle(std::move(event));
}

void NativeServer::Handle(coord::Event event) {
  if (!failure_.empty() || !up()) return;
  ++steps_;
  trace_.Event(steps_, schedule_.now(), event);
  coord::Effects effects = machine_->Handle(schedule_.now(), std::move(event));
  trace_.Effects(effects);
  Batch batch;
  for (coord::Record& record : effects.records) {
    batch.records.push_back({schedule_.now(), std::move(record)});
  }
  batch.replies = std::move(effects.replies);
  if (speaks_too_early_) {
    for (const coord::Reply& reply : std::exchange(batch.replies, {})) Speak(reply);
  }
  if (!batch.records.empty() || !batch.replies.empty()) waiting_.push_back(std::move(batch));
  // What waits for nothing is said at once.
  while (!waiting_.empty() && waiting_.front().records.empty()) BecomeDurable(1);
  SyncLater();
  Arm();
}

// The journal's thread takes all that is there, and is done a while later.
void NativeServer::SyncLater() {
  if (syncing_ || waiting_.empty()) return;
  syncing_ = true;
  schedule_.After(random_.Between(absl::Microseconds(50), scenario_.sync_max),
                  [this, group = waiting_.size(), life = life_] {
                    if (life != life_) return;
                    syncing_ = false;
                    BecomeDurable(group);
                    while (!waiting_.empty() && waiting_.front().records.empty()) BecomeDurable(1);
                    SyncLater();
                  });
}

void NativeServer::BecomeDurable(size_t batches) {
  for (size_t i = 0; i < batches; ++i) {
    Batch batch = std::move(waiting_.front());
    waiting_.pop_front();
    for (coord::TimedRecord& record : batch.records) durable_.push_back(std::move(record));
    for (const coord::Reply& reply : batch.replies) Speak(reply);
  }
}

void NativeServer::Speak(const coord::Reply& reply) {
  auto found = calls_.find(reply.call);
  if (found == calls_.end()) return;
  const Call call = found->second;
  calls_.erase(found);
  Link& link = links_.at(call.link);
  if (!link.server_end) return;
  link.last_down = std::max(link.last_down, schedule_.now() + Delay());
  schedule_.At(link.last_down, [this, call, reply] {
    auto target = links_.find(call.link);
    if (target == links_.end() || !target->second.client_end) return;
    target->second.events.answered(call.number, reply);
  });
}

void NativeServer::Break(LinkId link, bool silent) {
  if (!links_.contains(link)) return;
  const absl::Duration silence = silent ? absl::Seconds(5) : absl::ZeroDuration();
  schedule_.After(Delay() + silence, [this, link] {
    Link& end = links_.at(link);
    if (!std::exchange(end.client_end, false)) return;
    end.events.broke();
  });
  schedule_.After(random_.Between(absl::ZeroDuration(), 2 * scenario_.delay_max) + silence,
                  [this, link, silent] { DropServerEnd(link, true, silent); });
}

void NativeServer::DropServerEnd(LinkId link, bool tell_session, bool silent) {
  Link& end = links_.at(link);
  if (!std::exchange(end.server_end, false)) return;
  std::vector<CallId> open;
  for (const auto& [call, where] : calls_) {
    if (where.link == link) open.push_back(call);
  }
  std::sort(open.begin(), open.end());
  for (CallId call : open) {
    calls_.erase(call);
    Handle(coord::CallLeft{call});
  }
  auto bound = link_of_.find(end.session);
  if (bound == link_of_.end() || bound->second != link) return;
  link_of_.erase(bound);
  if (tell_session) Handle(coord::SessionBroke{end.session, silent});
}

void NativeServer::Crash() {
  if (!up()) return;
  ++crashes_;
  ++life_;
  // Of what was being written, any part may have reached the disk, in order.
  const auto kept = static_cast<size_t>(random_.Between(0, int64_t(waiting_.size())));
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (i >= kept) forgotten_ += int64_t(waiting_[i].records.size());
    if (i >= kept) continue;
    for (coord::TimedRecord& record : waiting_[i].records) durable_.push_back(std::move(record));
  }
  trace_.Note(schedule_.now(),
              absl::StrCat("the server dies with ", waiting_.size() - kept, " batches unwritten"));
  waiting_.clear();
  syncing_ = false;
  machine_.reset();
  calls_.clear();
  link_of_.clear();
  armed_ = Time::Infinite();
  for (auto& [id, link] : links_) {
    link.server_end = false;
    if (link.client_end) Break(id, false);
  }
  schedule_.After(random_.Between(absl::Milliseconds(1), scenario_.down_max),
                  [this] { Restart(); });
}

void NativeServer::Restart() {
  // Every now and then from a snapshot, and what came behind it.
  if (random_.Percent(40)) {
    std::unique_ptr<DurableMachine> writer = make_(scenario_.coordinator);
    const size_t half = durable_.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      if (absl::Status status = writer->Apply(durable_[i].at, durable_[i].record); !status.ok()) {
        failure_ = absl::StrCat("restore: ", std::string(status.message()));
        return;
      }
    }
    std::vector<coord::TimedRecord> shorter = writer->Snapshot();
    shorter.insert(shorter.end(), durable_.begin() + half, durable_.end());
    durable_ = std::move(shorter);
  }
  machine_ = make_(scenario_.coordinator);
  for (const coord::TimedRecord& timed : durable_) {
    if (absl::Status status = machine_->Apply(timed.at, timed.record); !status.ok()) {
      failure_ = absl::StrCat("restore: ", std::string(status.message()));
      return;
    }
  }
  trace_.Note(schedule_.now(),
              absl::StrCat("the server is back, with ", durable_.size(), " records"));
  Handle(coord::Restored{});
}

void NativeServer::Arm() {
  if (!up()) return;
  const Time deadline = machine_->NextDeadline();
  if (deadline >= armed_) return;
  armed_ = deadline;
  schedule_.At(std::max(deadline, schedule_.now()), [this, deadline, life = life_] {
    if (life != life_ || armed_ != deadline) return;
    armed_ = Time::Infinite();
    if (machine_->NextDeadline() <= schedule_.now()) {
      Handle(coord::DeadlineReached{});
    } else {
      Arm();
    }
  });
}

}  // namespace lockstep::sim
