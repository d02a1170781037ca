#include "lockstep/preempt/signal_watch.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/mutex.h"
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

TEST(SignalSource, PreemptionDefect13_TheFirstIsANoticeAndAlsoGoesToTheHandlerBefore) {
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

// Upstream looks at a flag once a second.
TEST(SignalSource, PreemptionRow14_ASignalWakesWhoWaitsForIt) {
  const ProgramsHandler handler(SIGUSR1);
  Running signal("signal:signals=USR1,interval=24h");
  signal.log.NextHealth(true);
  ::raise(SIGUSR1);
  EXPECT_EQ(signal.log.Next().id, "SIGUSR1");
}

TEST(SignalSource, PreemptionRow17_ASecondSourceHearsOfTheNextSignal) {
  const ProgramsHandler handler(SIGUSR1);
  {
    Running first("signal:signals=USR1");
    ::raise(SIGUSR1);
    first.log.Next();
  }
  Running second("signal:signals=USR1");
  second.log.NextHealth(true);
  EXPECT_EQ(second.log.size(), 0) << "that was told to the first";
  ::raise(SIGUSR1);
  EXPECT_EQ(second.log.Next().id, "SIGUSR1");
}

TEST(SignalSource, PreemptionRow22_ItsThreadIsGoneBehindTheStop) {
  // A thread that was joined leaves the folder a moment later.
  const auto threads = [] {
    const auto all = std::filesystem::directory_iterator("/proc/self/task");
    return std::distance(begin(all), end(all));
  };
  const ProgramsHandler handler(SIGUSR1);
  const auto before = threads();
  Running signal("signal:signals=USR1");
  signal.log.NextHealth(true);
  EXPECT_GT(threads(), before);
  signal.set.Stop();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (threads() > before && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_EQ(threads(), before);
}

// Collectives in a handler, or locks, end in deadlocks: ours writes into a pipe.
TEST(SignalSource, PreemptionDefect23_NothingIsToldInTheHandlerItself) {
  const ProgramsHandler handler(SIGUSR1);
  Mutex held;
  std::promise<std::thread::id> told;
  SourceListener listener;
  listener.on_event = [&](const SourceEvent&) {
    const MutexLock lock(held);
    told.set_value(std::this_thread::get_id());
  };
  SourceSet set(MakeOne("signal:signals=USR1"), listener);
  ASSERT_TRUE(set.Start().ok());
  {
    const MutexLock lock(held);
    ::raise(SIGUSR1);  // comes to this thread, which holds what the listener needs
  }
  EXPECT_NE(told.get_future().get(), std::this_thread::get_id());
  set.Stop();
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

TEST(SignalSource, PreemptionDefect13_AHandlerThatTookOurPlaceIsTold) {
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
