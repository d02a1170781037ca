#include "lockstep/stock/tcpstore/lifetime.h"

#include <string>

#include "gtest/gtest.h"

namespace lockstep::tcpstore {
namespace {

constexpr absl::Duration kRest = absl::Seconds(10);
constexpr int32_t kRanks = 2;

using Forget = Lifetime::Forget;

class LifetimeTest : public testing::Test {
 protected:
  // One comes, as stock torch does: PING by its pid, then ADD. True: as the first of a new run.
  bool Comes(uint64_t connection, uint32_t pid, const Command& asks = Add{"init/", 1},
             const std::string& host = "10.0.0.1") {
    lifetime_.Came(now_, ConnectionId(connection), host);
    EXPECT_EQ(lifetime_.Asks(ConnectionId(connection), Ping{pid}), Forget::kNothing);
    return lifetime_.Asks(ConnectionId(connection), asks) == Forget::kAll;
  }
  bool Leaves(uint64_t connection) { return lifetime_.Left(now_, ConnectionId(connection)); }
  void Visits(uint64_t connection, uint32_t pid) {
    EXPECT_FALSE(Comes(connection, pid));
    EXPECT_FALSE(Leaves(connection));
  }
  void Passes(absl::Duration time) { now_ = now_ + time; }

  Time now_;
  Lifetime lifetime_{kRest, kRanks};
};

TEST_F(LifetimeTest, UseA04_WhoComesLateIsOfTheSameRunWhileNotAllRanksHaveCome) {
  Visits(1, 100);
  Visits(2, 100);  // a second store of the same process
  Visits(3, 100);
  Passes(absl::Hours(2));
  EXPECT_FALSE(Comes(4, 101));
}

TEST_F(LifetimeTest, AFreshProcessAfterAllHaveComeAndGoneAndARestIsANewRun) {
  Visits(1, 100);
  Visits(2, 101);
  Passes(kRest);
  EXPECT_TRUE(Comes(3, 102));
  EXPECT_FALSE(Comes(4, 103)) << "it is of the run that has just begun";
  EXPECT_FALSE(Leaves(3));
  EXPECT_FALSE(Leaves(4));
  Passes(kRest);
  EXPECT_TRUE(Comes(5, 104)) << "and the next";
}

TEST_F(LifetimeTest, WithoutARestNobodyIsOfANewRun) {
  Visits(1, 100);
  Visits(2, 101);
  Passes(kRest - absl::Nanoseconds(1));
  EXPECT_FALSE(Comes(3, 102));
}

TEST_F(LifetimeTest, WhileAnybodyIsConnectedThereIsNoRest) {
  EXPECT_FALSE(Comes(1, 100));
  Visits(2, 101);
  Passes(absl::Hours(1));
  EXPECT_FALSE(Comes(3, 102));
}

TEST_F(LifetimeTest, UseA04_AProcessThatWasThereIsOfTheSameRun) {
  Visits(1, 100);
  Visits(2, 101);
  Passes(absl::Hours(1));
  Visits(3, 101);
  EXPECT_FALSE(Comes(4, 102)) << "and the rest is over";
}

TEST_F(LifetimeTest, ThePidOfAnotherHostIsAnotherProcess) {
  Visits(1, 100);
  EXPECT_FALSE(Comes(2, 100, Add{"init/", 1}, "10.0.0.2"));
  EXPECT_FALSE(Leaves(2));
  Passes(kRest);
  EXPECT_TRUE(Comes(3, 100, Add{"init/", 1}, "10.0.0.3"));
}

TEST_F(LifetimeTest, WhoBeginsOtherwiseThanAStockRunIsInDoubtAndTheKeysStay) {
  for (const Command& asks : {Command(Get{"/a"}), Command(Add{"init/", 2}),
                              Command(Add{"/init/", 1}), Command(Set{"init/", "1"})}) {
    lifetime_.Begin(/*launched=*/false);
    Visits(1, 100);
    Visits(2, 101);
    Passes(kRest);
    EXPECT_FALSE(Comes(3, 102, asks));
    EXPECT_FALSE(Comes(4, 103)) << "it was not the first";
  }
}

TEST_F(LifetimeTest, WhoSaysNoPidIsInDoubt) {
  Visits(1, 100);
  Visits(2, 101);
  Passes(kRest);
  lifetime_.Came(now_, ConnectionId(3), "10.0.0.1");
  EXPECT_EQ(lifetime_.Asks(ConnectionId(3), Add{"init/", 1}), Forget::kNothing);
}

TEST_F(LifetimeTest, WhoOnlyLooksInEndsNoRest) {
  Visits(1, 100);
  Visits(2, 101);
  Passes(kRest);
  lifetime_.Came(now_, ConnectionId(3), "10.0.0.1");
  EXPECT_FALSE(Leaves(3));
  EXPECT_TRUE(Comes(4, 102));
}

TEST_F(LifetimeTest, WithMoreProcessesThanAreRememberedNobodyIsSureToBeNew) {
  const auto most =
      static_cast<uint32_t>(Lifetime::kProcessesLeast + Lifetime::kProcessesPerRank * kRanks);
  for (uint32_t pid = 1; pid <= most; ++pid) Visits(pid, pid);
  Passes(kRest);
  EXPECT_FALSE(Comes(most + 1, most + 1));
}

TEST_F(LifetimeTest, UseA04_UnderALauncherKeysLiveUntilTheLastProcessHasEnded) {
  lifetime_.Begin(/*launched=*/true);
  lifetime_.ProcessStarted(0, 100);
  EXPECT_FALSE(lifetime_.ProcessEnded(0, 100)) << "the other has yet to be started, elsewhere";
  lifetime_.ProcessStarted(1, 101);
  Visits(1, 100);
  Visits(2, 101);
  Passes(absl::Hours(1));
  EXPECT_FALSE(Comes(3, 102)) << "a child of theirs";
  EXPECT_FALSE(Leaves(3));
  EXPECT_FALSE(lifetime_.ProcessEnded(1, 99)) << "late, of one before";
  EXPECT_TRUE(lifetime_.ProcessEnded(1, 101));
  EXPECT_FALSE(lifetime_.ProcessEnded(1, 101)) << "told twice";
}

TEST_F(LifetimeTest, UnderALauncherWhoIsConnectedKeepsTheKeysAsWell) {
  lifetime_.ProcessStarted(0, 100);
  lifetime_.ProcessStarted(1, 101);
  EXPECT_FALSE(Comes(1, 103));
  EXPECT_FALSE(lifetime_.ProcessEnded(0, 100));
  EXPECT_FALSE(lifetime_.ProcessEnded(1, 101));
  EXPECT_TRUE(Leaves(1));
}

TEST_F(LifetimeTest, AnAttemptOfFewerMembersIsOverWithThem) {
  lifetime_.RunBegan(1);
  lifetime_.Launched();
  lifetime_.ProcessStarted(0, 100);
  EXPECT_TRUE(lifetime_.ProcessEnded(0, 100));
  lifetime_.RunBegan(1);
  lifetime_.Begin(/*launched=*/true);
  lifetime_.Launched();
  lifetime_.ProcessStarted(0, 101);
  EXPECT_TRUE(lifetime_.ProcessEnded(0, 101));
  // The next is said to be of all again.
  lifetime_.Begin(/*launched=*/true);
  lifetime_.ProcessStarted(0, 102);
  EXPECT_FALSE(lifetime_.ProcessEnded(0, 102));
}

TEST_F(LifetimeTest, AfterALauncherComesWhoHasNone) {
  lifetime_.Begin(/*launched=*/true);
  for (int32_t member = 0; member < kRanks; ++member) lifetime_.ProcessStarted(member, 100);
  EXPECT_FALSE(lifetime_.ProcessEnded(0, 100));
  EXPECT_TRUE(lifetime_.ProcessEnded(1, 100));
  Visits(1, 1);
  Visits(2, 2);
  Passes(kRest);
  EXPECT_TRUE(Comes(3, 3));
}

TEST_F(LifetimeTest, MembersThatTheJobDoesNotHaveAreNotNoted) {
  lifetime_.ProcessStarted(-1, 100);
  lifetime_.ProcessStarted(kRanks, 100);
  Visits(1, 1);
  Visits(2, 2);
  Passes(kRest);
  EXPECT_TRUE(Comes(3, 3)) << "no launcher has told of anything";
}

TEST_F(LifetimeTest, AProcessGroupThatIsMadeAnewHasNoKeysOfTheOneBefore) {
  EXPECT_FALSE(Comes(1, 100));
  EXPECT_EQ(lifetime_.Asks(ConnectionId(1), Set{"/default_pg/0//cpu//0/0", "a"}), Forget::kNothing);
  EXPECT_FALSE(Leaves(1));
  EXPECT_FALSE(Comes(2, 100));
  EXPECT_EQ(lifetime_.Asks(ConnectionId(2), Set{"/cfg", "a"}), Forget::kNothing);
  EXPECT_EQ(lifetime_.Asks(ConnectionId(2), Set{"/default_pg/0//cpu//0/0", "a"}), Forget::kGroup);
  EXPECT_EQ(lifetime_.Asks(ConnectionId(2), Set{"/default_pg/0//cpu//0/0", "a"}), Forget::kNothing);
}

TEST_F(LifetimeTest, WhoSaysNoPidOrNoSizeOfItsWorldMakesNoGroupAnew) {
  for (uint64_t connection = 1; connection < 5; ++connection) {
    lifetime_.Came(now_, ConnectionId(connection), "10.0.0.1");
    const Command begin = connection % 2 == 0 ? Command(Add{"init/", 1}) : Command(Ping{100});
    EXPECT_EQ(lifetime_.Asks(ConnectionId(connection), begin), Forget::kNothing);
    EXPECT_EQ(lifetime_.Asks(ConnectionId(connection), Get{"/default_pg/a"}), Forget::kNothing);
    EXPECT_FALSE(Leaves(connection));
  }
}

}  // namespace
}  // namespace lockstep::tcpstore
