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

TEST(ParentWatch, EndsTheServerWhenTheProcessItBelongsToHasEnded) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &signals, nullptr), 0);  // of the watch's thread too
  Parent parent;
  auto watch = ParentWatch::Start(parent.pid());
  ASSERT_TRUE(watch.ok()) << watch.status();
  parent.End();
  const timespec limit = {.tv_sec = 30, .tv_nsec = 0};
  EXPECT_EQ(sigtimedwait(&signals, nullptr, &limit), SIGTERM);
  // Other tests of this process want it.
  EXPECT_EQ(pthread_sigmask(SIG_UNBLOCK, &signals, nullptr), 0);
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
