// The server is killed in the midst of a preemption and started again on the same directory: the
// preemption goes on, and all save at one step.
#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/client/member.h"
#include "lockstep/client/preemption.h"
#include "tests/durability/server.h"
#include "tests/native/preemption_workers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kMembers = 3;
constexpr absl::Duration kLong = absl::Minutes(10);

std::vector<std::unique_ptr<Member>> JoinAll(const Server& server) {
  std::vector<std::future<absl::StatusOr<std::unique_ptr<Member>>>> joining;
  for (size_t i = 0; i < kMembers; ++i) {
    joining.push_back(std::async(std::launch::async, [&server, i] {
      return Join({.address = server.address(), .job = "work", .index = static_cast<int32_t>(i)});
    }));
  }
  std::vector<std::unique_ptr<Member>> members;
  for (auto& one : joining) {
    auto member = one.get();
    EXPECT_TRUE(member.ok()) << member.status();
    if (member.ok()) members.push_back(*std::move(member));
  }
  return members;
}

// Three members whose polls the test makes itself. The third has not begun, and holds the others at
// the hold until it does.
class PreemptionRestart : public ::testing::Test {
 protected:
  PreemptionRestart() {
    for (const auto& member : members_) {
      preemptions_.push_back(Preemption::Open(*member, {.stride = 1, .wait_max = kLong}));
    }
    AwaitListening(members_);
  }
  void SetUp() override { ASSERT_EQ(members_.size(), kMembers) << server_.Log(); }

  Preemption& at(int member) { return *preemptions_[member]; }
  PreemptionNotice Await(int member, const std::string& phase) {
    const auto give_up = Clock::now() + kPatience;
    while (true) {
      PreemptionNotice notice = at(member).notice();
      if (notice.phase == phase) return notice;
      if (Clock::now() >= give_up) {
        ADD_FAILURE() << "member " << member << " is in " << notice.phase << ", not in " << phase;
        return notice;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::future<bool> PollAside(int member, int64_t step) {
    return std::async(std::launch::async,
                      [this, member, step] { return at(member).Reached(step); });
  }
  void ExpectToSaveAt(int member, int64_t from, int64_t step) {
    for (int64_t poll = from; poll < step; ++poll) EXPECT_FALSE(at(member).Reached(poll));
    EXPECT_TRUE(at(member).Reached(step));
    at(member).Saved(step, absl::StrCat("/ckpt/", step));
  }
  void KillAndRestart() {
    server_.Kill();
    server_.Restart();
  }

  Server server_{absl::StrCat("work=", kMembers),
                 {"--preempt-awaits-all", "--preempt-sync-timeout", "10m"}};
  std::vector<std::unique_ptr<Member>> members_ = JoinAll(server_);
  std::vector<std::unique_ptr<Preemption>> preemptions_;
};

TEST_F(PreemptionRestart, PreemptionKilled01_TheServerBeforeTheWindow) {
  ASSERT_TRUE(at(0).Notify("test", "1", absl::Hours(2), "maintenance").ok());
  for (int member : {0, 1, 2}) Await(member, "pending");
  KillAndRestart();
  // Answered by the next server, which knows of it.
  ASSERT_TRUE(at(1).Notify("test", "2", absl::Hours(1)).ok());
  for (int member : {0, 1, 2}) {
    while (at(member).notice().sources.size() < 2) std::this_thread::yield();
    const PreemptionNotice notice = at(member).notice();
    EXPECT_EQ(notice.id, 1);
    EXPECT_EQ(notice.phase, "pending");
    EXPECT_LE(*notice.left, absl::Hours(1));
  }
}

TEST_F(PreemptionRestart, PreemptionKilled02_TheServerWhileMembersAgree) {
  at(0).Reached(5);
  at(1).Reached(3);
  ASSERT_TRUE(at(1).Notify("test", "1", absl::Minutes(9)).ok());
  for (int member : {0, 1, 2}) Await(member, "holding");
  std::future<bool> first = PollAside(0, 6);
  std::future<bool> second = PollAside(1, 4);
  KillAndRestart();
  // It begins, and with that the others are let go.
  std::future<bool> third = PollAside(2, 1);
  for (int member : {0, 1, 2}) EXPECT_EQ(Await(member, "agreed").step, 6);
  EXPECT_TRUE(first.get());
  EXPECT_FALSE(second.get());
  EXPECT_FALSE(third.get());
  at(0).Saved(6, "/ckpt/6");
  ExpectToSaveAt(1, 5, 6);
  ExpectToSaveAt(2, 2, 6);
  for (int member : {0, 1, 2}) {
    const PreemptionNotice ended = Await(member, "ended");
    EXPECT_EQ(ended.id, 1);
    EXPECT_EQ(ended.outcome, "saved") << ended.text;
  }
}

TEST_F(PreemptionRestart, PreemptionKilled03_TheServerBetweenTheAgreementAndTheLastSave) {
  for (int member : {0, 1, 2}) at(member).Reached(member);
  ASSERT_TRUE(at(1).Notify("test", "1", absl::Minutes(9)).ok());
  for (int member : {0, 1, 2}) ASSERT_EQ(Await(member, "agreed").step, 3);
  ExpectToSaveAt(0, 1, 3);
  KillAndRestart();
  ExpectToSaveAt(1, 2, 3);
  KillAndRestart();
  ExpectToSaveAt(2, 3, 3);
  for (int member : {0, 1, 2}) {
    const PreemptionNotice ended = Await(member, "ended");
    EXPECT_EQ(ended.id, 1);
    EXPECT_EQ(ended.outcome, "saved") << ended.text;
    EXPECT_THAT(ended.text, HasSubstr("3 of 3 members saved at step 3"));
  }
}

TEST_F(PreemptionRestart, PreemptionKilled10_TheServerJustBeforeANotice) {
  at(0).Reached(5);
  at(1).Reached(3);
  at(2).Reached(4);
  KillAndRestart();
  // Whoever is back first; the next server does not know yet who else listens.
  ASSERT_TRUE(at(1).Notify("test", "1", absl::Minutes(9)).ok());
  for (int member : {0, 1, 2}) Await(member, "agreed");
  ExpectToSaveAt(0, 6, 6);
  ExpectToSaveAt(1, 4, 6);
  ExpectToSaveAt(2, 5, 6);
  for (int member : {0, 1, 2}) EXPECT_EQ(Await(member, "ended").outcome, "saved");
}

TEST(PreemptionRestarts, PreemptionKilled04_TheServerAtAnyMoment) {
  Server server(absl::StrCat("work=", kMembers));
  Workers workers(JoinAll(server));
  workers.Run();
  std::mt19937 random(7);
  for (int64_t id = 1; id <= 5; ++id) {
    const int subject = static_cast<int>(id % kMembers);
    ASSERT_TRUE(
        workers.preemption(subject).Notify("test", absl::StrCat(id), absl::Minutes(5)).ok());
    const auto moment = Clock::now() + std::chrono::microseconds(random() % 3000);
    while (Clock::now() < moment) {
    }
    server.Kill();
    server.Restart();
    const PreemptionNotice ended = workers.WaitForEnd(subject, id);
    EXPECT_EQ(ended.id, id);
    EXPECT_EQ(ended.outcome, "saved") << ended.text;
    EXPECT_EQ(workers.SavedIn(id), kMembers);
    EXPECT_THAT(workers.StepsOf(id), ElementsAre(*ended.step));
  }
}

}  // namespace
}  // namespace lockstep
