// The other members' side of the hub: what is carried out for the machine, streams, long values,
// and what becomes of the job.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/client/engine.h"
#include "lockstep/client/rendezvous_hub.h"
#include "lockstep/client/threads.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/rendezvous/transport/copy.h"
#include "lockstep/rendezvous/transport/spin.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

using rendezvous::Effects;
using rendezvous::ErrorPtr;
using rendezvous::LeaseId;
using rendezvous::PeerMessage;
using rendezvous::Reason;
using rendezvous::Value;
using runtime::MonotonicNow;
namespace native = wire::native;

}  // namespace

// --- Effects ---

void RendezvousHub::Carry(Effects& effects) {
  for (auto& [to, message] : effects.messages) Route(to, std::move(message));
  for (const rendezvous::Fetch& fetch : effects.fetches) {
    bulk_->Fetch(fetch, calls_->WhereBytesGo(fetch.op));
  }
  for (const OpId op : effects.stop_fetches) bulk_->Stop(op);
  calls_->Take(effects);
}

void RendezvousHub::Route(MemberIndex to, PeerMessage message) {
  if (closed_ || !peers_.Send(to, std::move(message))) return;
  loop_.Post([self = shared_from_this(), to] {
    if (self->connector_) self->connector_->Connect(to);
  });
}

// --- Long values ---

RendezvousBulk::Events RendezvousHub::BulkEvents() {
  const auto weak = weak_from_this();
  return {.find_card =
              [weak](MemberIndex member, transport::BulkFetcher::FoundCard found) {
                if (const auto self = weak.lock()) self->cards_.Find(member, std::move(found));
              },
          .lent =
              [weak](MemberIndex member, LeaseId lease) {
                const auto self = weak.lock();
                return self ? self->Lent(member, lease) : std::nullopt;
              },
          .done =
              [weak](OpId op, rendezvous::MemoryPtr memory, const ErrorPtr& error) {
                if (const auto self = weak.lock()) self->Fetched(op, std::move(memory), error);
              },
          .reads_memory =
              [weak](MemberIndex member, std::string why_not) {
                if (const auto self = weak.lock()) self->ReadsMemory(member, std::move(why_not));
              }};
}

std::optional<Value> RendezvousHub::Lent(MemberIndex member, LeaseId lease) {
  const MutexLock lock(mutex_);
  const Value* value = machine_.Lent(member, lease);
  if (value == nullptr) return std::nullopt;
  return *value;
}

void RendezvousHub::ReadsMemory(MemberIndex member, std::string why_not) {
  const MutexLock lock(mutex_);
  peers_.SetReadsMemory(member, std::move(why_not));
}

void RendezvousHub::Fetched(OpId op, rendezvous::MemoryPtr memory, const ErrorPtr& error) {
  Do([&](Effects& effects) {
    if (!error) calls_->SetFetched(op, std::move(memory));
    machine_.Fetched(MonotonicNow(), op, error, effects);
  });
}

// --- The loop ---

transport::Connector::Events RendezvousHub::ConnectorEvents() {
  const auto weak = weak_from_this();
  return {.find_card =
              [weak](MemberIndex other, transport::Connector::FoundCard found) {
                if (const auto hub = weak.lock()) hub->cards_.Find(other, std::move(found));
              },
          .stream_events =
              [weak](MemberIndex other, uint64_t incarnation) {
                const auto hub = weak.lock();
                return hub ? hub->EventsOf(other, incarnation) : transport::Stream::Events();
              },
          .connected =
              [weak](MemberIndex other, uint64_t incarnation,
                     std::shared_ptr<transport::Stream> stream, std::string why_not_shared) {
                const auto hub = weak.lock();
                if (hub == nullptr) return;
                hub->Connected(other, incarnation, std::move(stream), std::move(why_not_shared));
              },
          .unreachable =
              [weak](MemberIndex other, const absl::Status& why) {
                const auto hub = weak.lock();
                if (hub == nullptr) return;
                const MutexLock lock(hub->mutex_);
                hub->LosePeer(
                    other, rendezvous::MakeError(absl::StatusCode::kUnavailable,
                                                 Reason::kUnreachable, std::string(why.message())));
              },
          .post =
              [weak](std::function<void()> function) {
                if (const auto hub = weak.lock()) hub->loop_.Post(std::move(function));
              }};
}

// What comes after it was replaced, or lost, is nothing to anybody.
transport::Stream::Events RendezvousHub::EventsOf(MemberIndex member, uint64_t incarnation) {
  const auto heeds = [weak = weak_from_this(), member, incarnation] {
    auto self = weak.lock();
    if (self != nullptr && !self->peers_.Heeds(member, incarnation)) self = nullptr;
    return self;
  };
  return {.message =
              [heeds, member](std::string& bytes) {
                if (const auto self = heeds()) self->TakeMessage(member, bytes);
              },
          .lost =
              [heeds, member](ErrorPtr why) {
                if (const auto self = heeds()) self->LosePeer(member, std::move(why));
              }};
}

void RendezvousHub::TakeMessage(MemberIndex from, const std::string& bytes) {
  auto message = peers_.Decode(from, bytes);
  if (!message.ok()) {
    return LosePeer(from, rendezvous::MakeError(absl::StatusCode::kInternal, Reason::kProtocol,
                                                std::string(message.status().message())));
  }
  Effects effects;
  machine_.Take(MonotonicNow(), from, *std::move(message), effects);
  Carry(effects);
}

void RendezvousHub::LosePeer(MemberIndex member, ErrorPtr why) {
  if (!peers_.Lose(member)) return;
  // Who tells of it may know no more than its process.
  const std::string& name = peers_.NameOf(member);
  if (!absl::StrContains(why->message, name)) {
    rendezvous::Error named = *why;
    named.message = absl::StrCat(name, ": ", why->message);
    why = std::make_shared<const rendezvous::Error>(std::move(named));
  }
  Effects effects;
  machine_.PeerLost(MonotonicNow(), member, std::move(why), effects);
  // It may live, and look at what was lent to it.
  std::vector<Value> lent;
  auto stream = peers_.StreamOf(member);
  if (stream != nullptr && stream->shares_memory()) {
    std::move(effects.dropped.begin(), effects.dropped.end(), std::back_inserter(lent));
    effects.dropped.clear();
  }
  Carry(effects);
  if (stream == nullptr) return;
  peers_.TakeStream(member);
  loop_.Post([self = shared_from_this(), stream = std::move(stream),
              lent = std::move(lent)]() mutable { self->Part(stream, std::move(lent)); });
}

void RendezvousHub::ComesBack(MemberIndex member, uint64_t incarnation) {
  const uint64_t known = peers_.IncarnationOf(member);
  if (known >= incarnation) return;
  if (known == 0) return peers_.Meet(member, incarnation);
  LosePeer(member, rendezvous::MakeError(absl::StatusCode::kUnavailable, Reason::kPeerLost,
                                         absl::StrCat(peers_.NameOf(member), " has begun anew")));
  peers_.Begin(member, incarnation);
  machine_.PeerBack(member);
  bulk_->Forget(member);
  loop_.Post([self = shared_from_this(), member, incarnation] {
    if (self->connector_) self->connector_->ComesBack(member, incarnation);
  });
}

void RendezvousHub::Part(const std::shared_ptr<transport::Stream>& stream,
                         std::vector<Value> lent) {
  streams_.Remove(stream);
  std::function<bool()> done;
  {
    const MutexLock lock(mutex_);
    stream->Close();
    done = stream->DoneWithOurs();
  }
  departed_.Add(weak_from_this(), std::move(done), std::move(lent));
}

void RendezvousHub::Connected(MemberIndex member, uint64_t incarnation,
                              std::shared_ptr<transport::Stream> stream,
                              std::string why_not_shared) {
  streams_.Add(stream);
  const MutexLock lock(mutex_);
  ComesBack(member, incarnation);
  if (peers_.Connect(member, incarnation, stream, std::move(why_not_shared))) return;
  loop_.Post([self = shared_from_this(), stream] { self->Part(stream, {}); });
}

bool RendezvousHub::Poll() {
  const bool any = streams_.Poll();
  streams_.TellOfRemovedSegments();
  if (!calls_->has_after()) return any;
  After after;
  {
    const MutexLock lock(mutex_);
    after = calls_->TakeAfter();
  }
  calls_->Settle(std::move(after), /*on_loop=*/true);
  streams_.TellOfRemovedSegments();
  ArmTimer();
  return true;
}

bool RendezvousHub::PrepareToSleep() { return streams_.PrepareToSleep() && !calls_->has_after(); }

void RendezvousHub::Awake() { streams_.Awake(); }

void RendezvousHub::ArmTimer() {
  Time due;
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    due = machine_.NextDeadline();
  }
  timer_.Arm(due, weak_from_this(), [this] {
    Do([&](Effects& effects) { machine_.ReachDeadline(MonotonicNow(), effects); },
       /*on_loop=*/true);
  });
}

// --- The job ---

void RendezvousHub::WatchJob() {
  watch_->NextAsync({}, [weak = weak_from_this()](absl::StatusOr<JobChange> change) {
    if (const auto self = weak.lock()) self->TakeJobChange(std::move(change));
  });
}

void RendezvousHub::TakeJobChange(absl::StatusOr<JobChange> change) {
  if (!here()) return;
  if (!change.ok()) {
    Do([&](Effects& effects) {
      if (closed_ || ending_.error) return;
      CloseMachine(
          {.error = rendezvous::MakeError(change.status().code(), Reason::kRendezvousClosed,
                                          std::string(change.status().message())),
           .status = change.status()},
          effects);
    });
    return;
  }
  Do([&](Effects&) {
    for (const MemberInfo& each : change->members) {
      const MemberIndex member(each.member);
      if (member == self_ || closed_) continue;
      const uint64_t incarnation = IncarnationOf(each.name);
      ComesBack(member, incarnation);
      // We may have heard from the newer one before.
      if (incarnation < peers_.IncarnationOf(member)) continue;
      const bool gone = each.condition == "lost" || each.condition == "failed";
      // Who left has sent what it had to send: that is received first.
      const auto stream = peers_.StreamOf(member);
      const bool left = each.condition == "left" && (stream == nullptr || !stream->connected());
      if (!gone && !left) continue;
      LosePeer(member, rendezvous::MakeError(
                           absl::StatusCode::kUnavailable, Reason::kPeerLost,
                           left ? absl::StrCat(each.name, " has left the job") : each.why));
    }
  });
  WatchJob();
}

}  // namespace lockstep::client
