#include "lockstep/server/job_host.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "lockstep/coord/attempt.h"
#include "lockstep/observe/event_log.h"
#include "lockstep/runtime/dial.h"
#include "lockstep/server/entries.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

// As holders of memory are called.
std::string OwnerOf(const std::string& job) { return absl::StrCat("job '", job, "'"); }

net::StockDoorOptions WithJob(net::StockDoorOptions door, const coord::CoordinatorOptions& job,
                              runtime::MemoryAccount& memory) {
  door.roles = job.roles;
  door.memory = &memory;
  door.owner = OwnerOf(job.job);
  return door;
}

// The listening sockets, the doors and their tables, before anybody comes.
constexpr size_t kJobBytes = size_t{48} << 10;
// A record of a key while a snapshot is written.
constexpr size_t kSnapshotBytes = 192;

// The call of an event that only says that somebody lives; none: it says more.
CallId SignOfLife(const coord::Event& event) {
  if (const auto* beat = std::get_if<coord::Heartbeat>(&event)) return beat->caller.call;
  if (const auto* step = std::get_if<coord::ReportProgress>(&event)) return step->caller.call;
  return {};
}

// What has timed out, when an error says so: "barrier 'x' timed out".
std::string TimedOut(const coord::Error& error) {
  switch (error.reason) {
    case coord::Reason::kBarrierTimedOut:
      return error.barrier ? absl::StrCat("barrier '", error.barrier->id, "' timed out")
                           : "a barrier timed out";
    case coord::Reason::kAgreementTimedOut:
      return "an agreement timed out";
    case coord::Reason::kRegistrationFailed:
      return "the members did not all come in time";
    default:
      return "";
  }
}

}  // namespace

JobHost::JobHost(runtime::Loop& loop, coord::CoordinatorOptions coordinator, CommitQueue& commits,
                 NativeDoor& native, EventFeed& feed, Counters& counters,
                 runtime::MemoryAccount& memory, const StoreHostOptions& stores,
                 net::StockDoorOptions door, size_t journal_queue_bytes_max)
    : name_(coordinator.job),
      coordinator_(std::move(coordinator)),
      commits_(commits),
      native_(native),
      feed_(feed),
      counters_(counters),
      door_(
          loop, WithJob(std::move(door), coordinator_.options(), memory),
          [this](coord::Event event) { Handle(std::move(event)); },
          [this] { return coordinator_.service_incarnation(); },
          [this](std::string text) { spdlog::warn("job '{}': {}", name_, text); }),
      stores_(loop, stores, commits, name_, coordinator_.options().size,
              {.notice = [this](std::string text) { Tell(coord::Notice{.text = std::move(text)}); },
               .given_up =
                   [this](std::string text, std::optional<int32_t> rank) {
                     AskForStacks(text,
                                  rank ? std::vector<int32_t>{*rank} : std::vector<int32_t>());
                     Tell(coord::Notice{.severity = coord::Severity::kWarning,
                                        .text = std::move(text),
                                        .about = {coord::NoticeKind::kBarrierFailed}});
                   },
               .foreign =
                   [this](std::string text) {
                     spdlog::warn("job '{}', torch's store: {}", name_, text);
                   }},
              &memory),
      memory_(memory),
      key_share_(&memory, OwnerOf(name_), "keys and waits for keys"),
      share_(&memory, OwnerOf(name_), "members, sessions and barriers"),
      delayed_(
          commits, journal_queue_bytes_max,
          [this](coord::Event event) {
            coord::NoRoom no_room = RoomFor(event);
            Take(std::move(event), std::move(no_room));
          },
          std::weak_ptr(alive_)),
      long_answers_(
          loop,
          {.kind = [this](CallId call) { return native_.Asked(call); },
           .member = [this](Time now,
                            MemberIndex member) { return coordinator_.WatchedViewOf(now, member); },
           .answer = [this](
                         CallId call,
                         const LongAnswers::Bytes& bytes) { native_.AnswerEncoded(call, bytes); }}),
      loop_(loop),
      timer_(loop),
      last_used_(runtime::MonotonicNow()) {}

absl::Status JobHost::Listen(const runtime::Address& at) { return door_.Listen(at); }

absl::Status JobHost::Apply(const coord::TimedRecord& record) {
  return coordinator_.Apply(record.at, record.record);
}

wire::store::Job JobHost::saved() const {
  const coord::CoordinatorOptions& is = options();
  return {.name = name_,
          .size = is.size,
          .roles = is.roles,
          .recoverable = is.recoverable,
          .temporary = temporary_,
          .host = door_.address().address().to_string(),
          .port = door_.address().port(),
          .incarnation_seed = is.incarnation_seed};
}

void JobHost::NoteStacks(const coord::Event& event) {
  if (std::holds_alternative<coord::ProcessStarted>(event)) stack_looks_.ProcessStarted();
  const auto* set = std::get_if<coord::SetKey>(&event);
  if (set == nullptr || set->key != wire::native::kStackQuestionKey) return;
  const auto asked = wire::native::DecodeQuestion(set->value);
  if (!asked.ok() || asked->because.empty()) return;
  stack_looks_.Asked(
      {.id = asked->id, .because = asked->because, .at = runtime::MonotonicNow(), .awaited = {}});
}

void JobHost::Handle(coord::Event event) {
  NoteStacks(event);
  stores_.Note(event);
  counters_.Count(event);
  if (keeps_ && commits_.keeps() && delayed_.Concerns(event)) {
    if (coord::ErrorPtr refusal = delayed_.Delay(event)) {
      Take(std::move(event), {.for_new = refusal, .for_small = nullptr});
    }
    return;
  }
  coord::NoRoom no_room = RoomFor(event);
  Take(std::move(event), std::move(no_room));
}

coord::NoRoom JobHost::RoomFor(const coord::Event& event) {
  // The value as it came, as it is kept, and as an entry of the journal.
  const size_t copies = commits_.keeps() ? 3 : 2;
  const size_t bytes = copies * GrowthOf(event);
  if (memory_.HasRoom(bytes) || !MayGrow(event)) return {};
  const coord::ErrorPtr why =
      coord::MakeError(absl::StatusCode::kResourceExhausted, coord::Reason::kMemoryMax,
                       absl::StrCat(memory_.Refusal(bytes), "; nothing was changed"));
  return {.for_new = why, .for_small = memory_.HasReserve() ? nullptr : why};
}

void JobHost::CountMemory() {
  const coord::CoordinatorMemory memory = coordinator_.Memory();
  const size_t snapshot = keeps_ && commits_.keeps() ? memory.key_count * kSnapshotBytes : 0;
  key_share_.Set(memory.keys + snapshot);
  share_.Set(kJobBytes + memory.others + delayed_.bytes() + long_answers_.bytes());
}

void JobHost::AnswerAlive(coord::Effects& effects, CallId call) {
  const auto own = std::find_if(
      effects.replies.begin(), effects.replies.end(),
      [call](const coord::Reply& reply) { return reply.call == call && !reply.error; });
  if (own == effects.replies.end()) return;
  coord::Effects alone;
  alone.replies.push_back(std::move(*own));
  effects.replies.erase(own);
  CarryOut(alone, {});
}

void JobHost::TellOfLoss(const coord::record::MemberChanged& changed) const {
  if (!keeps_ || on_member_lost_ == nullptr || changed.state != coord::MemberState::kError) return;
  if (changed.host.empty() || changed.pid <= 0 || changed.error == nullptr) return;
  // Those who only follow it in its error live.
  if (changed.error->origin != changed.member || !coord::IsLoss(changed.error->reason)) return;
  on_member_lost_(changed.host, changed.pid);
}

void JobHost::Take(coord::Event event, coord::NoRoom no_room) {
  const CallId alive = SignOfLife(event);
  coord::Effects effects = coordinator_.Handle(runtime::MonotonicNow(), std::move(event), no_room);
  ArmTimer();
  CountMemory();
  for (const coord::Record& record : effects.records) {
    const auto* changed = std::get_if<coord::record::PreemptionChanged>(&record);
    if (changed != nullptr) counters_.Count(*changed->state);
    const auto* member = std::get_if<coord::record::MemberChanged>(&record);
    if (member != nullptr) TellOfLoss(*member);
  }
  Events events;
  for (const coord::Notice& notice : effects.notices) {
    events.push_back(observe::EventOf(name_, notice));
  }
  effects.notices.clear();
  if (alive != CallId() && effects.records.empty()) AnswerAlive(effects, alive);
  Settle(std::move(effects), std::move(events));
}

void JobHost::Tell(const coord::Notice& notice) { Settle({}, {observe::EventOf(name_, notice)}); }

void JobHost::TellServed(const std::string& text) {
  Settle({}, {{.kind = restored_ ? wire::native::EventKind::kNotice
                                 : wire::native::EventKind::kJobCreated,
               .severity = wire::native::EventSeverity::kInfo,
               .text = text}});
}

void JobHost::Settle(coord::Effects effects, Events events) {
  const absl::Time now = absl::Now();
  for (wire::native::JobEvent& event : events) event.at_unix_us = absl::ToUnixMicros(now);
  const bool keeps = keeps_ && commits_.keeps();
  if (!keeps || (effects.records.empty() && events.empty())) {
    if (commits_.idle() && untold_.empty()) return CarryOut(effects, events);
    if (effects.replies.empty() && events.empty()) return;
    untold_.insert(untold_.end(), events.begin(), events.end());
    return commits_.Follow(Later(std::move(effects), std::move(events)));
  }
  std::vector<std::string> entries =
      EntriesOf(absl::MakeConstSpan(effects.records), [&](auto records, std::string& out) {
        return wire::store::EncodeRecords(name_, now, records, out);
      });
  effects.records.clear();
  wire::store::AppendEvents(events, entries.back());
  untold_.insert(untold_.end(), events.begin(), events.end());
  commits_.Commit(std::move(entries), Later(std::move(effects), std::move(events)));
}

CommitQueue::Release JobHost::Later(coord::Effects effects, Events events) {
  return [this, alive = std::weak_ptr(alive_), effects = std::move(effects),
          events = std::move(events)](bool durable) mutable {
    if (alive.expired()) return;
    untold_.erase(untold_.begin(), untold_.begin() + static_cast<ptrdiff_t>(events.size()));
    durable ? CarryOut(effects, events) : Refuse(effects);
  };
}

std::vector<wire::native::JobEvent> JobHost::KeptEvents() const {
  std::vector<wire::native::JobEvent> events = feed_.Kept(name_);
  events.insert(events.end(), untold_.begin(), untold_.end());
  return events;
}

void JobHost::CarryOut(coord::Effects& effects, const Events& events) {
  long_answers_.Take(effects.replies);
  door_.Answer(effects.replies);
  native_.Answer(effects.replies);
  const coord::Error* timed_out = nullptr;
  for (const coord::Reply& reply : effects.replies) {
    if (!reply.error) continue;
    counters_.Count(*reply.error);
    if (timed_out == nullptr && !TimedOut(*reply.error).empty()) timed_out = reply.error.get();
  }
  if (timed_out) AskForStacks(TimedOut(*timed_out), MembersNamed(timed_out->missing));
  for (const wire::native::JobEvent& event : events) {
    const bool for_all = event.kind == wire::native::EventKind::kJobCreated;
    for_all ? feed_.TellOfJob(name_, event) : feed_.Tell(name_, event);
  }
}

// Instead of answers that may not be true after the next start.
void JobHost::Refuse(const coord::Effects& effects) {
  static const coord::ErrorPtr* const kWhy = new coord::ErrorPtr(coord::MakeError(
      {.code = absl::StatusCode::kUnavailable,
       .reason = coord::Reason::kServiceStopped,
       .message = "the server cannot write its state and ends: nobody knows whether this took "
                  "effect; ask again when it is back",
       .from_service = false}));
  std::vector<coord::Reply> replies;
  for (const coord::Reply& reply : effects.replies) replies.push_back({reply.call, *kWhy, {}});
  door_.Answer(replies);
  native_.Answer(replies);
}

void JobHost::ArmTimer() {
  const Time next = coordinator_.NextDeadline();
  // A timer that is armed for earlier is left: it comes for nothing once, and that is cheaper than
  // arming anew with each heartbeat, which moves the deadline a little.
  if (next >= armed_for_) return;
  armed_for_ = next;
  timer_.Arm(next, [this] {
    armed_for_ = Time::Infinite();
    Handle(coord::DeadlineReached{});
  });
}

// As errors list them: "task/2,task/3".
std::vector<int32_t> JobHost::MembersNamed(const std::string& names) const {
  if (names.empty()) return {};
  const std::set<std::string> named = absl::StrSplit(names, ',');
  std::vector<int32_t> members;
  for (int32_t i = 0; i < size(); ++i) {
    if (named.contains(coordinator_.NameOf(MemberIndex(i)))) members.push_back(i);
  }
  return members;
}

void JobHost::AskForStacks(std::string because, std::vector<int32_t> awaited) {
  const Time now = runtime::MonotonicNow();
  if (!stack_looks_.Wants(now)) return;
  if (!coordinator_.AnyProcessRuns()) return;
  const std::string id = absl::StrCat("timeout-", absl::ToUnixMicros(absl::Now()));
  coord::SetKey question = {
      .caller = {.service = coordinator_.service_incarnation()},
      .key = wire::native::kStackQuestionKey,
      .value = wire::native::EncodeQuestion({.id = id, .because = because, .say = true}),
      .overwrite = true,
      .lifetime = {.ttl = wire::native::kStackQuestionOfTimeoutLives}};
  stack_looks_.Asks(
      {.id = id, .because = std::move(because), .at = now, .awaited = std::move(awaited)});
  // From the loop: we are in the middle of what another event has brought about.
  loop_.Post([this, alive = std::weak_ptr(alive_), question = std::move(question)] {
    if (!alive.expired() && keeps_) Handle(question);
  });
}

std::optional<wire::native::StacksTaken> JobHost::LastStacks(Time now) const {
  const coord::StackLook* const last = stack_looks_.Last(now);
  if (last == nullptr) return std::nullopt;
  return wire::native::StacksTaken{.id = last->id,
                                   .because = last->because,
                                   .ago_us = absl::ToInt64Microseconds(now - last->at),
                                   .awaited = last->awaited};
}

coord::MemberView JobHost::MemberAt(Time now, MemberIndex member) {
  if (now - hosts_heard_at_ > kHostsHeardKept) hosts_heard_.reset();
  if (!hosts_heard_) hosts_heard_at_ = now;
  return coordinator_.ViewOf(now, member, hosts_heard_);
}

bool JobHost::CountRendezvous(RendezvousTotalsOfKeys& keys, std::string& after) const {
  constexpr size_t kKeysPerStep = 64;
  const std::string from = after;
  return coordinator_.ForEachKeyBelow(
      {kRendezvousKeys.data(), kRendezvousKeys.size()}, from, kKeysPerStep,
      [&](absl::string_view key, const coord::StoredKey& stored) {
        keys.Add({key.data(), key.size()}, stored.value, stored.set_at);
        after.assign(key.data(), key.size());
      });
}

size_t JobHost::CountConnected() const { return coordinator_.CountConnected(); }

std::string JobHost::grpc_address() const { return runtime::ToString(door_.address()); }

void JobHost::Stop() {
  door_.StopAccepting();
  stores_.Stop();
  keeps_ = false;
  Handle(coord::Stop{});
  long_answers_.Finish();
  delayed_.TakeUpAll();
}

void JobHost::Shutdown() { door_.Shutdown(); }

}  // namespace lockstep::server
