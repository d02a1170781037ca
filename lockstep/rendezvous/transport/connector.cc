#include "lockstep/rendezvous/transport/connector.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::transport {

using wire::native::LinkPurpose;
using wire::native::PeerHello;

namespace {
constexpr uint64_t kProofBytes = 4096;
}  // namespace

absl::StatusOr<std::shared_ptr<Connector>> Connector::Start(asio::io_context& io, Mutex& mutex,
                                                            int bell, Options options,
                                                            Events events) {
  std::shared_ptr<Connector> connector(
      new Connector(io, mutex, bell, std::move(options), std::move(events)));
  if (absl::Status status = connector->Listen(); !status.ok()) return status;
  return connector;
}

Connector::Connector(asio::io_context& io, Mutex& mutex, int bell, Options options, Events events)
    : io_(io),
      mutex_(mutex),
      bell_(bell),
      options_(std::move(options)),
      events_(std::move(events)),
      card_(MakeCard()) {
  card_.incarnation = options_.incarnation;
  card_.secret.data = options_.door.key.secret;
  card_.encrypts = options_.door.key.encrypt;
}

Connector::~Connector() { Close(); }

absl::Status Connector::Listen() {
  ListenForMemory();
  auto hellos = LinkHellos::Start(
      io_, {.door = options_.door, .link = options_.link, .max = options_.greetings_max},
      [weak = weak_from_this()](LinkStream::Arriving& arriving, const link::Message& message) {
        const auto self = weak.lock();
        return self ? self->GreetLink(arriving, message) : absl::CancelledError("closed");
      });
  if (!hellos.ok()) return hellos.status();
  link_hellos_ = *std::move(hellos);
  card_.tcp_address = link_hellos_->address();
  card_.bulk_address = options_.bulk_address;
  if (options_.process_memory) card_.transports.push_back("cma");
  card_.transports.push_back("tcp");
  return absl::OkStatus();
}

// Without it there is still the network.
void Connector::ListenForMemory() {
  if (!options_.shared_memory) return;
  // A seccomp profile may forbid it, or there are no descriptors.
  if (const auto proof = MemorySegment::CreateShared(kProofBytes); !proof.ok()) {
    why_no_memory_ = std::string(proof.status().message());
    return;
  }
  // The token stays secret: it is not the name.
  const std::string name = absl::StrCat("lockstep-", absl::BytesToHexString(MakeCard().token.data));
  auto hellos = UnixHellos::Start(
      io_, name, options_.greetings_max,
      [weak = weak_from_this()](const UnixHellos::Socket& socket, UnixSocket::Message message) {
        const auto self = weak.lock();
        return self ? self->Greet(socket, std::move(message)) : absl::CancelledError("closed");
      });
  if (!hellos.ok()) {
    why_no_memory_ = std::string(hellos.status().message());
    return;
  }
  unix_hellos_ = *std::move(hellos);
  card_.unix_address = absl::StrCat("@", name);
  card_.transports.push_back("shm");
}

void Connector::Close() {
  if (std::exchange(closed_, true)) return;
  events_ = {};
  if (unix_hellos_) unix_hellos_->Close();
  if (link_hellos_) link_hellos_->Close();
  for (auto& [member, peer] : peers_) peer.GiveUp();
  peers_.clear();
}

void Connector::Connect(MemberIndex member) {
  if (closed_) return;
  Peer& peer = peers_[member];
  if (peer.state != State::kIdle) return;
  Find(member);
}

void Connector::ComesBack(MemberIndex member, uint64_t incarnation) {
  if (closed_) return;
  Peer& peer = peers_[member];
  if (peer.incarnation >= incarnation) return;
  peer.GiveUp();
  peer = {.incarnation = incarnation};
}

absl::Status Connector::Heed(MemberIndex member, uint64_t incarnation) {
  ComesBack(member, incarnation);
  if (incarnation == peers_[member].incarnation) return absl::OkStatus();
  return absl::PermissionDeniedError("that member has come back as another process");
}

void Connector::Find(MemberIndex member) {
  peers_[member].state = State::kFinding;
  events_.find_card(member, [weak = weak_from_this(), member](absl::StatusOr<Card> card) {
    const auto self = weak.lock();
    if (self == nullptr || self->closed_) return;
    Peer& peer = self->peers_[member];
    if (peer.state != State::kFinding) return;
    if (!card.ok()) {
      peer.state = State::kIdle;
      return self->events_.unreachable(member, card.status());
    }
    if (card->incarnation < peer.incarnation) {
      return self->ArmTimer(member, self->options_.retry_first, &Connector::Find);
    }
    // Not by `ComesBack`: whatever there is, is for whom the card speaks of.
    peer.incarnation = card->incarnation;
    peer.card = *std::move(card);
    self->Reach(member);
  });
}

void Connector::Reach(MemberIndex member) {
  Peer& peer = peers_[member];
  LOCKSTEP_DCHECK(peer.state == State::kFinding);
  if (peer.why_not_shared.empty()) peer.why_not_shared = why_no_memory_;
  if (peer.why_not_shared.empty()) MayShareMemory(card_, peer.card, peer.why_not_shared);
  if (!peer.why_not_shared.empty()) return DialLink(member);
  const absl::Status status = options_.self < member ? Dial(member, peer) : Knock(member, peer);
  if (!status.ok()) return Failed(member, status);
  ArmTimer(member, options_.hello_timeout, &Connector::DialTimedOut);
}

PeerHello HelloFor(MemberIndex member, const Card& theirs, LinkPurpose purpose, const Card& ours,
                   const Connector::Options& options) {
  return {.version_min = kPeerVersion,
          .version_max = kPeerVersion,
          .purpose = purpose,
          .job = options.job,
          .attempt = options.attempt,
          .from = options.self.value(),
          .from_incarnation = ours.incarnation,
          .to = member.value(),
          .to_incarnation = theirs.incarnation,
          .token = theirs.token,
          .transports = ours.transports};
}

absl::Status CheckHello(const PeerHello& hello, const Card& card,
                        const Connector::Options& options) {
  const bool meant = hello.job == options.job && hello.attempt == options.attempt &&
                     hello.to == options.self.value() && hello.token == card.token;
  if (!meant) return absl::PermissionDeniedError("the hello is for somebody else");
  if (hello.version_min > kPeerVersion || hello.version_max < kPeerVersion) {
    return absl::FailedPreconditionError("no common version");
  }
  const bool member = hello.from >= 0 && hello.from != hello.to &&
                      static_cast<size_t>(hello.from) < options.names.size();
  if (!member) return absl::InvalidArgumentError("the hello is from nobody of this job");
  return absl::OkStatus();
}

void Connector::ArmTimer(MemberIndex member, absl::Duration after,
                         void (Connector::*call)(MemberIndex)) {
  Peer& peer = peers_[member];
  peer.timer = std::make_unique<asio::steady_timer>(io_, absl::ToChronoNanoseconds(after));
  peer.timer->async_wait([weak = weak_from_this(), member, call](const asio::error_code& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr && !self->closed_) ((*self).*call)(member);
  });
}

}  // namespace lockstep::transport
