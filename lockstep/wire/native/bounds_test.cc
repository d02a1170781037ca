#include "lockstep/wire/native/bounds.h"

#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/codec_templates.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/data_messages.h"
#include "lockstep/wire/native/data_service_messages.h"
#include "lockstep/wire/native/link_messages.h"
#include "lockstep/wire/native/node_group_messages.h"
#include "lockstep/wire/native/preemption_messages.h"
#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/rendezvous_messages.h"

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
       {Refusal(PollNodeGroup{.host = text}), Refusal(PollNodeGroup{.run = text}),
        Refusal(WorkerPoll{.tags = {text}}), Refusal(WorkerPoll{.host = text}),
        Refusal(Hello{.who = text})}) {
    EXPECT_THAT(refusal, AllOf(HasSubstr("has 4194304 bytes"), HasSubstr("name_bytes_max")));
  }
  EXPECT_THAT(Refusal(PollNodeGroup{.addresses = {text}}), HasSubstr("address_bytes_max"));
  EXPECT_THAT(Refusal(TellNodeGroup{.text = text}), HasSubstr("sentence_bytes_max"));
  EXPECT_THAT(Refusal(ConsumerPoll{.waits_for = text}), HasSubstr("sentence_bytes_max"));
  EXPECT_THAT(Refusal(WorkerPoll{.host_card = {text}}), HasSubstr("host_card_bytes_max"));
}

TEST(Bounds, Finding08_AListThatAStrangerMadeLongIsRefusedByName) {
  const std::vector<std::string> many(kFew.max + 1, "a");
  EXPECT_EQ(Refusal(WorkerPoll{.tags = many}),
            "cannot decode lockstep.v1.WorkerPoll.tags has 1025 elements, and may have 1024 "
            "(list_short_max)");
  EXPECT_THAT(Refusal(PollNodeGroup{.addresses = many}), HasSubstr("has 1025 elements"));
}

TEST(Bounds, WhatIsAsLongAsItMayBeIsTaken) {
  const std::vector<std::string> most(kFew.max, std::string(kNameBytes.max, 'a'));
  const PollNodeGroup poll{.host = std::string(kNameBytes.max, 'h'), .addresses = most};
  const auto decoded = Decode<PollNodeGroup>(Encode(poll));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, poll);
}

// Packed and unpacked numbers count alike.
struct Numbers {
  std::vector<int32_t> values;
  static constexpr std::string_view kName = "test.Numbers";
  template <class Visit, class M = Numbers>
  static constexpr void Fields(Visit&& visit) {
    visit(Field(1, "values", &M::values, kAnyNumber, Bound{"three_max", 3}));
  }
};

TEST(Bounds, NumbersAreCountedPackedOrNot) {
  EXPECT_EQ(Refusal(Numbers{.values = {1, 2, 3}}), "accepted");
  EXPECT_THAT(Refusal(Numbers{.values = {1, 2, 3, 4}}), HasSubstr("three_max"));
  EXPECT_TRUE(Decode<Numbers>(std::string_view("\x08\x01\x08\x01\x08\x01")).ok());
  EXPECT_FALSE(Decode<Numbers>(std::string_view("\x08\x01\x08\x01\x08\x01\x08\x01")).ok());
}

TEST(Bounds, Finding08_ANumberOutOfItsRangeIsRefusedByName) {
  EXPECT_EQ(Refusal(ProcessReport{.pid = -1}),
            "cannot decode lockstep.v1.ProcessReport.pid is -1, and may be from 0 to 2147483647 "
            "(pid_max)");
  for (const std::string& refusal : {Refusal(ProcessReport{.pid = int64_t{1} << 31}),
                                     Refusal(JoinJob{.pid = -1}), Refusal(PollNodeGroup{.pid = -1}),
                                     Refusal(WorkerPoll{.pid = -1}), Refusal(Card{.pid = -1})}) {
    EXPECT_THAT(refusal, HasSubstr("pid_max"));
  }
  EXPECT_THAT(Refusal(ProcessReport{.signal = 1000}), HasSubstr("signal_max"));
  EXPECT_THAT(Refusal(ConsumerPoll{.unacknowledged = -1}), HasSubstr("whole_number_max"));
  EXPECT_THAT(Refusal(ConsumerPoll{.unacknowledged_bytes = uint64_t{1} << 63}),
              HasSubstr("is 9223372036854775808, and may be from 0 to 9223372036854775807"));
  EXPECT_THAT(Refusal(ConsumerPoll{.counts = {{.elements = -1}}}),
              HasSubstr("SegmentCount.elements is -1"));
  EXPECT_EQ(Refusal(ProcessReport{.pid = kPid.max, .exit_code = -7, .signal = 64}), "accepted");
}

struct Small {
  std::vector<int32_t> list;
  std::optional<uint64_t> one;
  static constexpr std::string_view kName = "test.Small";
  template <class Visit, class M = Small>
  static constexpr void Fields(Visit&& visit) {
    constexpr Range kRange = {"small", -2, 5};
    visit(Field(1, "list", &M::list, kRange, kFew));
    visit(Field(2, "one", &M::one, Range{"from_two", 2, 5}));
  }
};

TEST(Bounds, ARangeHoldsItsEndsPackedOrNotAndWithEitherSign) {
  EXPECT_EQ(Refusal(Small{.list = {-2, 0, 5}, .one = 2}), "accepted");
  EXPECT_THAT(Refusal(Small{.list = {0, -3}}), HasSubstr("is -3, and may be from -2 to 5 (small)"));
  EXPECT_THAT(Refusal(Small{.list = {6}}), HasSubstr("is 6"));
  EXPECT_FALSE(Decode<Small>(std::string_view("\x08\x06")).ok());
  EXPECT_THAT(Refusal(Small{.one = 1}), HasSubstr("from_two"));
  EXPECT_THAT(Refusal(Small{.one = ~uint64_t{0}}), HasSubstr("is 18446744073709551615"));
  EXPECT_TRUE(kAnyNumber.Holds(std::numeric_limits<int64_t>::min()));
  EXPECT_TRUE(kAnyNumber.Holds(std::numeric_limits<uint64_t>::max()));
}

// Old clients may say these, and are told by name what is wrong with them or taken as before.
TEST(Bounds, WhatTheMachineChecksIsNotRefusedHere) {
  EXPECT_EQ(Refusal(JoinJob{.index = -1, .timeout_us = -1, .attempt = -1}), "accepted");
  EXPECT_EQ(Refusal(NotifyPreemption{.left_us = -1}), "accepted");
  EXPECT_EQ(Refusal(ConsumerPoll{.wait_us = -1, .element_time_us = -1}), "accepted");
}

// What a message that forgets a bound looks like to `Decode`, which does not compile with it.
struct Forgetful {
  std::string text;
  static constexpr std::string_view kName = "test.Forgetful";
  template <class Visit, class M = Forgetful>
  static constexpr void Fields(Visit&& visit) {
    visit(Field(1, "text", &M::text));
  }
};
struct HoldsForgetful {
  std::vector<Forgetful> inner;
  static constexpr std::string_view kName = "test.HoldsForgetful";
  template <class Visit, class M = HoldsForgetful>
  static constexpr void Fields(Visit&& visit) {
    visit(Field(1, "inner", &M::inner, {}, kFew));
  }
};

struct ForgetsANumber {
  std::optional<int64_t> number;
  static constexpr std::string_view kName = "test.ForgetsANumber";
  template <class Visit, class M = ForgetsANumber>
  static constexpr void Fields(Visit&& visit) {
    visit(Field(1, "number", &M::number));
  }
};
struct ForgetsNumbers {
  std::vector<uint32_t> numbers;
  static constexpr std::string_view kName = "test.ForgetsNumbers";
  template <class Visit, class M = ForgetsNumbers>
  static constexpr void Fields(Visit&& visit) {
    visit(Field(1, "numbers", &M::numbers, {}, kFew));
  }
};

TEST(Bounds, Finding08_AMessageThatForgetsABoundIsFoundWhenCompiled) {
  EXPECT_FALSE(StatesItsBounds<ForgetsANumber>());
  EXPECT_FALSE(StatesItsBounds<ForgetsNumbers>());
  EXPECT_FALSE(StatesItsBounds<Forgetful>());
  EXPECT_FALSE(StatesItsBounds<HoldsForgetful>());
  EXPECT_TRUE(StatesItsBounds<Numbers>());
  // From strangers, and no requests.
  EXPECT_TRUE((StatesItsBounds<Hello>() && StatesItsBounds<Answered>()));
  EXPECT_TRUE(StatesItsBounds<Farewell>());
  EXPECT_TRUE((StatesItsBounds<Card>() && StatesItsBounds<PeerHello>()));
  EXPECT_TRUE((StatesItsBounds<PeerWelcome>() && StatesItsBounds<PeerMessage>()));
  EXPECT_TRUE((StatesItsBounds<FetchChunk>() && StatesItsBounds<SegmentNotice>()));
  EXPECT_TRUE((StatesItsBounds<DataDefinition>() && StatesItsBounds<DataManifest>()));
  EXPECT_TRUE(StatesItsBounds<RendezvousReport>());
  // Only the answers and entries of our own server are taken without.
  EXPECT_TRUE((IsFromOurServer<StatusReply>() && IsFromOurServer<Welcome>()));
  EXPECT_FALSE((IsFromOurServer<Hello>() || IsFromOurServer<PeerWelcome>()));
}

}  // namespace
}  // namespace lockstep::wire::native
