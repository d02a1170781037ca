// An abort that races with sends and receives: each of them ends, and none is left queued.
//
// LOCKSTEP_ROUNDS=N: how many races (500; under the thread sanitizer a million is asked for now and
// then).
#include <array>
#include <barrier>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/faults/look.h"
#include "tests/native/rendezvous_testing.h"

namespace lockstep::faults {
namespace {

int Rounds() {
  const char* text = std::getenv("LOCKSTEP_ROUNDS");
  int number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : 500;
}

class RendezvousRaces : public RendezvousOverNetwork, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Over, RendezvousRaces, ::testing::Bool(),
                         [](const auto& memory) { return memory.param ? "Memory" : "Network"; });

TEST_P(RendezvousRaces, RendezvousRow27_AnAbortBesideSendsAndReceivesLeavesNothingBehind) {
  Begin(2, GetParam());
  const int rounds = Rounds();
  std::array<absl::Status, 4> ends;  // of send, receive, acknowledged send, abort
  std::barrier begin(5);
  std::barrier end(5);
  std::atomic<bool> stop = false;
  const auto thread = [&](auto act) {
    return std::thread([&, act] {
      while (true) {
        begin.arrive_and_wait();
        if (stop) return;
        act();
        end.arrive_and_wait();
      }
    });
  };
  int round = 0;
  std::vector<std::thread> threads;
  threads.push_back(thread([&] {
    for (int i = 0; i < 3 && ends[0].ok(); ++i) {
      ends[0] = step(0).Send("x", 1, Tensor::Copy(std::string(i == 2 ? 20'000 : 100, 'x')));
    }
  }));
  threads.push_back(thread([&] {
    for (int i = 0; i < 3 && ends[1].ok(); ++i) {
      ends[1] = step(1).Recv("x", 0, {.timeout = kSoon}).status();
    }
  }));
  // Nobody receives it.
  threads.push_back(
      thread([&] { ends[2] = step(1).SendAcked("y", 0, Tensor::Copy("y"), {.timeout = kSoon}); }));
  threads.push_back(thread([&] {
    for (int i = 0; i < (round * 7919) % 64; ++i) std::this_thread::yield();
    ends[3] = step(round % 2).Abort(absl::DataLossError("raced"));
  }));
  for (round = 0; round < rounds && !HasFailure(); ++round) {
    for (size_t i = 0; i < 2; ++i) steps_[i] = *rendezvous_[i]->OpenStep(100 + round);
    ends = {};
    begin.arrive_and_wait();
    end.arrive_and_wait();
    for (const absl::Status& each : {ends[0], ends[1]}) {
      if (!each.ok()) {
        EXPECT_EQ(ReasonOf(each), "step_aborted") << each;
      }
    }
    EXPECT_EQ(ReasonOf(ends[2]), "step_aborted") << ends[2];
    EXPECT_TRUE(ends[3].ok()) << ends[3];
    for (Step& each : steps_) each.Close();
  }
  stop = true;
  begin.arrive_and_wait();
  for (std::thread& each : threads) each.join();
  for (size_t i = 0; i < 2; ++i) {
    for (int look = 0; look < 100; ++look) {
      const auto report = Look(*members_[i], absl::StrCat("look ", i, " ", look), kSoon);
      ASSERT_TRUE(report.ok()) << report.status();
      const bool empty = report->waits == 0 && report->held_values == 0 &&
                         report->arena_used_bytes == 0 && report->wanted.empty();
      if (empty) break;
      // What the other one has let go of is on its way.
      EXPECT_LT(look, 99) << report->waits << " wait, " << report->held_values << " are held";
    }
  }
}

}  // namespace
}  // namespace lockstep::faults
