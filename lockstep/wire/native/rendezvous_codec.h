// What members say to each other about values: rendezvous::PeerMessage to bytes and back. Pure.
//
// What is decoded has been checked: whatever bytes come, the rendezvous gets a message that a
// healthy member could have sent. Limits: docs/formats/rendezvous.md.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/wire/native/field.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::wire::native {

// Where the bytes of an offered value are: with the message, in the sender's arena, or with the
// sender. The first: it has none, or the message is no offer.
using Placed = std::variant<std::monostate, BytesView, ArenaPlace, FetchPlace>;

// A text that is too long is cut, one that is not UTF-8 mended; all else must be as the rules say,
// or the peer takes us for broken. `value.memory` of an offer is not looked at.
std::string EncodePeerMessage(const rendezvous::PeerMessage& message, const Placed& placed = {});

struct DecodedPeerMessage {
  // The memory of an offered value is null.
  rendezvous::PeerMessage message;
  // Bytes that came along lie in what was decoded, and are good for as long as that.
  Placed placed;
};

// INVALID_ARGUMENT names the message, the field and what is wrong with it. The caller bounds the
// bytes.
absl::StatusOr<DecodedPeerMessage> DecodePeerMessage(std::string_view bytes);

}  // namespace lockstep::wire::native
