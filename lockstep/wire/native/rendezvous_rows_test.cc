// Rows of docs/conformance-rendezvous.md that the codec decides: what a value says of itself, and
// what bytes that nobody should send do.
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/rendezvous_codec.h"

namespace lockstep::wire::native {
namespace {

namespace rv = rendezvous;

rv::Offer OfferOf(rv::ElementType type, std::vector<int64_t> shape) {
  rv::Offer offer = {.step = rv::StepId(7), .name = "x", .lease = rv::LeaseId(1)};
  offer.value.about = {.type = type, .shape = std::move(shape)};
  offer.value.bytes = *rv::BytesOf(type, offer.value.about.shape);
  return offer;
}

rv::Value Echo(const rv::Offer& offer) {
  Placed placed;
  if (offer.value.bytes > 0) placed = FetchPlace{.bytes = offer.value.bytes};
  const auto decoded = DecodePeerMessage(EncodePeerMessage(offer, placed));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return decoded.ok() ? std::get<rv::Offer>(decoded->message).value : rv::Value();
}

void ExpectSame(const rv::Value& came, const rv::Value& sent) {
  EXPECT_EQ(came.about, sent.about) << rv::NameOf(sent.about.type);
  EXPECT_EQ(came.bytes, sent.bytes) << rv::NameOf(sent.about.type);
  EXPECT_EQ(came.dead, sent.dead);
}

// As DLPack codes them: those of upstream's tests, and of the quantized ones the integers that they
// are.
const std::vector<rv::ElementType> kUpstreamTypes = {
    {2, 32}, {2, 64},  {0, 32}, {1, 16}, {1, 8},  {0, 16}, {0, 8},  // float to int8
    {5, 64}, {5, 128}, {0, 64}, {6, 8},  {4, 16}, {2, 16}};         // complex64 to half

TEST(RendezvousRow, RendezvousRow60_ADeadValueKeepsItsTypeAndShape) {
  rv::Offer offer = OfferOf({.code = 4, .bits = 16}, {3, 0, 5});
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3, 0, 5}, {3, 4}, {}}) {
    offer.value = {.about = {.type = {.code = 4, .bits = 16}, .shape = shape}, .dead = true};
    ExpectSame(Echo(offer), offer.value);
  }
}

TEST(RendezvousRow, RendezvousRow90_ValuesOfEachTypeAndLengthSayWhatTheyAre) {
  std::vector<int64_t> lengths;
  for (int64_t n = 0; n < 100; ++n) lengths.push_back(n);
  for (int64_t n = 1000; n <= 10'000; n += 1000) lengths.push_back(n);
  for (const rv::ElementType type : kUpstreamTypes) {
    for (const int64_t n : lengths) {
      const rv::Offer offer = OfferOf(type, {1, n});
      ASSERT_EQ(offer.value.bytes, static_cast<uint64_t>(n) * type.bits / 8);
      ExpectSame(Echo(offer), offer.value);
    }
    rv::Offer dead = OfferOf(type, {1, 0});
    dead.value.dead = true;
    ExpectSame(Echo(dead), dead.value);
  }
}

TEST(RendezvousRow, RendezvousRow94_EmptyTensorsAndScalarsKeepTheirShape) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {0}, {2, 0, 3}, {huge, 0}, {1, 1, 1}}) {
    const rv::Offer offer = OfferOf({.code = 2, .bits = 32}, shape);
    ExpectSame(Echo(offer), offer.value);
  }
}

TEST(RendezvousRow, RendezvousRow95_SmallAndUnusualTypesSayWhatTheyAre) {
  std::vector<rv::ElementType> types = {{1, 32}, {1, 64}, {0, 4}, {1, 4}, {1, 1}, {3, 128}};
  for (uint8_t code = 7; code <= 14; ++code) types.push_back({code, 8});  // float8
  types.insert(types.end(), {{15, 6}, {16, 6}, {17, 4}, {17, 4, 2}, {0, 4, 2}, {200, 255, 65535}});
  for (const rv::ElementType type : types) {
    for (const int64_t n : {0, 1, 7}) {
      const rv::Offer offer = OfferOf(type, {n, 3});
      ExpectSame(Echo(offer), offer.value);
    }
  }
}

TEST(RendezvousRow, RendezvousRow95_OfLessThanAByteEachElementTakesOneUnlessPackedInLanes) {
  EXPECT_EQ(OfferOf({.code = 17, .bits = 4}, {6}).value.bytes, 6);
  EXPECT_EQ(OfferOf({.code = 17, .bits = 4, .lanes = 2}, {3}).value.bytes, 3);
}

// One of each kind, with every field set.
std::vector<std::pair<rv::PeerMessage, Placed>> LawfulMessages() {
  const auto why = std::make_shared<const rv::Error>(rv::Error{.code = absl::StatusCode::kAborted,
                                                               .reason = rv::Reason::kStepAborted,
                                                               .message = "it broke",
                                                               .origin = MemberIndex(3)});
  const rv::StepId step(7);
  rv::Offer offer = OfferOf({.code = 2, .bits = 32}, {2, 3});
  offer.answers = rv::WantId(6);
  offer.tell = true;
  const rv::WantId first(3);
  const rv::WantId last(4);
  return {{rv::Want{step, "x", first, last}, {}},
          {rv::Unwant{step, "x", last}, {}},
          {offer, BytesView{"123456789012345678901234"}},
          {offer, ArenaPlace{.segment = 2, .offset = 4096, .bytes = 24, .generation = 11}},
          {offer, FetchPlace{.bytes = 24}},
          {rv::Taken{rv::LeaseId(4)}, {}},
          {rv::Released{rv::LeaseId(5)}, {}},
          {rv::Credit{2, 9}, {}},
          {rv::Refuse{step, "x", first, last, why}, {}},
          {rv::AbortStep{step, why}, {}},
          {rv::StepClosed{step}, {}}};
}

std::vector<std::string> LawfulBytes() {
  std::vector<std::string> all;
  for (const auto& [message, placed] : LawfulMessages()) {
    all.push_back(EncodePeerMessage(message, placed));
  }
  return all;
}

// In memory that ends with them, so that a sanitizer sees who reads on.
absl::Status StatusOfDecoding(const std::string& bytes) {
  const auto copy = std::make_unique<char[]>(bytes.size());
  bytes.copy(copy.get(), bytes.size());
  return DecodePeerMessage({copy.get(), bytes.size()}).status();
}

void ExpectRefused(const std::string& bytes) {
  EXPECT_EQ(StatusOfDecoding(bytes).code(), absl::StatusCode::kInvalidArgument);
}

TEST(RendezvousRow, RendezvousRow96_AMessageThatEndsTooSoonIsRefused) {
  for (const std::string& bytes : LawfulBytes()) {
    ASSERT_TRUE(StatusOfDecoding(bytes).ok()) << StatusOfDecoding(bytes);
    for (size_t length = 0; length < bytes.size(); ++length) {
      SCOPED_TRACE(length);
      ExpectRefused(bytes.substr(0, length));
    }
  }
}

TEST(RendezvousRow, RendezvousRow96_AMessageThatGoesOnIsRefused) {
  for (const std::string& bytes : LawfulBytes()) {
    for (const char* more : {"\xff", "\x0a", "\x0a\x7f", "\xff\xff\xff\xff\xff\xff\xff\xff"}) {
      ExpectRefused(bytes + more);
    }
    for (const std::string& other : LawfulBytes()) {
      if (other[0] != bytes[0]) ExpectRefused(bytes + other);  // of another kind
    }
  }
}

// So that a later version may say more.
TEST(RendezvousRow, RendezvousRow96_AFieldThatIsNotKnownIsPassedOver) {
  const std::string number = "\xf8\x7f\x05";  // field 2047: 5
  const std::string text = "\xfa\x7f\x02hi";
  for (const auto& [message, placed] : LawfulMessages()) {
    const std::string bytes = EncodePeerMessage(message, placed);
    for (const std::string& with : {bytes + number, text + bytes}) {
      const auto decoded = DecodePeerMessage(with);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(EncodePeerMessage(decoded->message, decoded->placed), bytes);
    }
  }
}

// Bytes of a message with one field, whose number is below 16 and whose length below 128.
std::string Field(int number, const std::string& content) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} +
         content;
}

TEST(RendezvousRow, RendezvousRow96_FieldsMayComeInAnyOrder) {
  const std::string step = "\x08\x07";
  const std::string name = "\x12\x01x";
  const std::string wants = "\x18\x03\x20\x04";
  const std::string lawful =
      EncodePeerMessage(rv::Want{rv::StepId(7), "x", rv::WantId(3), rv::WantId(4)});
  ASSERT_EQ(Field(1, step + name + wants), lawful);
  for (const std::string& fields : {wants + name + step, name + step + wants}) {
    const auto decoded = DecodePeerMessage(Field(1, fields));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(EncodePeerMessage(decoded->message), lawful);
  }
}

TEST(RendezvousRow, RendezvousRow96_OfAFieldThatComesTwiceTheLastCounts) {
  const std::string step = "\x08\x07";
  const auto decoded = DecodePeerMessage(
      Field(1, step + "\x12\x01x" + "\x18\x03" + "\x20\x07" + "\x18\x05" + "\x12\x01y"));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(std::get<rv::Want>(decoded->message).first.value(), 5);
  EXPECT_EQ(std::get<rv::Want>(decoded->message).name, "y");
  // A shape that comes twice has twice the dimensions, which do not fit the bytes.
  const std::string offer = EncodePeerMessage(LawfulMessages()[4].first, FetchPlace{.bytes = 24});
  ExpectRefused(offer + offer);
}

TEST(RendezvousRow, RendezvousRow96_AFieldOfTheWrongKindIsRefused) {
  const std::string name = "\x12\x01x";
  const std::string wants = "\x18\x03\x20\x04";
  ExpectRefused(Field(1, std::string("\x0a\x01\x07") + name + wants));    // a step of bytes
  ExpectRefused(Field(1, std::string("\x08\x07") + "\x10\x01" + wants));  // a name that is a number
  ExpectRefused(std::string("\x08\x07", 2));  // a message that is a number
}

}  // namespace
}  // namespace lockstep::wire::native
