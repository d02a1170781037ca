// Processes whose end is waited for: known by their number and the time of their start.
#include "lockstep/server/process_watch.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/platform/runtime/process_identity.h"

namespace lockstep::server {
namespace {

// A process that does nothing until it is killed.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  ~Child() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }
  int64_t started() const { return runtime::ProcessStarted(pid_); }

 private:
  pid_t pid_;
};

class ProcessWatchTest : public testing::Test {
 protected:
  ProcessWatchTest() {
    loop_.Do([this] { watch_ = std::make_unique<ProcessWatch>(loop_.loop()); });
  }
  ~ProcessWatchTest() override {
    loop_.Do([this] { watch_.reset(); });
  }
  void Watch(uint64_t key, const std::string& machine, int64_t pid, int64_t started) {
    loop_.Do([&] {
      watch_->Watch(key, machine, pid, started, [this, key] { ended_.Add(uint64_t{key}); });
    });
  }

  Child child_;  // before there is a thread
  const std::string here_ = runtime::ProcessMachine();
  link::testing::LoopThread loop_;
  link::testing::Seen<uint64_t> ended_;
  std::unique_ptr<ProcessWatch> watch_;
};

TEST_F(ProcessWatchTest, TheEndIsToldOnceItIsThere) {
  ASSERT_FALSE(here_.empty());
  ASSERT_GT(child_.started(), 0);
  Watch(1, here_, child_.pid(), child_.started());
  // Somebody else's end is told first: this one has not ended.
  Watch(2, here_, child_.pid(), child_.started() + 1);
  EXPECT_EQ(ended_.WaitForCount(1), std::vector<uint64_t>({2}));
  child_.Kill();
  EXPECT_EQ(ended_.WaitForCount(2), std::vector<uint64_t>({2, 1}));
}

TEST_F(ProcessWatchTest, WhoIsElsewhereOrForgottenIsNotWatched) {
  Watch(1, "another machine", child_.pid(), child_.started() + 1);
  Watch(2, here_, child_.pid(), child_.started());
  loop_.Do([this] { watch_->Forget(2); });
  Watch(3, here_, child_.pid(), child_.started());
  child_.Kill();
  EXPECT_EQ(ended_.WaitForCount(1), std::vector<uint64_t>({3}));
}

TEST_F(ProcessWatchTest, WhoEndedBeforeIsTold) {
  const pid_t pid = child_.pid();
  const int64_t started = child_.started();
  child_.Kill();
  Watch(1, here_, pid, started);
  EXPECT_EQ(ended_.WaitForCount(1), std::vector<uint64_t>({1}));
}

}  // namespace
}  // namespace lockstep::server
