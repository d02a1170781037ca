#include "lockstep/wire/native/rendezvous_codec.h"

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::wire::native {
namespace {

namespace rv = rendezvous;

constexpr int32_t kLastCode = 16;
static_assert(kLastCode == static_cast<int32_t>(absl::StatusCode::kUnauthenticated));
// Theirs is one more than ours, whose first is 0.
constexpr int32_t kReasonsAbove = 1;
constexpr auto kLastReason = static_cast<int32_t>(rv::Reason::kProtocol) + kReasonsAbove;

// --- To bytes ---

std::string ShortText(std::string_view text) {
  std::string whole = IsUtf8(text) ? std::string(text) : ToUtf8(text);
  if (whole.size() <= kErrorTextBytesMax) return whole;
  size_t end = kErrorTextBytesMax;
  while (end > 0 && (static_cast<unsigned char>(whole[end]) & 0xC0) == 0x80) --end;
  whole.resize(end);
  return whole;
}

Failure ToFailure(const rv::ErrorPtr& why) {
  LOCKSTEP_CHECK(why != nullptr);
  Failure failure = {
      .code = static_cast<int32_t>(why->code),
      .reason = static_cast<FailureReason>(static_cast<int32_t>(why->reason) + kReasonsAbove),
      .message = ShortText(why->message)};
  if (why->origin.has_value()) failure.origin = why->origin->value();
  return failure;
}

Placement ToPlacement(const Placed& placed) {
  Placement placement;
  if (const auto* bytes = std::get_if<BytesView>(&placed)) placement.inline_bytes = *bytes;
  if (const auto* arena = std::get_if<ArenaPlace>(&placed)) placement.arena = *arena;
  if (const auto* fetch = std::get_if<FetchPlace>(&placed)) placement.fetch = *fetch;
  return placement;
}

Offer ToOffer(const rv::Offer& offer, const Placed& placed) {
  const rv::Value& value = offer.value;
  Offer wire = {.step = offer.step.value(),
                .name = offer.name,
                .about = {.code = value.about.type.code,
                          .bits = value.about.type.bits,
                          .lanes = value.about.type.lanes,
                          .shape = value.about.shape},
                .bytes = value.bytes,
                .lease = offer.lease.value(),
                .answers = offer.answers.value(),
                .tell = offer.tell,
                .dead = value.dead};
  if (!value.why_dead.empty()) wire.why_dead = ShortText(value.why_dead);
  if (value.bytes > 0) wire.placement = ToPlacement(placed);
  return wire;
}

struct ToWire {
  const Placed& placed;
  PeerMessage& out;

  void operator()(const rv::Want& m) {
    out.want = {
        .step = m.step.value(), .name = m.name, .first = m.first.value(), .last = m.last.value()};
  }
  void operator()(const rv::Unwant& m) {
    out.unwant = {.step = m.step.value(), .name = m.name, .want = m.want.value()};
  }
  void operator()(const rv::Offer& m) { out.offer = ToOffer(m, placed); }
  void operator()(const rv::Taken& m) { out.taken = {.lease = m.lease.value()}; }
  void operator()(const rv::Released& m) { out.released = {.lease = m.lease.value()}; }
  void operator()(const rv::Credit& m) { out.credit = {.values = m.values, .bytes = m.bytes}; }
  void operator()(const rv::Refuse& m) {
    out.refuse = {.step = m.step.value(),
                  .name = m.name,
                  .why = ToFailure(m.why),
                  .first = m.first.value(),
                  .last = m.last.value()};
  }
  void operator()(const rv::AbortStep& m) {
    out.abort_step = {.step = m.step.value(), .why = ToFailure(m.why)};
  }
  void operator()(const rv::StepClosed& m) { out.step_closed = {.step = m.step.value()}; }
};

// --- From bytes ---

// What is wrong with a field of `Message`.
template <class Message, class... What>
absl::Status Wrong(std::string_view field, const What&... what) {
  return absl::InvalidArgumentError(absl::StrCat("cannot take ", std::string(Message::kName), ".",
                                                 std::string(field), ": ", what...));
}

template <class Message>
absl::Status CheckStep(const Message& m) {
  if (m.step < 0) return Wrong<Message>("step", "it is ", m.step, ", and steps count from 0");
  return absl::OkStatus();
}

template <class Message>
absl::Status CheckKey(const Message& m) {
  if (absl::Status status = CheckStep(m); !status.ok()) return status;
  if (m.name.empty() || m.name.size() > rv::kNameBytesMax) {
    return Wrong<Message>("name", "it has ", m.name.size(), " bytes, and may have 1 to ",
                          rv::kNameBytesMax, " (name_bytes_max)");
  }
  return absl::OkStatus();
}

template <class Message>
absl::Status CheckText(std::string_view field, const std::string& text) {
  if (text.size() <= kErrorTextBytesMax) return absl::OkStatus();
  return Wrong<Message>(field, "it has ", text.size(), " bytes, at most ", kErrorTextBytesMax,
                        " are allowed (error_text_bytes_max)");
}

absl::Status CheckFailure(const Failure& m) {
  if (m.code < 1 || m.code > kLastCode) {
    return Wrong<Failure>("code", m.code, " is not the code of an error");
  }
  const auto reason = static_cast<int32_t>(m.reason);
  if (reason < kReasonsAbove || reason > kLastReason) {
    return Wrong<Failure>("reason", "this version knows none with number ", reason);
  }
  if (m.origin.has_value() && (*m.origin < 0 || *m.origin >= kMembersMax)) {
    return Wrong<Failure>("origin", *m.origin, " is not the index of a member");
  }
  return CheckText<Failure>("message", m.message);
}

absl::Status CheckDescription(const Description& m) {
  if (m.code > std::numeric_limits<uint8_t>::max()) {
    return Wrong<Description>("code", m.code, " is not a type's code");
  }
  if (m.bits < 1 || m.bits > std::numeric_limits<uint8_t>::max()) {
    return Wrong<Description>("bits", "an element has 1 to 255, not ", m.bits);
  }
  if (m.lanes < 1 || m.lanes > std::numeric_limits<uint16_t>::max()) {
    return Wrong<Description>("lanes", "an element has 1 to 65535, not ", m.lanes);
  }
  return absl::OkStatus();
}

rv::ElementType TypeOf(const Description& m) {
  return {.code = static_cast<uint8_t>(m.code),
          .bits = static_cast<uint8_t>(m.bits),
          .lanes = static_cast<uint16_t>(m.lanes)};
}

absl::Status CheckSize(const Offer& m) {
  if (absl::Status status = CheckDescription(m.about); !status.ok()) return status;
  const auto bytes = rv::BytesOf(TypeOf(m.about), m.about.shape);
  if (!bytes.ok()) return Wrong<Description>("shape", bytes.status().message());
  if (m.dead && m.bytes != 0) return Wrong<Offer>("bytes", "a dead value has none, not ", m.bytes);
  if (!m.dead && m.bytes != *bytes) {
    return Wrong<Offer>("bytes", "its description says ", *bytes, ", not ", m.bytes);
  }
  return absl::OkStatus();
}

// The bytes of the value are where it says, and all of them.
absl::Status CheckPlacement(const Offer& m) {
  const Placement& placement = m.placement;
  const int places = int{placement.inline_bytes.has_value()} + int{placement.arena.has_value()} +
                     int{placement.fetch.has_value()};
  if (places != int{m.bytes > 0}) {
    return Wrong<Offer>("placement", "a value of ", m.bytes, " bytes lies in ", places, " places");
  }
  if (places == 0) return absl::OkStatus();
  const uint64_t bytes = placement.inline_bytes.has_value() ? placement.inline_bytes->view.size()
                         : placement.arena.has_value()      ? placement.arena->bytes
                                                            : placement.fetch->bytes;
  if (bytes != m.bytes) {
    return Wrong<Offer>("placement", "the value has ", m.bytes, " bytes, and ", bytes,
                        " were placed");
  }
  if (placement.arena.has_value() &&
      placement.arena->offset > std::numeric_limits<int64_t>::max() - bytes) {
    return Wrong<ArenaPlace>("offset", "the place ends beyond 2^63-1");
  }
  return absl::OkStatus();
}

absl::Status CheckOffer(const Offer& m) {
  if (absl::Status status = CheckKey(m); !status.ok()) return status;
  if (absl::Status status = CheckSize(m); !status.ok()) return status;
  if (absl::Status status = CheckPlacement(m); !status.ok()) return status;
  const bool lent = m.placement.arena.has_value() || m.placement.fetch.has_value();
  if (m.lease == 0 && (lent || m.tell)) {
    return Wrong<Offer>("lease", "it is 0, and what was lent or is to be told of needs one");
  }
  if (!m.dead && !m.why_dead.empty()) return Wrong<Offer>("why_dead", "the value is not dead");
  return CheckText<Offer>("why_dead", m.why_dead);
}

// Wants of a key, one or more.
template <class Message>
absl::Status CheckWants(const Message& m) {
  if (m.first == 0) return Wrong<Message>("first", "it is 0, which is no want");
  if (m.last < m.first) {
    return Wrong<Message>("last", "it is ", m.last, ", and the first is ", m.first);
  }
  return CheckKey(m);
}

template <class Message>
absl::Status CheckLease(const Message& m) {
  if (m.lease == 0) return Wrong<Message>("lease", "it is 0, which is no lease");
  return absl::OkStatus();
}

absl::Status Check(const Want& m) { return CheckWants(m); }
absl::Status Check(const Unwant& m) {
  if (m.want == 0) return Wrong<Unwant>("want", "it is 0, which is no want");
  return CheckKey(m);
}
absl::Status Check(const Offer& m) { return CheckOffer(m); }
absl::Status Check(const Taken& m) { return CheckLease(m); }
absl::Status Check(const Released& m) { return CheckLease(m); }
absl::Status Check(const Credit& m) {
  if (m.values == 0) return Wrong<Credit>("values", "it is 0");
  return absl::OkStatus();
}
absl::Status Check(const Refuse& m) {
  if (absl::Status status = CheckWants(m); !status.ok()) return status;
  return CheckFailure(m.why);
}
absl::Status Check(const AbortStep& m) {
  if (absl::Status status = CheckStep(m); !status.ok()) return status;
  return CheckFailure(m.why);
}
absl::Status Check(const StepClosed& m) { return CheckStep(m); }

rv::ErrorPtr ToError(Failure& m) {
  rv::Error error = {
      .code = static_cast<absl::StatusCode>(m.code),
      .reason = static_cast<rv::Reason>(static_cast<int32_t>(m.reason) - kReasonsAbove),
      .message = std::move(m.message)};
  if (m.origin.has_value()) error.origin = MemberIndex(*m.origin);
  return std::make_shared<const rv::Error>(std::move(error));
}

Placed ToPlaced(const Placement& m) {
  if (m.inline_bytes.has_value()) return *m.inline_bytes;
  if (m.arena.has_value()) return *m.arena;
  if (m.fetch.has_value()) return *m.fetch;
  return {};
}

rv::PeerMessage From(Want& m) {
  return rv::Want{.step = rv::StepId(m.step),
                  .name = std::move(m.name),
                  .first = rv::WantId(m.first),
                  .last = rv::WantId(m.last)};
}
rv::PeerMessage From(Unwant& m) {
  return rv::Unwant{
      .step = rv::StepId(m.step), .name = std::move(m.name), .want = rv::WantId(m.want)};
}
rv::PeerMessage From(Offer& m) {
  return rv::Offer{.step = rv::StepId(m.step),
                   .name = std::move(m.name),
                   .value = {.about = {.type = TypeOf(m.about), .shape = std::move(m.about.shape)},
                             .bytes = m.bytes,
                             .dead = m.dead,
                             .why_dead = std::move(m.why_dead)},
                   .lease = rv::LeaseId(m.lease),
                   .answers = rv::WantId(m.answers),
                   .tell = m.tell};
}
rv::PeerMessage From(Taken& m) { return rv::Taken{.lease = rv::LeaseId(m.lease)}; }
rv::PeerMessage From(Released& m) { return rv::Released{.lease = rv::LeaseId(m.lease)}; }
rv::PeerMessage From(Credit& m) { return rv::Credit{.values = m.values, .bytes = m.bytes}; }
rv::PeerMessage From(Refuse& m) {
  return rv::Refuse{.step = rv::StepId(m.step),
                    .name = std::move(m.name),
                    .first = rv::WantId(m.first),
                    .last = rv::WantId(m.last),
                    .why = ToError(m.why)};
}
rv::PeerMessage From(AbortStep& m) {
  return rv::AbortStep{.step = rv::StepId(m.step), .why = ToError(m.why)};
}
rv::PeerMessage From(StepClosed& m) { return rv::StepClosed{.step = rv::StepId(m.step)}; }

}  // namespace

std::string EncodePeerMessage(const rv::PeerMessage& message, const Placed& placed) {
  PeerMessage wire;
  std::visit(ToWire{placed, wire}, message);
  return Encode(wire);
}

absl::StatusOr<DecodedPeerMessage> DecodePeerMessage(std::string_view bytes) {
  absl::StatusOr<PeerMessage> wire = Decode<PeerMessage>(bytes);
  if (!wire.ok()) return wire.status();
  int messages = 0;
  absl::Status wrong;
  ForEachField<PeerMessage>([&](const auto& field) {
    const auto& message = (*wire).*field.member;
    if (!message.has_value()) return;
    ++messages;
    wrong.Update(Check(*message));
  });
  if (messages != 1) {
    return absl::InvalidArgumentError(absl::StrCat("cannot take ", std::string(PeerMessage::kName),
                                                   ": it has ", messages,
                                                   " messages that this version knows, not one"));
  }
  if (!wrong.ok()) return wrong;
  DecodedPeerMessage decoded;
  ForEachField<PeerMessage>([&](const auto& field) {
    auto& message = (*wire).*field.member;
    if (message.has_value()) decoded.message = From(*message);
  });
  if (wire->offer.has_value()) decoded.placed = ToPlaced(wire->offer->placement);
  return decoded;
}

}  // namespace lockstep::wire::native
