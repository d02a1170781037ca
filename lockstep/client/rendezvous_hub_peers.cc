// The other members' side of the hub: what is carried out for the machine, streams, long values,
// and what becomes of the job.
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <variant>

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

// Bytes that came along with a message.
class OwnBytes final : public rendezvous::Memory {
 public:
  static rendezvous::MemoryPtr Copy(std::string_view bytes) {
    return std::make_shared<OwnBytes>(std::string(bytes));
  }
  explicit OwnBytes(std::string bytes)
      : OwnBytes(std::make_unique<std::string>(std::move(bytes))) {}

 private:
  explicit OwnBytes(std::unique_ptr<std::string> bytes)
      : Memory(reinterpret_cast<const std::byte*>(bytes->data()), bytes->size()),
        bytes_(std::move(bytes)) {}
  const std::unique_ptr<std::string> bytes_;
};

// Where a test may end this process: behind each kind of message, in the order of PeerMessage.
constexpr std::string_view kSentPoints[] = {
    "rendezvous/want_sent",    "rendezvous/unwant_sent", "rendezvous/offer_sent",
    "rendezvous/taken_sent",   "rendezvous/lease_ended", "rendezvous/credit_sent",
    "rendezvous/refusal_sent", "rendezvous/abort_sent",  "rendezvous/step_closed",
};
static_assert(std::size(kSentPoints) == std::variant_size_v<PeerMessage>);

// Who is done with our memory says so by the end of a socket that nobody reads any more.
constexpr auto kPartingsEvery = std::chrono::milliseconds(20);

std::string_view TextOf(const Value& value) {
  if (value.memory == nullptr) return {};
  return {reinterpret_cast<const char*>(value.memory->data()), value.bytes};
}

}  // namespace

// --- Effects ---

void RendezvousHub::Carry(Effects& effects) {
  for (auto& [to, message] : effects.messages) Route(to, std::move(message));
  for (const rendezvous::Fetch& fetch : effects.fetches) {
    const auto waiting = waiting_.find(fetch.op);
    bulk_->Fetch(fetch, waiting == waiting_.end() ? nullptr : waiting->second.into);
  }
  for (const OpId op : effects.stop_fetches) bulk_->Stop(op);
  for (rendezvous::Completed& completed : effects.completed) {
    auto node = waiting_.extract(completed.op);
    if (node.empty()) continue;
    if (node.mapped().fetched) completed.value.memory = std::move(node.mapped().fetched);
    // Here and not in `Settle`: another thread may take it from here while `Close` looks.
    if (node.mapped().done) ++callbacks_;
    after_.completed.emplace_back(std::move(node.mapped()), std::move(completed));
  }
  std::move(effects.dropped.begin(), effects.dropped.end(), std::back_inserter(after_.dropped));
  has_after_ = !after_.empty();
}

void RendezvousHub::Settle(After after, bool on_loop) {
  for (auto& [waiting, completed] : after.completed) {
    if (waiting.caller != nullptr) {
      waiting.caller->completed = std::move(completed);
      if (on_loop) {
        waiting.caller->Wake();
      } else {
        loop_.Post([caller = waiting.caller] { caller->Wake(); });
      }
    } else {
      CallBack([done = std::move(waiting.done), completed = std::move(completed)]() mutable {
        done(std::move(completed));
      });
    }
  }
}

void RendezvousHub::Route(MemberIndex to, PeerMessage message) {
  Peer& peer = peers_[to];
  if (peer.lost || closed_) return;
  if (peer.stream != nullptr) return SendOver(peer, message);
  peer.queue.push_back(std::move(message));
  if (std::exchange(peer.connecting, true)) return;
  loop_.Post([self = shared_from_this(), to] {
    if (self->connector_) self->connector_->Connect(to);
  });
}

// For the other member to see, or to fetch.
native::Placed RendezvousHub::PlaceOf(Peer& peer, const Value& value) {
  const auto* block = dynamic_cast<const transport::Block*>(value.memory.get());
  if (block == nullptr || !arena_.Made(*block) || !peer.stream->shares_memory()) {
    return native::FetchPlace{.bytes = value.bytes};
  }
  if (const absl::Status shared = peer.stream->Share(arena_, block->place().segment);
      !shared.ok()) {
    peer.why_not_shared = std::string(shared.message());
    return native::FetchPlace{.bytes = value.bytes};
  }
  const transport::Place& place = block->place();
  return native::ArenaPlace{.segment = place.segment,
                            .offset = place.offset,
                            .bytes = value.bytes,
                            .generation = place.generation};
}

void RendezvousHub::SendOver(Peer& peer, const PeerMessage& message) {
  native::Placed placed;
  if (const auto* offer = std::get_if<rendezvous::Offer>(&message)) {
    runtime::FaultPoint("rendezvous/offer_due");
    const Value& value = offer->value;
    ++traffic_.sent_values;
    traffic_.sent_bytes += value.bytes;
    if (value.bytes <= inline_bytes_max_) {
      if (value.bytes > 0) placed = native::BytesView{TextOf(value)};
    } else {
      placed = PlaceOf(peer, value);
    }
  }
  peer.stream->Send(native::EncodePeerMessage(message, placed));
  runtime::FaultPoint(kSentPoints[message.index()]);
}

// --- Long values ---

RendezvousBulk::Events RendezvousHub::BulkEvents() {
  const auto weak = weak_from_this();
  return {.find_card =
              [weak](MemberIndex member, transport::BulkFetcher::FoundCard found) {
                if (const auto self = weak.lock()) self->FindCard(member, std::move(found));
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
  Peer& peer = peers_[member];
  peer.reads_memory = why_not.empty();
  peer.why_not_read = std::move(why_not);
}

void RendezvousHub::Fetched(OpId op, rendezvous::MemoryPtr memory, const ErrorPtr& error) {
  Do([&](Effects& effects) {
    const auto waiting = waiting_.find(op);
    if (!error && waiting != waiting_.end()) waiting->second.fetched = std::move(memory);
    machine_.Fetched(MonotonicNow(), op, error, effects);
  });
}

// --- The loop ---

transport::Connector::Events RendezvousHub::ConnectorEvents() {
  const auto weak = weak_from_this();
  return {.find_card =
              [weak](MemberIndex other, transport::Connector::FoundCard found) {
                if (const auto hub = weak.lock()) hub->FindCard(other, std::move(found));
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
    if (self == nullptr) return self;
    const Peer& peer = self->peers_[member];
    if (peer.lost || peer.incarnation != incarnation) self = nullptr;
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

// Where its sender put it, or, when that cannot be seen here, to be fetched.
void RendezvousHub::PlaceOffer(Peer& peer, const native::ArenaPlace& place,
                               rendezvous::Offer& offer) {
  if (peer.stream == nullptr) return;
  if (const absl::Status seen = peer.stream->CanSee(place.segment); !seen.ok()) {
    peer.why_not_shared = std::string(seen.message());
    offer.away = true;
    return;
  }
  offer.place = std::make_shared<RemotePlace>(
      RemotePlace{{.segment = place.segment,
                   .offset = place.offset,
                   .bytes = place.bytes,
                   .generation = static_cast<uint32_t>(place.generation)},
                  peer.stream});
}

void RendezvousHub::TakeMessage(MemberIndex from, const std::string& bytes) {
  auto decoded = native::DecodePeerMessage(bytes);
  if (!decoded.ok()) {
    return LosePeer(from, rendezvous::MakeError(absl::StatusCode::kInternal, Reason::kProtocol,
                                                std::string(decoded.status().message())));
  }
  if (auto* offer = std::get_if<rendezvous::Offer>(&decoded->message)) {
    ++traffic_.received_values;
    traffic_.received_bytes += offer->value.bytes;
    if (const auto* here = std::get_if<native::BytesView>(&decoded->placed)) {
      offer->value.memory = OwnBytes::Copy(here->view);
    } else if (const auto* place = std::get_if<native::ArenaPlace>(&decoded->placed)) {
      PlaceOffer(peers_[from], *place, *offer);
    } else if (std::holds_alternative<native::FetchPlace>(decoded->placed)) {
      offer->away = true;
    }
  }
  Effects effects;
  machine_.Take(MonotonicNow(), from, std::move(decoded->message), effects);
  Carry(effects);
}

void RendezvousHub::LosePeer(MemberIndex member, ErrorPtr why) {
  Peer& peer = peers_[member];
  if (std::exchange(peer.lost, true)) return;
  peer.queue.clear();
  // Who tells of it may know no more than its process.
  const std::string& name = NameOf(member);
  if (!absl::StrContains(why->message, name)) {
    rendezvous::Error named = *why;
    named.message = absl::StrCat(name, ": ", why->message);
    why = std::make_shared<const rendezvous::Error>(std::move(named));
  }
  Effects effects;
  machine_.PeerLost(MonotonicNow(), member, std::move(why), effects);
  // It may live, and look at what was lent to it.
  std::vector<Value> lent;
  if (peer.stream != nullptr && peer.stream->shares_memory()) {
    std::move(effects.dropped.begin(), effects.dropped.end(), std::back_inserter(lent));
    effects.dropped.clear();
  }
  Carry(effects);
  if (peer.stream == nullptr) return;
  loop_.Post([self = shared_from_this(), stream = std::exchange(peer.stream, nullptr),
              lent = std::move(lent)]() mutable { self->Part(stream, std::move(lent)); });
}

void RendezvousHub::ComesBack(MemberIndex member, uint64_t incarnation) {
  Peer& peer = peers_[member];
  if (peer.incarnation >= incarnation) return;
  if (std::exchange(peer.incarnation, incarnation) == 0) return;
  LosePeer(member, rendezvous::MakeError(absl::StatusCode::kUnavailable, Reason::kPeerLost,
                                         absl::StrCat(NameOf(member), " has begun anew")));
  peer = {.incarnation = incarnation};
  machine_.PeerBack(member);
  bulk_->Forget(member);
  loop_.Post([self = shared_from_this(), member, incarnation] {
    if (self->connector_) self->connector_->ComesBack(member, incarnation);
  });
}

void RendezvousHub::Part(const std::shared_ptr<transport::Stream>& stream,
                         std::vector<Value> lent) {
  std::erase(streams_, stream);
  Parting parting = {.lent = std::move(lent)};
  {
    const MutexLock lock(mutex_);
    stream->Close();
    parting.done = stream->DoneWithOurs();
  }
  if (parting.lent.empty()) return;
  partings_.push_back(std::move(parting));
  LookAtPartings();
}

void RendezvousHub::LookAtPartings() {
  std::erase_if(partings_, [](const Parting& each) { return each.done && each.done(); });
  if (partings_.empty()) return;
  parting_timer_.expires_after(kPartingsEvery);
  parting_timer_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr) self->LookAtPartings();
  });
}

void RendezvousHub::FindCard(MemberIndex member, transport::Connector::FoundCard found) {
  keys_.WaitAsync(
      CardKey(member), {},
      // It may never come, and keeps nothing alive until then.
      [weak = weak_from_this(), found = std::move(found)](absl::StatusOr<KeyEntry> entry) {
        const auto self = weak.lock();
        if (self == nullptr) return;
        absl::StatusOr<transport::Card> card =
            entry.ok() ? native::Decode<transport::Card>(entry->value) : entry.status();
        self->loop_.Post([found, card = std::move(card)]() mutable { found(std::move(card)); });
      });
}

void RendezvousHub::Connected(MemberIndex member, uint64_t incarnation,
                              std::shared_ptr<transport::Stream> stream,
                              std::string why_not_shared) {
  streams_.push_back(stream);
  const MutexLock lock(mutex_);
  ComesBack(member, incarnation);
  Peer& peer = peers_[member];
  if (peer.lost || peer.incarnation != incarnation) {
    return loop_.Post([self = shared_from_this(), stream] { self->Part(stream, {}); });
  }
  peer.stream = std::move(stream);
  peer.why_not_shared = std::move(why_not_shared);
  peer.connecting = false;
  for (const PeerMessage& message : std::exchange(peer.queue, {})) SendOver(peer, message);
}

bool RendezvousHub::Poll() {
  bool any = false;
  for (size_t i = 0; i < streams_.size(); ++i) any |= streams_[i]->Poll();
  TellOfRemovedSegments();
  if (!has_after_) return any;
  After after;
  {
    const MutexLock lock(mutex_);
    after = std::exchange(after_, {});
    has_after_ = false;
  }
  Settle(std::move(after), /*on_loop=*/true);
  TellOfRemovedSegments();
  ArmTimer();
  return true;
}

// So that their memory, which is mapped there, goes back to the system.
void RendezvousHub::TellOfRemovedSegments() {
  const uint64_t removed = arena_.segments_removed();
  if (std::exchange(segments_removed_, removed) == removed) return;
  const MutexLock lock(mutex_);
  for (const auto& stream : streams_) stream->Unshare(arena_);
}

bool RendezvousHub::PrepareToSleep() {
  for (const auto& stream : streams_) {
    if (!stream->PrepareToSleep()) return false;
  }
  return !has_after_;
}

void RendezvousHub::Awake() {
  for (const auto& stream : streams_) stream->Awake();
}

void RendezvousHub::WaitForBell() {
  bell_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [weak = weak_from_this()](const asio::error_code& error) {
                     const auto self = weak.lock();
                     if (error || self == nullptr) return;
                     eventfd_t rings = 0;
                     ::eventfd_read(self->bell_.native_handle(), &rings);
                     self->WaitForBell();
                   });
}

void RendezvousHub::ArmTimer() {
  Time due;
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    due = machine_.NextDeadline();
  }
  // One that rings too early does no harm, and most deadlines are never reached.
  if (due.nanoseconds() >= armed_ns_) return;
  armed_ns_ = due.nanoseconds();
  timer_.expires_at(
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due.nanoseconds())));
  timer_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr) return;
    self->armed_ns_ = Time::Infinite().nanoseconds();
    self->Do([&](Effects& effects) { self->machine_.ReachDeadline(MonotonicNow(), effects); },
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
      if (closed_ || closed_error_) return;
      closed_status_ = change.status();
      closed_error_ = rendezvous::MakeError(change.status().code(), Reason::kRendezvousClosed,
                                            std::string(change.status().message()));
      CloseMachine(effects);
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
      if (incarnation < peers_[member].incarnation) continue;
      const bool gone = each.condition == "lost" || each.condition == "failed";
      // Who left has sent what it had to send: that is received first.
      const auto& stream = peers_[member].stream;
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
