#include "lockstep/rendezvous/rendezvous_machine.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

class Two {
 public:
  Two() : a_(Of(0)), b_(Of(1)) {
    EXPECT_FALSE(a_.OpenStep(now_, StepId(7)));
    EXPECT_FALSE(b_.OpenStep(now_, StepId(7)));
  }

  static Options Of(int32_t self) {
    return {.self = MemberIndex(self), .names = {"task/0", "task/1"}};
  }

  Time now_;
  RendezvousMachine a_;
  RendezvousMachine b_;
};

TEST(RendezvousMachine, GivesAValueToAReceiveOfTheSameMember) {
  Two two;
  Effects out;
  EXPECT_FALSE(two.a_.Send(two.now_, {StepId(7), MemberIndex(0), "x", {.bytes = 5}}, out));
  two.a_.Receive(two.now_, {.op = OpId(1), .step = StepId(7), .from = MemberIndex(0), .name = "x"},
                 out);
  ASSERT_EQ(out.completed.size(), 1);
  EXPECT_EQ(out.completed[0].error, nullptr);
  EXPECT_EQ(out.completed[0].value.bytes, 5);
  EXPECT_EQ(two.a_.held_values(), 0);
}

TEST(RendezvousMachine, OffersAValueUnasked) {
  Two two;
  Effects a;
  EXPECT_FALSE(two.a_.Send(two.now_, {StepId(7), MemberIndex(1), "x", {.bytes = 5}}, a));
  ASSERT_EQ(a.messages.size(), 1);

  Effects b;
  two.b_.Receive(two.now_, {.op = OpId(1), .step = StepId(7), .from = MemberIndex(0), .name = "x"},
                 b);
  EXPECT_TRUE(b.messages.empty()) << "it has not waited yet";
  two.b_.Take(two.now_, MemberIndex(0), std::move(a.messages[0].message), b);
  ASSERT_EQ(b.completed.size(), 1);
  EXPECT_EQ(b.completed[0].value.bytes, 5);
}

}  // namespace
}  // namespace lockstep::rendezvous
