// How two members come to talk over the network.
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "lockstep/rendezvous/transport/connector.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::transport {

using link::FrameType;
using wire::native::LinkPurpose;
using wire::native::PeerHello;

absl::Status Connector::GreetLink(LinkStream::Arriving& arriving, const link::Message& message) {
  if (message.type != FrameType::kHello) return absl::InvalidArgumentError("a hello was due");
  const auto hello = wire::native::Decode<PeerHello>(message.payload);
  if (!hello.ok()) return hello.status();
  if (absl::Status status = CheckHello(*hello, card_, options_); !status.ok()) return status;
  if (hello->purpose != LinkPurpose::kConversation) {
    return absl::InvalidArgumentError("this address is for conversations");
  }
  const auto greeting = GreetingOf(*hello);
  if (!greeting.ok()) return greeting.status();
  const MemberIndex from(hello->from);
  if (absl::Status heeded = Heed(from, hello->from_incarnation); !heeded.ok()) return heeded;
  Peer& peer = peers_[from];
  if (peer.state == State::kUp && peer.link == nullptr) {
    return absl::AlreadyExistsError("there is a stream by memory");
  }
  if (peer.link == nullptr) {
    if (peer.why_not_shared.empty()) {
      peer.why_not_shared = !why_no_memory_.empty()   ? why_no_memory_
                            : unix_hellos_ == nullptr ? "this member does not offer shared memory"
                                                      : "the other member chose the network";
    }
    MakeLink(from, peer, Conversation::Role::kTakes, {}, {})->Start();
  }
  peer.link->Take(arriving, *greeting);
  return absl::OkStatus();
}

void Connector::DialLink(MemberIndex member) {
  Peer& peer = peers_[member];
  auto address = runtime::ParseAddress(peer.card.tcp_address);
  if (!address.ok() || peer.card.incarnation == 0) {
    peer.state = State::kIdle;
    return events_.unreachable(
        member, absl::UnavailableError(
                    absl::StrCat("no way to reach it: memory is not shared (", peer.why_not_shared,
                                 "), and its card has no address in the network")));
  }
  auto key = KeyOf(peer.card, card_);
  if (!key.ok()) {
    peer.state = State::kIdle;
    return events_.unreachable(member, key.status());
  }
  MakeLink(member, peer, Conversation::Role::kDials, *std::move(address), *std::move(key))->Start();
}

std::shared_ptr<LinkStream> Connector::MakeLink(MemberIndex member, Peer& peer,
                                                Conversation::Role role, runtime::Address address,
                                                DoorKey key) {
  peer.GiveUp();
  peer.state = State::kUp;
  Conversation::Options conversation = options_.conversation;
  conversation.self = options_.self;
  conversation.peer = member;
  conversation.incarnation = Incarnation(card_.incarnation);
  conversation.peer_incarnation = Incarnation(peer.incarnation);
  conversation.conversation = NewConversationId();
  conversation.peer_name = options_.names[static_cast<size_t>(member.value())];
  if (!peer.card.tcp_address.empty()) {
    absl::StrAppend(&conversation.peer_name, " (pid ", peer.card.pid, " on ", peer.card.host,
                    ", at ", peer.card.tcp_address, ")");
  }
  conversation.role = role;
  conversation.seed = absl::HashOf(card_.token.data, member.value());
  peer.link = std::make_shared<LinkStream>(
      io_, mutex_, events_.post,
      LinkStream::Options{
          .conversation = std::move(conversation),
          .link = LinkStream::Bounds(options_.link),
          .hello = HelloFor(member, peer.card, LinkPurpose::kConversation, card_, options_),
          .address = std::move(address),
          .key = std::move(key)},
      events_.stream_events(member, peer.incarnation));
  events_.connected(member, peer.incarnation, peer.link, peer.why_not_shared);
  return peer.link;
}

}  // namespace lockstep::transport
