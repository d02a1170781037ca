#include "lockstep/server/parent_watch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::server {
namespace {

// A process that lives until its pipe ends; forked before any thread.
class Parent {
 public:
  Parent() {
    EXPECT_EQ(pipe(pipe_), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(pipe_[1]);
      char byte;
      _exit(static_cast<int>(read(pipe_[0], &byte, 1)));
    }
  }
  ~Parent() { End(); }

  void End() {
    if (pid_ == 0) return;
    close(pipe_[0]);
    close(pipe_[1]);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  int pipe_[2];
  pid_t pid_ = 0;
};

// What a server does whose process ends: waits for the signal that ends it.
void WatchAProcessThatEnds() {
  Parent parent;
  auto watch = ParentWatch::Start(parent.pid());
  if (!watch.ok()) return;
  parent.End();
  sleep(30);
}

// In a process of its own: threads that gRPC keeps in this one take the signal too.
TEST(ParentWatchDeathTest, EndsTheServerWhenTheProcessItBelongsToHasEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(WatchAProcessThatEnds(), ::testing::KilledBySignal(SIGTERM), "");
}

TEST(ParentWatch, SaysThatTheProcessIsGoneAlready) {
  Parent parent;
  const pid_t pid = parent.pid();
  parent.End();
  EXPECT_TRUE(absl::IsNotFound(ParentWatch::Start(pid).status()));
}

TEST(ParentWatch, MayBeGivenUpWhileTheProcessLives) {
  Parent parent;
  auto watch = ParentWatch::Start(parent.pid());
  ASSERT_TRUE(watch.ok()) << watch.status();
  watch->reset();
  EXPECT_EQ(kill(parent.pid(), 0), 0);
}

}  // namespace
}  // namespace lockstep::server
