#include "lockstep/client/rendezvous_peers.h"

#include <iterator>
#include <optional>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fault_point.h"

namespace lockstep::client {
namespace {

using rendezvous::PeerMessage;
using rendezvous::Value;
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

std::string_view TextOf(const Value& value) {
  if (value.memory == nullptr) return {};
  return {reinterpret_cast<const char*>(value.memory->data()), value.bytes};
}

// Of both ways that are better than the network.
std::string WhyNotBetter(const std::string& why_not_shared, const std::string& why_not_read) {
  if (why_not_read.empty() || why_not_read == why_not_shared) return why_not_shared;
  return absl::StrCat(why_not_shared, why_not_shared.empty() ? "" : "; ",
                      "its memory is not read: ", why_not_read);
}

}  // namespace

uint64_t RendezvousPeers::IncarnationIn(const std::string& name) {
  uint64_t incarnation = 0;
  const size_t mark = name.find('#');
  if (mark == name.npos || !absl::SimpleAtoi(name.substr(mark + 1), &incarnation)) return 0;
  return incarnation;
}

// --- Messages ---

bool RendezvousPeers::Send(MemberIndex to, PeerMessage message) {
  Peer& peer = peers_[to];
  if (peer.lost) return false;
  if (peer.stream != nullptr) {
    SendOver(peer, message);
    return false;
  }
  peer.queue.push_back(std::move(message));
  return !std::exchange(peer.connecting, true);
}

void RendezvousPeers::SendOver(Peer& peer, const PeerMessage& message) {
  LOCKSTEP_DCHECK(peer.stream != nullptr);
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

// For the other member to see, or to fetch.
native::Placed RendezvousPeers::PlaceOf(Peer& peer, const Value& value) {
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

absl::StatusOr<PeerMessage> RendezvousPeers::Decode(MemberIndex from, const std::string& bytes) {
  auto decoded = native::DecodePeerMessage(bytes);
  if (!decoded.ok()) return decoded.status();
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
  return std::move(decoded->message);
}

// Where its sender put it, or, when that cannot be seen here, to be fetched.
void RendezvousPeers::PlaceOffer(Peer& peer, const native::ArenaPlace& place,
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

// --- Streams ---

bool RendezvousPeers::Heeds(MemberIndex member, uint64_t incarnation) {
  const Peer& peer = peers_[member];
  return !peer.lost && peer.incarnation == incarnation;
}

bool RendezvousPeers::Connect(MemberIndex member, uint64_t incarnation,
                              std::shared_ptr<transport::Stream> stream,
                              std::string why_not_shared) {
  if (!Heeds(member, incarnation)) return false;
  Peer& peer = peers_[member];
  peer.stream = std::move(stream);
  peer.why_not_shared = std::move(why_not_shared);
  peer.connecting = false;
  for (const PeerMessage& message : std::exchange(peer.queue, {})) SendOver(peer, message);
  return true;
}

std::shared_ptr<transport::Stream> RendezvousPeers::StreamOf(MemberIndex member) const {
  const auto peer = peers_.find(member);
  return peer == peers_.end() ? nullptr : peer->second.stream;
}

bool RendezvousPeers::MaySeeMemory(MemberIndex member) const {
  const auto stream = StreamOf(member);
  return stream == nullptr || stream->shares_memory();
}

void RendezvousPeers::SetReadsMemory(MemberIndex member, std::string why_not) {
  Peer& peer = peers_[member];
  peer.reads_memory = why_not.empty();
  peer.why_not_read = std::move(why_not);
}

bool RendezvousPeers::Lose(MemberIndex member) {
  Peer& peer = peers_[member];
  if (std::exchange(peer.lost, true)) return false;
  peer.queue.clear();
  return true;
}

void RendezvousPeers::Close() {
  for (auto& [member, peer] : peers_) {
    if (peer.stream) peer.stream->Close();
  }
  peers_.clear();
}

// --- For people ---

std::string RendezvousPeers::TransportOf(const Peer& peer) {
  if (peer.reads_memory && !peer.stream->shares_memory()) return "cma";
  return std::string(peer.stream->transport());
}

std::vector<PeerTransport> RendezvousPeers::Transports() const {
  std::vector<PeerTransport> transports;
  for (const auto& [member, peer] : peers_) {
    if (peer.stream == nullptr) continue;
    transports.push_back({.member = member.value(),
                          .transport = TransportOf(peer),
                          .why_not_shared = peer.why_not_shared,
                          .why_not_read = peer.why_not_read});
  }
  return transports;
}

void RendezvousPeers::AddTransports(native::RendezvousReport& report) const {
  for (native::RendezvousPeer& row : report.peers) {
    const auto peer = peers_.find(MemberIndex(row.peer));
    if (peer == peers_.end() || peer->second.stream == nullptr) continue;
    row.transport = TransportOf(peer->second);
    if (!row.lost) row.why = WhyNotBetter(peer->second.why_not_shared, peer->second.why_not_read);
  }
}

}  // namespace lockstep::client
