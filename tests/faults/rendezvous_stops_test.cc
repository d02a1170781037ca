// Members that stop (SIGSTOP, a debugger, a host that swaps): who waits ends by its own deadline
// and learns for whom it waited; when they go on, nothing is missing; when they do not, they are
// lost.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/faulty_job.h"

namespace lockstep::faults {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class RendezvousStops : public testing::TestWithParam<bool> {
 protected:
  static bool by_memory() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Over, RendezvousStops, testing::Bool(),
                         [](const auto& memory) { return memory.param ? "Memory" : "Network"; });

TEST_P(RendezvousStops, AStoppedProducerIsNamedAndDeliversWhenItGoesOn) {
  FaultyJob job(2);
  job.Begin(by_memory());
  job.Transfer(0, 1);
  job[0].Signal(SIGSTOP);
  job[0].AwaitStopped();
  job[1].Expect("timeout 300");
  const std::string late = job[1].Ask("recv 1 x 0 1 100000");
  EXPECT_THAT(late, StartsWith("error DEADLINE_EXCEEDED receive_timed_out "));
  EXPECT_THAT(late, HasSubstr("trainer/0"));

  job[0].Signal(SIGCONT);
  job[1].Expect("timeout 20000");
  job[0].Expect("send 1 x 1 1 100000");
  job[1].Expect("recv 1 x 0 1 100000");
}

TEST_P(RendezvousStops, AProducerThatStopsInTheMidstOfAValueDeliversItWhole) {
  FaultyJob job(2);
  job.Begin(by_memory());
  job.Transfer(0, 1);
  job[0].Expect(by_memory() ? "arm rendezvous/offer_sent:1:stop" : "arm bulk/part_sent:3:stop");
  job[1].Expect(by_memory() ? "timeout 60000" : "timeout 5000");
  job[1].Say("recv 1 x 0 1 9000000");
  job[0].Say("send 1 x 1 1 9000000");
  job[0].AwaitStopped();
  const std::string answer = job[1].Hear().value_or("");
  if (by_memory()) {
    // It had said where, and is not needed any more.
    EXPECT_THAT(answer, StartsWith("ok"));
  } else {
    EXPECT_THAT(answer, StartsWith("error DEADLINE_EXCEEDED receive_timed_out "));
    EXPECT_THAT(answer, HasSubstr("its bytes did not come from trainer/0"));
  }
  job[0].Signal(SIGCONT);
  EXPECT_THAT(job[0].Hear().value_or(""), StartsWith("ok"));
  job[1].Expect("timeout 20000");
  if (!by_memory()) job[1].Expect("recv 1 x 0 1 9000000");
  job[1].Expect("drop");
  job.AwaitNothingHeld(0);
}

TEST_P(RendezvousStops, AStoppedConsumerIsNamedAndReceivesWhenItGoesOn) {
  FaultyJob job(2);
  job.Begin(by_memory());
  job.Transfer(0, 1);
  job[1].Signal(SIGSTOP);
  job[1].AwaitStopped();
  job[0].Expect("timeout 300");
  const std::string late = job[0].Ask("send 1 x 1 1 100000 acked");
  EXPECT_THAT(late, StartsWith("error DEADLINE_EXCEEDED receive_timed_out "));
  EXPECT_THAT(late, HasSubstr("trainer/1"));
  for (int i = 2; i <= 50; ++i) job[0].Expect(absl::StrCat("send 1 x 1 ", i, " 100000"));

  job[1].Signal(SIGCONT);
  for (int i = 1; i <= 50; ++i) job[1].Expect(absl::StrCat("recv 1 x 0 ", i, " 100000"));
  job[1].Expect("drop");
  job.AwaitNothingHeld(0);
}

TEST_P(RendezvousStops, OneThatStaysStoppedIsLost) {
  FaultyJob job(3, /*heartbeat_timeout=*/absl::Seconds(5));
  job.Begin(by_memory());
  job.Transfer(0, 1);
  job[0].Signal(SIGSTOP);
  job[0].AwaitStopped();
  for (const char* what : {"recv 1 x 0 1 100000", "send 1 x 0 1 100000 acked"}) {
    const std::string lost = job[1].Ask(what);
    EXPECT_THAT(lost, StartsWith("error UNAVAILABLE peer_lost "));
    EXPECT_THAT(lost, HasSubstr("trainer/0"));
  }
  job.AwaitNothingHeld(1);
  job.Transfer(1, 2);
}

}  // namespace
}  // namespace lockstep::faults
