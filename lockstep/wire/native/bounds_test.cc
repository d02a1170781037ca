#include "lockstep/wire/native/bounds.h"

#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/crew_messages.h"
#include "lockstep/wire/native/data_service_messages.h"
#include "lockstep/wire/native/link_messages.h"
#include "lockstep/wire/native/process_messages.h"

namespace lockstep::wire::native {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kAttackBytes = size_t{4} << 20;

template <class Message>
std::string Refusal(const Message& message) {
  const auto decoded = Decode<Message>(Encode(message));
  return decoded.ok() ? "accepted" : std::string(decoded.status().message());
}

TEST(Bounds, Finding08_ATextThatAStrangerMadeLongIsRefusedByName) {
  const std::string text(kAttackBytes, 'h');
  EXPECT_EQ(Refusal(ProcessReport{.host = text}),
            "cannot decode lockstep.v1.ProcessReport.host has 4194304 bytes, and may have 256 "
            "(name_bytes_max)");
  for (const std::string& refusal :
       {Refusal(PollCrew{.host = text}), Refusal(PollCrew{.run = text}),
        Refusal(WorkerPoll{.tags = {text}}), Refusal(WorkerPoll{.host = text}),
        Refusal(Hello{.who = text})}) {
    EXPECT_THAT(refusal, AllOf(HasSubstr("has 4194304 bytes"), HasSubstr("name_bytes_max")));
  }
  EXPECT_THAT(Refusal(PollCrew{.addresses = {text}}), HasSubstr("address_bytes_max"));
  EXPECT_THAT(Refusal(TellCrew{.text = text}), HasSubstr("sentence_bytes_max"));
  EXPECT_THAT(Refusal(ConsumerPoll{.waits_for = text}), HasSubstr("sentence_bytes_max"));
  EXPECT_THAT(Refusal(WorkerPoll{.host_card = {text}}), HasSubstr("host_card_bytes_max"));
}

TEST(Bounds, Finding08_AListThatAStrangerMadeLongIsRefusedByName) {
  const std::vector<std::string> many(kFew.max + 1, "a");
  EXPECT_EQ(Refusal(WorkerPoll{.tags = many}),
            "cannot decode lockstep.v1.WorkerPoll.tags has 1025 elements, and may have 1024 "
            "(list_short_max)");
  EXPECT_THAT(Refusal(PollCrew{.addresses = many}), HasSubstr("has 1025 elements"));
}

TEST(Bounds, WhatIsAsLongAsItMayBeIsTaken) {
  const std::vector<std::string> most(kFew.max, std::string(kNameBytes.max, 'a'));
  const PollCrew poll{.host = std::string(kNameBytes.max, 'h'), .addresses = most};
  const auto decoded = Decode<PollCrew>(Encode(poll));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, poll);
}

// Packed and unpacked numbers count alike.
struct Numbers {
  std::vector<int32_t> values;
  static constexpr std::string_view kName = "test.Numbers";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "values", &Numbers::values, {}, Bound{"three_max", 3}));
  }
};

TEST(Bounds, NumbersAreCountedPackedOrNot) {
  EXPECT_EQ(Refusal(Numbers{.values = {1, 2, 3}}), "accepted");
  EXPECT_THAT(Refusal(Numbers{.values = {1, 2, 3, 4}}), HasSubstr("three_max"));
  EXPECT_TRUE(Decode<Numbers>(std::string_view("\x08\x01\x08\x01\x08\x01")).ok());
  EXPECT_FALSE(Decode<Numbers>(std::string_view("\x08\x01\x08\x01\x08\x01\x08\x01")).ok());
}

// What a request that forgets a bound looks like to kinds.h, which does not compile it.
struct Forgetful {
  std::string text;
  static constexpr std::string_view kName = "test.Forgetful";
  static constexpr auto Fields() { return std::make_tuple(Field(1, "text", &Forgetful::text)); }
};
struct HoldsForgetful {
  std::vector<Forgetful> inner;
  static constexpr std::string_view kName = "test.HoldsForgetful";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "inner", &HoldsForgetful::inner, {}, kFew));
  }
};

TEST(Bounds, Finding08_ARequestThatForgetsABoundIsFoundWhenCompiled) {
  EXPECT_FALSE(StatesItsBounds<Forgetful>());
  EXPECT_FALSE(StatesItsBounds<HoldsForgetful>());
  EXPECT_TRUE(StatesItsBounds<Numbers>());
  EXPECT_TRUE(StatesItsBounds<Hello>());
}

}  // namespace
}  // namespace lockstep::wire::native
