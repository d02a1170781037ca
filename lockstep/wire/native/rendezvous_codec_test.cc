#include "lockstep/wire/native/rendezvous_codec.h"

#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::wire::native {
namespace {

namespace rv = rendezvous;
using ::testing::HasSubstr;

const rv::StepId kStep(7);

rv::Offer Floats(uint64_t lease = 0) {
  return {.step = kStep,
          .name = "weights",
          .value = {.about = {.type = {.code = 2, .bits = 32}, .shape = {2}}, .bytes = 8},
          .lease = rv::LeaseId(lease)};
}

rv::ErrorPtr Why(std::string text = "it broke") {
  rv::Error error = {.code = absl::StatusCode::kAborted,
                     .reason = rv::Reason::kStepAborted,
                     .message = std::move(text),
                     .origin = MemberIndex(3)};
  return std::make_shared<const rv::Error>(error);
}

// What `bytes` say, which must be lawful and stay good.
DecodedPeerMessage Decoded(const std::string& bytes) {
  auto decoded = DecodePeerMessage(bytes);
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return decoded.ok() ? *std::move(decoded) : DecodedPeerMessage{};
}

template <class Message>
Message Echo(const Message& message) {
  const auto decoded = Decoded(EncodePeerMessage(message));
  const auto* echo = std::get_if<Message>(&decoded.message);
  EXPECT_NE(echo, nullptr);
  return echo == nullptr ? Message{} : *echo;
}

TEST(RendezvousCodec, ReadsEachMessageAsItWasWritten) {
  const auto want =
      Echo(rv::Want{.step = kStep, .name = "a", .first = rv::WantId(3), .last = rv::WantId(5)});
  EXPECT_EQ(want.step, kStep);
  EXPECT_EQ(want.name, "a");
  EXPECT_EQ(want.first.value(), 3u);
  EXPECT_EQ(want.last.value(), 5u);
  const auto unwant =
      Echo(rv::Unwant{.step = rv::StepId(0), .name = "b", .want = rv::WantId(UINT64_MAX)});
  EXPECT_EQ(unwant.name, "b");
  EXPECT_EQ(unwant.want.value(), UINT64_MAX);
  EXPECT_EQ(Echo(rv::Taken{.lease = rv::LeaseId(4)}).lease.value(), 4u);
  EXPECT_EQ(Echo(rv::Released{.lease = rv::LeaseId(5)}).lease.value(), 5u);
  const auto credit = Echo(rv::Credit{.values = 2, .bytes = 9});
  EXPECT_EQ(credit.values, 2u);
  EXPECT_EQ(credit.bytes, 9u);
  EXPECT_EQ(Echo(rv::StepClosed{.step = kStep}).step, kStep);
  const auto refuse = Echo(rv::Refuse{
      .step = kStep, .name = "c", .first = rv::WantId(1), .last = rv::WantId(2), .why = Why()});
  EXPECT_EQ(refuse.name, "c");
  EXPECT_EQ(refuse.first.value(), 1u);
  EXPECT_EQ(refuse.last.value(), 2u);
  const auto abort = Echo(rv::AbortStep{.step = kStep, .why = Why()});
  ASSERT_NE(abort.why, nullptr);
  EXPECT_EQ(abort.why->code, absl::StatusCode::kAborted);
  EXPECT_EQ(abort.why->reason, rv::Reason::kStepAborted);
  EXPECT_EQ(abort.why->message, "it broke");
  EXPECT_EQ(abort.why->origin, MemberIndex(3));
}

TEST(RendezvousCodec, ReadsAnOfferWithItsDescription) {
  rv::Offer offer = Floats(6);
  offer.answers = rv::WantId(9);
  offer.tell = true;
  const std::string bytes = EncodePeerMessage(offer, FetchPlace{.bytes = 8});
  const auto decoded = Decoded(bytes);
  const auto& echo = std::get<rv::Offer>(decoded.message);
  EXPECT_EQ(echo.name, "weights");
  EXPECT_EQ(echo.value.about, offer.value.about);
  EXPECT_EQ(echo.value.bytes, 8u);
  EXPECT_EQ(echo.lease.value(), 6u);
  EXPECT_EQ(echo.answers.value(), 9u);
  EXPECT_TRUE(echo.tell);
  EXPECT_FALSE(echo.value.dead);
  EXPECT_EQ(std::get<FetchPlace>(decoded.placed).bytes, 8u);
}

TEST(RendezvousCodec, DoesNotCopyBytesThatCameAlong) {
  const std::string bytes = EncodePeerMessage(Floats(), BytesView{"12345678"});
  const auto decoded = Decoded(bytes);
  const std::string_view view = std::get<BytesView>(decoded.placed).view;
  EXPECT_EQ(view, "12345678");
  EXPECT_GE(view.data(), bytes.data());
  EXPECT_LE(view.data() + view.size(), bytes.data() + bytes.size());
}

TEST(RendezvousCodec, SaysWhereInTheArenaAValueLies) {
  const ArenaPlace place = {.segment = 2, .offset = 4096, .bytes = 8, .generation = 11};
  const auto decoded = Decoded(EncodePeerMessage(Floats(1), place));
  EXPECT_EQ(std::get<ArenaPlace>(decoded.placed), place);
}

TEST(RendezvousCodec, PlacesNeitherDeadValuesNorThoseWithoutBytes) {
  rv::Offer dead = {.step = kStep, .name = "a", .value = {.dead = true, .why_dead = "not taken"}};
  const auto decoded = Decoded(EncodePeerMessage(dead));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(decoded.placed));
  EXPECT_TRUE(std::get<rv::Offer>(decoded.message).value.dead);
  EXPECT_EQ(std::get<rv::Offer>(decoded.message).value.why_dead, "not taken");
  rv::Offer empty = Floats();
  empty.value.about.shape = {0};
  empty.value.bytes = 0;
  EXPECT_TRUE(std::holds_alternative<std::monostate>(
      Decoded(EncodePeerMessage(empty, BytesView{})).placed));
}

TEST(RendezvousCodec, HasTheSameNameForEachReasonAsTheRendezvous) {
  for (int32_t reason = 0; reason <= static_cast<int32_t>(rv::Reason::kProtocol); ++reason) {
    const auto ours = static_cast<rv::Reason>(reason);
    const auto why = rv::MakeError(absl::StatusCode::kInternal, ours, "x");
    const auto wire =
        Decode<PeerMessage>(std::string_view(EncodePeerMessage(rv::AbortStep{kStep, why})));
    ASSERT_TRUE(wire.ok());
    EXPECT_EQ(NameOf(wire->abort_step->why.reason), ReasonName(ours));
    EXPECT_EQ(Echo(rv::AbortStep{kStep, why}).why->reason, ours);
  }
}

TEST(RendezvousCodec, CutsATextThatIsTooLongAtACharacter) {
  std::string text = "x";
  while (text.size() <= kErrorTextBytesMax) text += "ü";
  const auto echo = Echo(rv::AbortStep{.step = kStep, .why = Why(text)});
  EXPECT_EQ(echo.why->message.size(), kErrorTextBytesMax - 1);
  EXPECT_EQ(Echo(rv::AbortStep{.step = kStep, .why = Why("\xff")}).why->message, "\uFFFD");
}

// Each row: what is changed in a lawful message, and the field that the refusal names.
struct Row {
  std::string_view field;
  std::function<void(PeerMessage&)> spoil;
};

void ExpectRefused(const PeerMessage& lawful, const std::vector<Row>& rows) {
  ASSERT_TRUE(DecodePeerMessage(Encode(lawful)).ok()) << DecodePeerMessage(Encode(lawful)).status();
  for (const Row& row : rows) {
    PeerMessage message = lawful;
    row.spoil(message);
    const auto decoded = DecodePeerMessage(Encode(message));
    ASSERT_FALSE(decoded.ok()) << row.field;
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(decoded.status().message(), HasSubstr(std::string(row.field)));
  }
}

Offer LawfulOffer() {
  return {.step = 1,
          .name = "a",
          .about = {.code = 2, .bits = 32, .lanes = 1, .shape = {2}},
          .bytes = 8,
          .lease = 1,
          .placement = {.fetch = FetchPlace{.bytes = 8}}};
}

TEST(RendezvousCodec, RefusesAnOfferThatDoesNotFit) {
  const ArenaPlace beyond = {
      .offset = std::numeric_limits<int64_t>::max() - 7, .bytes = 8, .generation = 1};
  ExpectRefused(
      {.offer = LawfulOffer()},
      {{"Offer.step", [](PeerMessage& m) { m.offer->step = -1; }},
       {"Offer.name", [](PeerMessage& m) { m.offer->name = ""; }},
       {"Offer.name", [](PeerMessage& m) { m.offer->name.assign(513, 'x'); }},
       {"Offer.name", [](PeerMessage& m) { m.offer->name = "\xff"; }},
       {"Description.code", [](PeerMessage& m) { m.offer->about.code = 256; }},
       {"Description.bits", [](PeerMessage& m) { m.offer->about.bits = 0; }},
       {"Description.bits", [](PeerMessage& m) { m.offer->about.bits = 256 + 32; }},
       {"Description.lanes", [](PeerMessage& m) { m.offer->about.lanes = 0; }},
       {"Description.lanes", [](PeerMessage& m) { m.offer->about.lanes = 65537; }},
       {"Description.shape", [](PeerMessage& m) { m.offer->about.shape = {-2}; }},
       {"Description.shape",
        [](PeerMessage& m) {
          m.offer->about.shape.assign(33, 1);
          m.offer->about.shape[0] = 2;
        }},
       {"Description.shape", [](PeerMessage& m) { m.offer->about.shape.assign(32, 4); }},
       {"Offer.bytes", [](PeerMessage& m) { m.offer->about.shape = {3}; }},
       {"Offer.bytes", [](PeerMessage& m) { m.offer->dead = true; }},
       {"Offer.placement", [](PeerMessage& m) { m.offer->placement.fetch.reset(); }},
       {"Offer.placement", [](PeerMessage& m) { m.offer->placement.fetch->bytes = 7; }},
       {"Offer.placement",
        [](PeerMessage& m) { m.offer->placement.inline_bytes = BytesView{"12345678"}; }},
       {"Offer.placement",
        [](PeerMessage& m) { m.offer->placement = {.inline_bytes = BytesView{"1234567"}}; }},
       {"ArenaPlace.offset", [&](PeerMessage& m) { m.offer->placement = {.arena = beyond}; }},
       {"Offer.lease", [](PeerMessage& m) { m.offer->lease = 0; }},
       {"Offer.why_dead", [](PeerMessage& m) { m.offer->why_dead = "x"; }}});
}

TEST(RendezvousCodec, RefusesADeadValueWithBytesOrAnEndlessText) {
  const Offer dead = {.name = "a", .about = {.code = 1, .bits = 8, .lanes = 1}, .dead = true};
  ExpectRefused({.offer = dead},
                {{"Offer.placement", [](PeerMessage& m) { m.offer->placement.fetch.emplace(); }},
                 {"Offer.lease", [](PeerMessage& m) { m.offer->tell = true; }},
                 {"Offer.why_dead", [](PeerMessage& m) { m.offer->why_dead.assign(3073, 'x'); }}});
}

TEST(RendezvousCodec, RefusesMessagesOfWhichAFieldIsOutOfItsRange) {
  ExpectRefused({.want = Want{.name = "a", .first = 2, .last = 2}},
                {{"Want.step", [](PeerMessage& m) { m.want->step = -1; }},
                 {"Want.name", [](PeerMessage& m) { m.want->name = ""; }},
                 {"Want.first", [](PeerMessage& m) { m.want->first = 0; }},
                 {"Want.last", [](PeerMessage& m) { m.want->last = 1; }}});
  ExpectRefused({.unwant = Unwant{.name = "a", .want = 1}},
                {{"Unwant.name", [](PeerMessage& m) { m.unwant->name = ""; }},
                 {"Unwant.want", [](PeerMessage& m) { m.unwant->want = 0; }}});
  ExpectRefused({.taken = Taken{1}}, {{"Taken.lease", [](PeerMessage& m) { m.taken->lease = 0; }}});
  ExpectRefused({.released = Released{1}},
                {{"Released.lease", [](PeerMessage& m) { m.released->lease = 0; }}});
  ExpectRefused({.credit = Credit{1, 0}},
                {{"Credit.values", [](PeerMessage& m) { m.credit->values = 0; }}});
  ExpectRefused({.step_closed = StepClosed{0}},
                {{"StepClosed.step", [](PeerMessage& m) { m.step_closed->step = -1; }}});
  ExpectRefused(
      {.refuse =
           Refuse{
               .name = "a", .why = {.code = 1, .reason = FailureReason(1)}, .first = 2, .last = 3}},
      {{"Refuse.name", [](PeerMessage& m) { m.refuse->name = ""; }},
       {"Refuse.first", [](PeerMessage& m) { m.refuse->first = 0; }},
       {"Refuse.last", [](PeerMessage& m) { m.refuse->last = 1; }},
       {"Failure.code", [](PeerMessage& m) { m.refuse->why.code = 0; }}});
}

TEST(RendezvousCodec, RefusesAFailureThatCannotBe) {
  ExpectRefused(
      {.abort_step = AbortStep{.why = {.code = 16, .reason = FailureReason::kProtocol}}},
      {{"AbortStep.step", [](PeerMessage& m) { m.abort_step->step = -1; }},
       {"Failure.code", [](PeerMessage& m) { m.abort_step->why.code = 17; }},
       {"Failure.reason", [](PeerMessage& m) { m.abort_step->why.reason = FailureReason(0); }},
       {"Failure.reason", [](PeerMessage& m) { m.abort_step->why.reason = FailureReason(17); }},
       {"Failure.origin", [](PeerMessage& m) { m.abort_step->why.origin = -1; }},
       {"Failure.origin", [](PeerMessage& m) { m.abort_step->why.origin = kMembersMax; }},
       {"Failure.message", [](PeerMessage& m) { m.abort_step->why.message.assign(3073, 'x'); }}});
}

TEST(RendezvousCodec, WantsExactlyOneMessage) {
  ExpectRefused({.taken = Taken{1}},
                {{"0 messages", [](PeerMessage& m) { m.taken.reset(); }},
                 {"2 messages", [](PeerMessage& m) { m.released = Released{1}; }}});
}

}  // namespace
}  // namespace lockstep::wire::native
