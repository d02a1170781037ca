// Any requests in any order, sensible or not, from members, strangers and lives long gone:
// whatever happens, the harness's own checks hold (each call answered once at most, all by the
// end, deadlines that end, the same effects the second time), and the job can be begun anew.
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using lockstep::testing::CoordinatorHarness;
using lockstep::testing::Succeeded;
using lockstep::testing::Who;

// Asks whatever a seed says.
class Anybody {
 public:
  Anybody(CoordinatorHarness& harness, uint64_t seed) : h_(harness), random_(seed) {}

  void DoSomething() {
    // clang-format off
    switch (Draw(24)) {
      case 0: case 1: case 2: calls_.push_back(h_.Register(Member(), Life(), Patience())); break;
      case 3: calls_.push_back(h_.Heartbeat(Somebody())); break;
      case 4: case 5: calls_.push_back(h_.Poll(Somebody())); break;
      case 6: calls_.push_back(h_.Report(Somebody(), absl::StatusCode::kInternal, "x")); break;
      case 7: calls_.push_back(h_.Leave(Somebody())); break;
      case 8: calls_.push_back(h_.Reset(Somebody())); break;
      case 9: calls_.push_back(h_.Watch(Somebody(), Draw(40) - 2)); break;
      case 10: calls_.push_back(h_.Set(Somebody(), Key(), "17", Draw(2) == 0)); break;
      case 11: calls_.push_back(h_.Get(Somebody(), Key())); break;
      case 12: calls_.push_back(h_.Increment(Somebody(), Key(), Draw(9) - 4)); break;
      case 13: calls_.push_back(h_.Delete(Somebody(), Key())); break;
      case 14: calls_.push_back(h_.List(Somebody(), Key())); break;
      case 15: case 16: case 17: Arrive(); break;
      case 18: calls_.push_back(h_.Cancel(Somebody(), Key(), Draw(3) - 1)); break;
      case 19: calls_.push_back(h_.Alive(Somebody(), List())); break;
      case 20: case 21: HangUp(); break;
      case 22: ProcessChanges(); break;
      case 23: h_.Advance(absl::Milliseconds(Draw(3) == 0 ? Draw(90'000) : Draw(300))); break;
    }
    // clang-format on
  }

  void HangUpAll() {
    for (CallId call : calls_) h_.Hangup(call);
  }

 private:
  int Draw(int below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }
  // Mostly one of the job, sometimes not.
  int Member() { return Draw(10) == 0 ? Draw(9) - 3 : Draw(h_.size()); }
  uint64_t Life() { return static_cast<uint64_t>(1 + Draw(6)); }
  absl::Duration Patience() {
    return Draw(3) == 0 ? absl::Seconds(Draw(30)) : absl::InfiniteDuration();
  }
  Who Somebody() {
    const Who who(Member());
    switch (Draw(12)) {
      case 0:
        return who.As(Life());
      case 1:
        return who.In(ServiceIncarnation(Life()));
      case 2:
        return who.In(h_.service());
      default:
        return who;
    }
  }
  std::string Key() { return std::vector<std::string>{"a", "b", "a/b", "", "/a/"}[Draw(5)]; }
  std::vector<int> List() {
    std::vector<int> list;
    for (int i = Draw(4); i > 0; --i) list.push_back(Member());
    return list;
  }
  void Arrive() {
    const std::vector<int> members = Draw(3) == 0 ? List() : std::vector<int>{};
    calls_.push_back(h_.Arrive(Somebody(), Draw(2) == 0 ? "b1" : "b2",
                               {.counter = Draw(8) == 0 ? Draw(5) - 1 : Draw(2),
                                .timeout = absl::Milliseconds(Draw(5000)),
                                .members = members}));
  }
  void HangUp() {
    if (!calls_.empty())
      h_.Hangup(calls_[static_cast<size_t>(Draw(static_cast<int>(calls_.size())))]);
  }
  void ProcessChanges() {
    const int member = Member();
    const int pid = 1 + Draw(2);
    switch (Draw(4)) {
      case 0:
        return h_.ProcessStarted(member, pid);
      case 1:
        return h_.ProcessEnded(member, pid, Draw(3), Draw(2) * 9);
      case 2:
        return h_.ProcessStopped(member, pid);
      default:
        return h_.ProcessContinued(member, pid);
    }
  }

  CoordinatorHarness& h_;
  std::mt19937_64 random_;
  std::vector<CallId> calls_;
};

class AnyOrder : public ::testing::TestWithParam<CoordinatorOptions> {};

TEST_P(AnyOrder, NothingBreaksAndTheJobCanBeBegunAnew) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    CoordinatorHarness h(GetParam());
    Anybody anybody(h, seed);
    for (int i = 0; i < 300; ++i) {
      anybody.DoSomething();
      // Nobody is refused to leave.
      ASSERT_LE(h.View().waits, GetParam().waits_max + static_cast<size_t>(h.size()));
    }

    // Everybody ends and comes anew: at the second try, since the first may be what fails the job.
    anybody.HangUpAll();
    h.Advance(absl::Hours(3));
    for (int member = 0; member < h.size(); ++member) h.Register(member, 1000);
    h.Advance(absl::Hours(3));
    std::vector<CallId> fresh;
    for (int member = 0; member < h.size(); ++member) {
      fresh.push_back(h.Register(member, static_cast<uint64_t>(2000 + member)));
    }
    for (CallId call : fresh) ASSERT_THAT(h.Reply(call), Succeeded());
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, AnyOrder,
    ::testing::Values(CoordinatorOptions{.size = 1}, CoordinatorOptions{.size = 3},
                      CoordinatorOptions{.size = 3, .recoverable = true},
                      CoordinatorOptions{.size = 4,
                                         .register_timeout = absl::Seconds(20),
                                         .shutdown_timeout = absl::ZeroDuration()},
                      CoordinatorOptions{.size = 2,
                                         .keys_max = 2,
                                         .open_barriers_max = 1,
                                         .waits_max = 4,
                                         .kept_barriers_max = 1,
                                         .kept_errors_max = 2}));

}  // namespace
}  // namespace lockstep::coord
