#include "lockstep/preempt/signal_watch.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/testing/running_source.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::MakeOne;
using lockstep::testing::Running;

std::atomic<int> calls = 0;
void Count(int) { ++calls; }

// Stands for the handler of a program, until the test ends.
class ProgramsHandler {
 public:
  explicit ProgramsHandler(int signal, void (*handler)(int) = &Count) : signal_(signal) {
    calls = 0;
    struct sigaction action = {};
    action.sa_handler = handler;
    ::sigaction(signal, &action, &before_);
  }
  ~ProgramsHandler() { ::sigaction(signal_, &before_, nullptr); }

 private:
  const int signal_;
  struct sigaction before_ = {};
};

TEST(SignalSource, TheFirstIsANoticeAndAlsoGoesToTheHandlerBefore) {
  const ProgramsHandler handler(SIGUSR1);
  Running signal("signal:signals=USR1,lead=30s");
  ::raise(SIGUSR1);
  EXPECT_EQ(calls, 1);
  const SourceEvent event = signal.log.Next();
  EXPECT_EQ(event.id, "SIGUSR1");
  EXPECT_LE(event.left, absl::Seconds(30));
  EXPECT_TRUE(absl::StrContains(event.text, absl::StrCat("from process ", ::getpid())));
}

TEST(SignalSource, TheSecondGoesToTheHandlerBeforeAndIsNoOtherNotice) {
  const ProgramsHandler handler(SIGUSR1);
  Running signal("signal:signals=USR1,chain=no");
  ::raise(SIGUSR1);
  EXPECT_EQ(calls, 0);
  ::raise(SIGUSR1);
  EXPECT_EQ(calls, 1);
  signal.log.Next();
  signal.set.Stop();
  EXPECT_EQ(signal.log.size(), 1);
}

TEST(SignalSource, WithoutAHandlerBeforeTheSecondActsAsByDefault) {
  EXPECT_EXIT(
      {
        Running signal("signal");
        ::raise(SIGTERM);
        signal.log.Next();
        ::raise(SIGTERM);
        ::_exit(0);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(SignalSource, WhoIgnoresASignalGoesOnIgnoringIt) {
  const ProgramsHandler handler(SIGUSR2, SIG_IGN);
  Running signal("signal:signals=USR2");
  ::raise(SIGUSR2);
  ::raise(SIGUSR2);
  EXPECT_EQ(signal.log.Next().id, "SIGUSR2");
}

TEST(SignalSource, InAForkedChildSignalsActAsBeforeAndTheParentHearsNothing) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "in a forked child the thread sanitizer puts signals off for ever";
#endif
  Running signal("signal");
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(SIGTERM);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  signal.set.Stop();
  EXPECT_EQ(signal.log.size(), 0);
}

TEST(SignalSource, AForkedChildMayStopIt) {
  Running signal("signal");
  signal.log.NextHealth(true);
  const pid_t child = ::fork();
  if (child == 0) {
    signal.set.Stop();
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  ::raise(SIGTERM);
  EXPECT_EQ(signal.log.Next().id, "SIGTERM");
}

TEST(SignalSource, WhatWasBeforeIsThereAgainAfterTheStop) {
  const ProgramsHandler handler(SIGUSR1);
  { Running signal("signal:signals=USR1"); }
  struct sigaction current = {};
  ::sigaction(SIGUSR1, nullptr, &current);
  EXPECT_EQ(current.sa_handler, &Count);
}

TEST(SignalSource, AHandlerThatTookOurPlaceIsTold) {
  const ProgramsHandler before(SIGUSR1);
  Running signal("signal:signals=USR1,interval=1ms");
  signal.log.NextHealth(true);
  const ProgramsHandler after(SIGUSR1);
  EXPECT_TRUE(absl::StrContains(signal.log.NextHealth(false).last_error, "SIGUSR1 was replaced"));
}

TEST(SignalSource, ASignalIsWatchedOnceInAProcess) {
  const ProgramsHandler handler(SIGUSR1);
  Running signal("signal:signals=USR1");
  SourceSet second(MakeOne("signal:signals=TERM+USR1"), {});
  EXPECT_EQ(second.Start().code(), absl::StatusCode::kAlreadyExists);
  ::raise(SIGUSR1);
  EXPECT_EQ(signal.log.Next().id, "SIGUSR1");
}

TEST(ParseSignals, TakesThoseThatEndAProcess) {
  EXPECT_EQ(*ParseSignals("SIGTERM+USR1+TERM"), (std::vector<int>{SIGTERM, SIGUSR1}));
  EXPECT_FALSE(ParseSignals("KILL").ok());
  EXPECT_FALSE(ParseSignals("").ok());
}

}  // namespace
}  // namespace lockstep::preempt
