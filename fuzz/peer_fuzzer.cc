#include "fuzz/peer_fuzzer.h"

#include <string>
#include <variant>

#include "lockstep/base/check.h"
#include "lockstep/rendezvous/value.h"
#include "lockstep/wire/native/rendezvous_codec.h"

namespace lockstep::fuzz {
namespace {

using wire::native::DecodedPeerMessage;

// What the rendezvous relies on.
void CheckOffer(const rendezvous::Offer& offer, const wire::native::Placed& placed) {
  const rendezvous::Value& value = offer.value;
  LOCKSTEP_CHECK(!offer.name.empty() && offer.name.size() <= rendezvous::kNameBytesMax);
  LOCKSTEP_CHECK(value.about.shape.size() <= rendezvous::kRankMax);
  const auto bytes = rendezvous::BytesOf(value.about.type, value.about.shape);
  LOCKSTEP_CHECK(bytes.ok() && value.bytes == (value.dead ? 0 : *bytes));
  LOCKSTEP_CHECK(std::holds_alternative<std::monostate>(placed) == (value.bytes == 0));
  if (const auto* along = std::get_if<wire::native::BytesView>(&placed)) {
    LOCKSTEP_CHECK(along->view.size() == value.bytes);
  } else if (value.bytes > 0) {
    LOCKSTEP_CHECK(offer.lease.value() != 0);
  }
}

}  // namespace

void ReadPeerMessage(std::string_view bytes) {
  const auto decoded = wire::native::DecodePeerMessage(bytes);
  if (!decoded.ok()) {
    LOCKSTEP_CHECK(decoded.status().code() == absl::StatusCode::kInvalidArgument);
    return;
  }
  if (const auto* offer = std::get_if<rendezvous::Offer>(&decoded->message)) {
    CheckOffer(*offer, decoded->placed);
  }
  const std::string encoded = wire::native::EncodePeerMessage(decoded->message, decoded->placed);
  const auto again = wire::native::DecodePeerMessage(encoded);
  LOCKSTEP_CHECK(again.ok() && again->placed == decoded->placed);
  LOCKSTEP_CHECK(wire::native::EncodePeerMessage(again->message, again->placed) == encoded);
}

}  // namespace lockstep::fuzz
