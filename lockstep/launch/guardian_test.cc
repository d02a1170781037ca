#include "lockstep/launch/guardian.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/process_test_util.h"

namespace lockstep::launch {
namespace {

using namespace std::string_view_literals;

TEST(BelongsToRunTest, LooksForTheIdInTheList) {
  EXPECT_TRUE(BelongsToRun("A=1\0LOCKSTEP_RUN_ID=abc\0B=2\0"sv, "abc"));
  EXPECT_TRUE(BelongsToRun("LOCKSTEP_RUN_ID=abc"sv, "abc"));
  EXPECT_TRUE(BelongsToRun("LOCKSTEP_RUN_ID=outer:abc\0"sv, "abc"));
  EXPECT_TRUE(BelongsToRun("LOCKSTEP_RUN_ID=outer:abc\0"sv, "outer"));
}

TEST(BelongsToRunTest, IsNotTakenInBySomethingSimilar) {
  EXPECT_FALSE(BelongsToRun(""sv, "abc"));
  EXPECT_FALSE(BelongsToRun("LOCKSTEP_RUN_ID=\0"sv, "abc"));
  EXPECT_FALSE(BelongsToRun("LOCKSTEP_RUN_ID=abcd\0"sv, "abc"));
  EXPECT_FALSE(BelongsToRun("LOCKSTEP_RUN_ID=ab:c\0"sv, "abc"));
  EXPECT_FALSE(BelongsToRun("MY_LOCKSTEP_RUN_ID=abc\0"sv, "abc"));
  EXPECT_FALSE(BelongsToRun("X=LOCKSTEP_RUN_ID=abc\0"sv, "abc"));
}

std::string ReadLine(int fd) {
  std::string line;
  char c = 0;
  while (::read(fd, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

// Starts a process of run `run_id` that leaves a child in its group and one in a session of its
// own, tells their pids by `tell_fd`, and waits for ever. Runs in a fork of the test.
[[noreturn]] void OwnARun(const std::string& run_id, const std::string& folder, int tell_fd) {
  auto guardian = Guardian::Start(run_id, folder);
  if (!guardian.ok()) ::_exit(1);
  const Command command = Shell("sleep 1000 & setsid sleep 1001 & echo $$ $! ; wait");
  auto process = Process::Start(command, {"PATH=/usr/bin:/bin", "LOCKSTEP_RUN_ID=" + run_id},
                                InheritedSignals{}, *guardian);
  if (!process.ok()) ::_exit(1);
  const runtime::UniqueFd output = (*process)->TakeOutput();
  pollfd readable = {.fd = output.get(), .events = POLLIN, .revents = 0};
  ::poll(&readable, 1, -1);
  const std::string line = ReadLine(output.get()) + "\n";
  if (::write(tell_fd, line.data(), line.size()) < 0) ::_exit(1);
  while (true) ::pause();
}

TEST(GuardianTest, NothingOutlivesAnOwnerThatIsKilled) {
  const TemporaryFolder parent;
  const std::string folder = parent.path() + "/run";
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  const std::string run_id = absl::StrCat("guardian-test-", ::getpid());
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t owner = ::fork();
  ASSERT_GE(owner, 0);
  if (owner == 0) OwnARun(run_id, folder, ends[1]);
  ::close(ends[1]);
  int leader = 0;
  int stray = 0;
  ASSERT_EQ(std::sscanf(ReadLine(ends[0]).c_str(), "%d %d", &leader, &stray), 2);
  const Watched leader_watch(leader);
  const Watched stray_watch(stray);
  ASSERT_TRUE(leader_watch.known());
  ASSERT_TRUE(stray_watch.known());

  ::kill(owner, SIGKILL);
  EXPECT_TRUE(leader_watch.WaitGone());
  EXPECT_TRUE(stray_watch.WaitGone());
  ::waitpid(owner, nullptr, 0);
  ::close(ends[0]);
}

TEST(GuardianTest, FinishKillsWhatLeftItsGroupAndRemovesTheFolder) {
  const TemporaryFolder parent;
  const std::string folder = parent.path() + "/run";
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  const std::string run_id = absl::StrCat("guardian-finish-", ::getpid());
  auto guardian = Guardian::Start(run_id, folder);
  ASSERT_TRUE(guardian.ok());
  auto process = Process::Start(Shell("setsid sleep 1001 & echo $!"),
                                {"PATH=/usr/bin:/bin", "LOCKSTEP_RUN_ID=" + run_id},
                                InheritedSignals{}, *guardian);
  ASSERT_TRUE(process.ok()) << process.status();
  const runtime::UniqueFd output = (*process)->TakeOutput();
  pollfd readable = {.fd = output.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(kTestDeadline))), 1);
  int stray = 0;
  ASSERT_EQ(std::sscanf(ReadLine(output.get()).c_str(), "%d", &stray), 1);
  const Watched stray_watch(stray);
  ASSERT_TRUE(stray_watch.known());

  (*process)->Release();
  guardian->Finish();
  EXPECT_TRUE(stray_watch.WaitGone());
  struct stat status = {};
  EXPECT_NE(::stat(folder.c_str(), &status), 0);
}

TEST(GuardianTest, ForgottenGroupIsLeftAlone) {
  const std::string run_id = absl::StrCat("guardian-forget-", ::getpid());
  auto guardian = Guardian::Start(run_id, "");
  ASSERT_TRUE(guardian.ok());
  // Not marked, so that only its group could give it away.
  auto process = Process::Start({.path = "/bin/sleep", .arguments = {"sleep", "1000"}}, {},
                                InheritedSignals{}, *guardian);
  ASSERT_TRUE(process.ok()) << process.status();
  guardian->Forget((*process)->pid());
  guardian->Finish();
  EXPECT_FALSE((*process)->PollExit().has_value());
  (*process)->Signal(SIGKILL);
}

}  // namespace
}  // namespace lockstep::launch
