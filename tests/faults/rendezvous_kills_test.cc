// Members that die in the midst of an exchange, at each point of the protocol: the other one ends
// in time, with an error that names the dead one, holds nothing of it any more, and goes on with a
// third.
#include <sys/wait.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/faulty_job.h"

namespace lockstep::faults {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

enum class Victim { kProducer, kConsumer };
enum class Over { kMemory, kNetwork };

struct Kill {
  const char* point;
  Victim victim;
  Over over;
  int times = 1;
  // What the dying one may still have said of the step, beside that it is gone.
  const char* word = "peer_lost";
  // Of two members the one with the smaller index dials.
  bool consumer_is_first = false;
};

std::string NameOf(const testing::TestParamInfo<Kill>& info) {
  std::string name = absl::StrCat(info.param.victim == Victim::kProducer ? "Producer" : "Consumer",
                                  info.param.over == Over::kMemory ? "ByMemory" : "ByNetwork", "_",
                                  info.param.point, "_", info.param.times,
                                  info.param.consumer_is_first ? "_consumer_first" : "");
  for (char& c : name) c = c == '/' ? '_' : c;
  return name;
}

// By the hand of a fault point.
bool Died(WorkerProcess& process) {
  while (process.Hear().has_value()) {
  }
  process.Signal(SIGTERM);
  const int status = process.Wait();
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

class RendezvousKills : public testing::TestWithParam<Kill> {
 protected:
  RendezvousKills() {
    if (GetParam().consumer_is_first) std::swap(producer_, consumer_);
    const bool producer_dies = GetParam().victim == Victim::kProducer;
    victim_ = producer_dies ? producer_ : consumer_;
    survivor_ = producer_dies ? consumer_ : producer_;
    job_.Begin(GetParam().over == Over::kMemory);
  }

  // What the two are to do in step 2. Neither waits for longer than it takes to notice a death.
  std::vector<std::string> ConsumerDoes() const {
    std::vector<std::string> lines = {absl::StrCat("recv 2 early ", producer_, " 1 64")};
    int number = 0;
    for (const size_t bytes : FaultyJob::kSizes) {
      lines.push_back(absl::StrCat("recv 2 x ", producer_, " ", ++number, " ", bytes));
    }
    lines.push_back(absl::StrCat("recv 2 into ", producer_, " 1 3000000 into"));
    lines.push_back(absl::StrCat("recv 2 told ", producer_, " 1 64"));
    lines.push_back(absl::StrCat("recv 2 told ", producer_, " 2 50000"));
    lines.push_back("drop");
    const bool dies = GetParam().victim == Victim::kConsumer;
    lines.push_back(dies ? HowTheStepEnds() : absl::StrCat("recv 2 never ", producer_, " 1 64"));
    return lines;
  }
  std::vector<std::string> ProducerDoes() const {
    std::vector<std::string> lines = {absl::StrCat("send 2 early ", consumer_, " 1 64")};
    int number = 0;
    for (const size_t bytes : FaultyJob::kSizes) {
      lines.push_back(absl::StrCat("send 2 x ", consumer_, " ", ++number, " ", bytes));
    }
    lines.push_back(absl::StrCat("send 2 into ", consumer_, " 1 3000000"));
    lines.push_back(absl::StrCat("send 2 told ", consumer_, " 1 64 acked"));
    lines.push_back(absl::StrCat("send 2 told ", consumer_, " 2 50000 acked"));
    const bool dies = GetParam().victim == Victim::kProducer;
    lines.push_back(dies ? HowTheStepEnds() : absl::StrCat("recv 2 never ", consumer_, " 1 64"));
    return lines;
  }
  static std::string HowTheStepEnds() {
    return GetParam().word == std::string("step_aborted") ? "abort 2 broken" : "close 2";
  }

  // The consumer asks first; until its first receive is known to wait, or the victim is dead,
  // nothing is sent.
  void Exchange() {
    for (const std::string& line : ConsumerDoes()) job_[consumer_].Say(line);
    const std::string waits = absl::StrCat(" wanted/2/early/", consumer_, "=1 ");
    const auto until = std::chrono::steady_clock::now() + kPatience;
    std::string stats;
    while (!job_[victim_].ended() && !absl::StrContains(stats, waits)) {
      stats = job_[producer_].Ask("stats");
      if (std::chrono::steady_clock::now() > until) {
        ADD_FAILURE() << "the producer does not know that the consumer waits: " << stats;
        break;
      }
    }
    for (const std::string& line : ProducerDoes()) job_[producer_].Say(line);
    EXPECT_TRUE(Died(job_[victim_])) << "it never came to " << GetParam().point
                                     << "; of the producer, before it sent: " << stats;
  }

  // Each of its calls was answered: well, or with who is gone.
  void ExpectAnswers() {
    const size_t count = survivor_ == consumer_ ? ConsumerDoes().size() : ProducerDoes().size();
    std::string last;
    for (size_t i = 0; i < count; ++i) {
      last = job_[survivor_].Hear().value_or("(it has ended)");
      if (absl::StartsWith(last, "ok")) continue;
      EXPECT_THAT(last, AnyOf(HasSubstr(" peer_lost "),
                              HasSubstr(absl::StrCat(" ", GetParam().word, " "))));
      EXPECT_THAT(last, HasSubstr(FaultyJob::NameOf(victim_)));
    }
    EXPECT_THAT(last, StartsWith("error"));
  }

  FaultyJob job_{3};
  int producer_ = 0;
  int consumer_ = 1;
  int victim_ = 0;
  int survivor_ = 0;
};

TEST_P(RendezvousKills, LeaveTheOtherOneWellWithTheRightError) {
  constexpr int kThird = 2;
  WorkerProcess& survivor = job_[survivor_];
  job_.Transfer(survivor_, kThird);
  job_.Transfer(kThird, survivor_);
  job_.AwaitNothingHeld(survivor_);
  const auto before = survivor.Stats();
  job_[victim_].Expect(absl::StrCat("arm ", GetParam().point, ":", GetParam().times, ":kill"));
  job_.OpenStep(2);

  Exchange();

  ExpectAnswers();
  survivor.Expect("step 3");
  const std::string next = survivor.Ask(absl::StrCat("recv 3 x ", victim_, " 1 64"));
  EXPECT_THAT(next, StartsWith("error UNAVAILABLE peer_lost "));
  EXPECT_THAT(next, HasSubstr(FaultyJob::NameOf(victim_)));
  survivor.Expect("close 2");
  survivor.Expect("drop");
  job_.AwaitNothingHeld(survivor_, before);
  job_[kThird].Expect("step 3");
  job_.Transfer(survivor_, kThird, 3);
  job_.Transfer(kThird, survivor_, 3);
}

INSTANTIATE_TEST_SUITE_P(
    OfTheConnection, RendezvousKills,
    testing::ValuesIn(std::vector<Kill>{
        {"memory/dialed", Victim::kProducer, Over::kMemory},
        {"memory/confirmed", Victim::kProducer, Over::kMemory},
        {"memory/welcomed", Victim::kConsumer, Over::kMemory},
        {"memory/dialed", Victim::kConsumer, Over::kMemory, 1, "peer_lost", true},
        {"memory/confirmed", Victim::kConsumer, Over::kMemory, 1, "peer_lost", true},
        {"memory/welcomed", Victim::kProducer, Over::kMemory, 1, "peer_lost", true},
        {"memory/knocked", Victim::kConsumer, Over::kMemory},
        {"link/dialed", Victim::kConsumer, Over::kNetwork},
        {"link/welcomed", Victim::kProducer, Over::kNetwork},
        {"link/written", Victim::kProducer, Over::kNetwork},
        {"link/written", Victim::kProducer, Over::kNetwork, 4},
        {"link/written", Victim::kConsumer, Over::kNetwork},
        {"link/written", Victim::kConsumer, Over::kNetwork, 4},
    }),
    NameOf);

INSTANTIATE_TEST_SUITE_P(OfValues, RendezvousKills,
                         testing::ValuesIn(std::vector<Kill>{
                             {"rendezvous/value_copied", Victim::kProducer, Over::kMemory},
                             {"rendezvous/value_copied", Victim::kProducer, Over::kMemory, 3},
                             {"memory/segment_told", Victim::kProducer, Over::kMemory},
                             {"rendezvous/offer_due", Victim::kProducer, Over::kMemory, 3},
                             {"rendezvous/offer_sent", Victim::kProducer, Over::kMemory},
                             {"rendezvous/offer_sent", Victim::kProducer, Over::kMemory, 3},
                             {"rendezvous/offer_due", Victim::kProducer, Over::kNetwork, 3},
                             {"rendezvous/offer_sent", Victim::kProducer, Over::kNetwork},
                             {"rendezvous/offer_sent", Victim::kProducer, Over::kNetwork, 3},
                             {"rendezvous/want_sent", Victim::kConsumer, Over::kMemory},
                             {"rendezvous/want_sent", Victim::kConsumer, Over::kNetwork},
                             {"rendezvous/lease_taken", Victim::kConsumer, Over::kMemory},
                             {"rendezvous/lease_taken", Victim::kConsumer, Over::kMemory, 2},
                             {"rendezvous/lease_ended", Victim::kConsumer, Over::kMemory},
                             {"rendezvous/lease_ended", Victim::kConsumer, Over::kNetwork},
                             {"rendezvous/taken_sent", Victim::kConsumer, Over::kMemory},
                             {"rendezvous/taken_sent", Victim::kConsumer, Over::kMemory, 2},
                             {"rendezvous/taken_sent", Victim::kConsumer, Over::kNetwork},
                             {"rendezvous/taken_sent", Victim::kConsumer, Over::kNetwork, 2},
                         }),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(OfBulk, RendezvousKills,
                         testing::ValuesIn(std::vector<Kill>{
                             {"bulk/dialed", Victim::kConsumer, Over::kNetwork},
                             {"bulk/greeted", Victim::kProducer, Over::kNetwork},
                             {"bulk/asked", Victim::kConsumer, Over::kNetwork, 2},
                             {"bulk/part_sent", Victim::kProducer, Over::kNetwork, 3},
                             {"bulk/chunk_sent", Victim::kProducer, Over::kNetwork, 3},
                             {"bulk/chunk_come", Victim::kConsumer, Over::kNetwork},
                             {"bulk/chunk_come", Victim::kConsumer, Over::kNetwork, 3},
                         }),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(
    OfSteps, RendezvousKills,
    testing::ValuesIn(std::vector<Kill>{
        {"rendezvous/step_closed", Victim::kProducer, Over::kMemory, 1, "step_closed"},
        {"rendezvous/step_closed", Victim::kConsumer, Over::kMemory, 1, "step_closed"},
        {"rendezvous/step_closed", Victim::kProducer, Over::kNetwork, 1, "step_closed"},
        {"rendezvous/step_closed", Victim::kConsumer, Over::kNetwork, 1, "step_closed"},
        {"rendezvous/abort_sent", Victim::kProducer, Over::kMemory, 1, "step_aborted"},
        {"rendezvous/abort_sent", Victim::kConsumer, Over::kMemory, 1, "step_aborted"},
        {"rendezvous/abort_sent", Victim::kProducer, Over::kNetwork, 1, "step_aborted"},
        {"rendezvous/abort_sent", Victim::kConsumer, Over::kNetwork, 1, "step_aborted"},
    }),
    NameOf);

class RendezvousDeaths : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Over, RendezvousDeaths, testing::Bool(),
                         [](const auto& memory) { return memory.param ? "Memory" : "Network"; });

TEST_P(RendezvousDeaths, OfBothLeaveTheOthersWell) {
  FaultyJob job(4);
  job.Begin(GetParam());
  job.Transfer(2, 3);
  job.Transfer(0, 2);
  job.Transfer(1, 2);
  job.AwaitNothingHeld(2);
  const auto before = job[2].Stats();
  job[0].Expect("arm rendezvous/offer_sent:2:kill");
  job[1].Expect("arm rendezvous/want_sent:1:kill");
  job[2].Say("recv 1 x 0 1 64");

  job[1].Say("recv 1 x 0 1 64");
  EXPECT_TRUE(Died(job[1]));
  job[0].Say("send 1 x 1 1 100000");
  job[0].Say("send 1 y 2 1 100000");
  job[0].Say("send 1 y 2 2 100000");
  EXPECT_TRUE(Died(job[0]));

  const std::string waited = job[2].Hear().value_or("");
  EXPECT_THAT(waited, StartsWith("error UNAVAILABLE peer_lost "));
  EXPECT_THAT(waited, HasSubstr("trainer/0"));
  const std::string sent = job[2].Ask("send 1 x 1 1 100000 acked");
  EXPECT_THAT(sent, StartsWith("error UNAVAILABLE peer_lost "));
  EXPECT_THAT(sent, HasSubstr("trainer/1"));
  job[2].Expect("close 1");
  job.AwaitNothingHeld(2, before);
  job.OpenStep(2);
  job.Transfer(2, 3, 2);
  job.Transfer(3, 2, 2);
}

TEST_P(RendezvousDeaths, RendezvousRow101_OfAConsumerInTheMidstOfAValueGiveItsMemoryBack) {
  FaultyJob job(3);
  job.Begin(GetParam());
  job[1].Expect(GetParam() ? "arm rendezvous/lease_taken:1:kill" : "arm bulk/chunk_come:2:kill");
  job[1].Say("recv 1 x 0 1 3000000");
  job[0].Expect("send 1 x 1 1 3000000");
  // Those that it may be too late for.
  for (int i = 2; i <= 3; ++i) job[0].Ask(absl::StrCat("send 1 x 1 ", i, " 3000000"));
  EXPECT_TRUE(Died(job[1]));
  job.AwaitNothingHeld(0);
}

TEST_P(RendezvousDeaths, RendezvousRow102_OfAProducerInTheMidstOfAValueAreUnavailable) {
  FaultyJob job(3);
  job.Begin(GetParam());
  job[0].Expect(GetParam() ? "arm memory/segment_told:1:kill" : "arm bulk/part_sent:3:kill");
  job[1].Say("recv 1 x 0 1 3000000 into");
  job[0].Say("send 1 x 1 1 3000000");
  EXPECT_TRUE(Died(job[0]));
  const std::string received = job[1].Hear().value_or("");
  EXPECT_THAT(received, StartsWith("error UNAVAILABLE peer_lost "));
  EXPECT_THAT(received, HasSubstr("trainer/0"));
  job.AwaitNothingHeld(1);
}

}  // namespace
}  // namespace lockstep::faults
