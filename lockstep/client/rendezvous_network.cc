#include "lockstep/client/rendezvous_network.h"

#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::client {
namespace {

using rendezvous::ErrorPtr;
using rendezvous::LeaseId;
using rendezvous::OpId;
using rendezvous::PeerMessage;
using rendezvous::Reason;
using rendezvous::Value;

ErrorPtr PeerLost(std::string why) {
  return rendezvous::MakeError(absl::StatusCode::kUnavailable, Reason::kPeerLost, std::move(why));
}

}  // namespace

RendezvousNetwork::RendezvousNetwork(LoopDriver& loop, Mutex& mutex, transport::Arena& arena,
                                     MemberIndex self, std::vector<std::string> names,
                                     uint64_t inline_bytes_max, Keys keys, Events& events)
    : loop_(loop),
      mutex_(mutex),
      arena_(arena),
      events_(events),
      cards_(std::move(keys), self, loop),
      peers_(arena, std::move(names), inline_bytes_max),
      streams_(arena, mutex),
      departed_(loop.io()),
      bell_(loop.io()) {}

// --- Beginning and end ---

absl::Status RendezvousNetwork::Listen(const std::shared_ptr<RendezvousNetwork>& self,
                                       transport::Connector::Options options) {
  LOCKSTEP_DCHECK(bulk_ == nullptr && connector_ == nullptr);
  self_ = self;
  bulk_ = std::make_shared<RendezvousBulk>(arena_, BulkEvents());
  if (absl::Status opened = bell_.Open(); !opened.ok()) return opened;
  auto bulk_address = bulk_->Listen(loop_.io(), options.door);
  if (!bulk_address.ok()) return bulk_address.status();
  options.bulk_address = *std::move(bulk_address);
  auto connector = transport::Connector::Start(loop_.io(), mutex_, bell_.fd(), std::move(options),
                                               ConnectorEvents());
  if (!connector.ok()) return connector.status();
  connector_ = *std::move(connector);
  bulk_->Begin(connector_->card(), connector_->options());
  bell_.Hear(self_);
  return absl::OkStatus();
}

absl::Status RendezvousNetwork::Publish(absl::Duration timeout, const Interrupted& interrupted) {
  return cards_.Publish(connector_->card(), timeout, interrupted);
}

void RendezvousNetwork::Close() {
  departed_.Stop();  // what is still looked at stays until the arena goes
  if (connector_) connector_->Close();
  if (bulk_) bulk_->StopListening();
  {
    const MutexLock lock(mutex_);
    peers_.Close();
  }
  streams_.Clear();
  bell_.Close();
}

void RendezvousNetwork::CloseBulk() {
  if (bulk_) bulk_->Close();
}

// --- What the owner wants ---

void RendezvousNetwork::Send(MemberIndex to, PeerMessage message) {
  mutex_.AssertHeld();
  if (!peers_.Send(to, std::move(message))) return;
  loop_.Post([self = self_.lock(), to] {
    if (self->connector_) self->connector_->Connect(to);
  });
}

void RendezvousNetwork::TakeMember(const MemberInfo& info) {
  mutex_.AssertHeld();
  const MemberIndex member(info.member);
  const uint64_t incarnation = RendezvousPeers::IncarnationIn(info.name);
  Heed(member, incarnation);
  // We may have heard from the newer one before.
  if (incarnation < peers_.IncarnationOf(member)) return;
  if (info.condition == "lost" || info.condition == "failed") {
    return Lose(member, PeerLost(info.why));
  }
  // A member that left has sent what it had to send: that is received first.
  const auto stream = peers_.StreamOf(member);
  if (info.condition == "left" && (stream == nullptr || !stream->connected())) {
    Lose(member, PeerLost(absl::StrCat(info.name, " has left the job")));
  }
}

// --- Incarnations, and their end ---

void RendezvousNetwork::Heed(MemberIndex member, uint64_t incarnation) {
  const uint64_t known = peers_.IncarnationOf(member);
  if (known >= incarnation) return;
  if (known == 0) return peers_.Meet(member, incarnation);
  // First what there was with the older one ends, and then the newer one begins with nothing.
  Lose(member, PeerLost(absl::StrCat(peers_.NameOf(member), " has begun anew")));
  peers_.Begin(member, incarnation);
  events_.ComesBack(member);
  bulk_->Forget(member);
  loop_.Post([self = self_.lock(), member, incarnation] {
    if (self->connector_) self->connector_->ComesBack(member, incarnation);
  });
}

void RendezvousNetwork::Lose(MemberIndex member, ErrorPtr why) {
  if (!peers_.Lose(member)) return;
  // Who tells of it may know no more than its process.
  const std::string& name = peers_.NameOf(member);
  if (!absl::StrContains(why->message, name)) {
    rendezvous::Error named = *why;
    named.message = absl::StrCat(name, ": ", why->message);
    why = std::make_shared<const rendezvous::Error>(std::move(named));
  }
  auto stream = peers_.TakeStream(member);
  std::vector<Value> lent =
      events_.Lose(member, std::move(why), stream != nullptr && stream->shares_memory());
  if (stream == nullptr) return;
  loop_.Post([self = self_.lock(), stream = std::move(stream), lent = std::move(lent)]() mutable {
    self->Part(stream, std::move(lent));
  });
}

void RendezvousNetwork::Part(const std::shared_ptr<transport::Stream>& stream,
                             std::vector<Value> lent) {
  streams_.Remove(stream);
  std::function<bool()> done;
  {
    const MutexLock lock(mutex_);
    stream->Close();
    done = stream->DoneWithOurs();
  }
  departed_.Add(self_, std::move(done), std::move(lent));
}

// --- Streams ---

transport::Connector::Events RendezvousNetwork::ConnectorEvents() {
  const auto weak = self_;
  return {.find_card =
              [weak](MemberIndex other, transport::Connector::FoundCard found) {
                if (const auto self = weak.lock()) self->cards_.Find(other, std::move(found));
              },
          .stream_events =
              [weak](MemberIndex other, uint64_t incarnation) {
                const auto self = weak.lock();
                return self ? self->EventsOf(other, incarnation) : transport::Stream::Events();
              },
          .connected =
              [weak](MemberIndex other, uint64_t incarnation,
                     std::shared_ptr<transport::Stream> stream, std::string why_not_shared) {
                const auto self = weak.lock();
                if (self == nullptr) return;
                self->Connected(other, incarnation, std::move(stream), std::move(why_not_shared));
              },
          .unreachable =
              [weak](MemberIndex other, const absl::Status& why) {
                const auto self = weak.lock();
                if (self == nullptr) return;
                const MutexLock lock(self->mutex_);
                self->Lose(other,
                           rendezvous::MakeError(absl::StatusCode::kUnavailable,
                                                 Reason::kUnreachable, std::string(why.message())));
              },
          .post =
              [weak](std::function<void()> function) {
                if (const auto self = weak.lock()) self->loop_.Post(std::move(function));
              }};
}

// What comes after it was replaced, or lost, is nothing to anybody.
transport::Stream::Events RendezvousNetwork::EventsOf(MemberIndex member, uint64_t incarnation) {
  const auto heeds = [weak = self_, member, incarnation] {
    auto self = weak.lock();
    if (self == nullptr) return self;
    self->mutex_.AssertHeld();  // as Stream says
    if (!self->peers_.Heeds(member, incarnation)) self = nullptr;
    return self;
  };
  return {.message =
              [heeds, member](std::string& bytes) {
                const auto self = heeds();
                if (self == nullptr) return;
                self->mutex_.AssertHeld();
                self->TakeMessage(member, bytes);
              },
          .lost =
              [heeds, member](ErrorPtr why) {
                const auto self = heeds();
                if (self == nullptr) return;
                self->mutex_.AssertHeld();
                self->Lose(member, std::move(why));
              }};
}

void RendezvousNetwork::TakeMessage(MemberIndex from, const std::string& bytes) {
  auto message = peers_.Decode(from, bytes);
  if (!message.ok()) {
    return Lose(from, rendezvous::MakeError(absl::StatusCode::kInternal, Reason::kProtocol,
                                            std::string(message.status().message())));
  }
  events_.Take(from, *std::move(message));
}

void RendezvousNetwork::Connected(MemberIndex member, uint64_t incarnation,
                                  std::shared_ptr<transport::Stream> stream,
                                  std::string why_not_shared) {
  // Whoever was heard from is polled, so that its stream is let go in one way: by `Part`.
  streams_.Add(stream);
  const MutexLock lock(mutex_);
  Heed(member, incarnation);
  if (peers_.Connect(member, incarnation, stream, std::move(why_not_shared))) return;
  loop_.Post([self = self_.lock(), stream] { self->Part(stream, {}); });
}

// --- Long values ---

RendezvousBulk::Events RendezvousNetwork::BulkEvents() {
  const auto weak = self_;
  return {.find_card =
              [weak](MemberIndex member, transport::BulkFetcher::FoundCard found) {
                if (const auto self = weak.lock()) self->cards_.Find(member, std::move(found));
              },
          .lent =
              [weak](MemberIndex member, LeaseId lease) {
                const auto self = weak.lock();
                return self ? self->events_.Lent(member, lease) : std::nullopt;
              },
          .done =
              [weak](OpId op, rendezvous::MemoryPtr memory, ErrorPtr error) {
                const auto self = weak.lock();
                if (self) self->events_.Fetched(op, std::move(memory), std::move(error));
              },
          .reads_memory =
              [weak](MemberIndex member, std::string why_not) {
                const auto self = weak.lock();
                if (self == nullptr) return;
                const MutexLock lock(self->mutex_);
                self->peers_.SetReadsMemory(member, std::move(why_not));
              }};
}

}  // namespace lockstep::client
