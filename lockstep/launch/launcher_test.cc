#include "lockstep/launch/launcher.h"

#include <sys/signalfd.h>

#include <functional>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/launch/exit_code.h"
#include "lockstep/launch/process_test_util.h"

namespace lockstep::launch {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;

using Kind = ProcessReport::Kind;

// Runs real processes and records what the launcher makes of them; tests hook in to act at a line
// or at a report.
class LauncherTest : public testing::Test, public LaunchHost {
 protected:
  LauncherTest() {
    ::sigemptyset(&children_);
    ::sigaddset(&children_, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &children_, &options_.signals.mask);
    // As in a terminal, however the tests are run: in the background these are ignored.
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT}) std::signal(signal, SIG_DFL);
    options_.supervisor.grace = absl::Seconds(30);
    options_.environment.address = {
        .job = "j", .link = "127.0.0.1:1", .grpc = "127.0.0.1:2", .store = ""};
    options_.environment.inherited = {{"PATH", "/usr/bin:/bin"}};
    options_.environment.run_id = absl::StrCat("test", ::getpid());
  }
  ~LauncherTest() override { ::sigprocmask(SIG_SETMASK, &options_.signals.mask, nullptr); }

  // Returns the exit code.
  int Run(int32_t size, Command command) {
    options_.supervisor.size = size;
    options_.environment.placement = {.size = size, .local_size = size};
    options_.command = std::move(command);
    auto guardian = Guardian::Start(options_.environment.run_id, "");
    EXPECT_TRUE(guardian.ok());
    runtime::Loop loop;
    loop_ = &loop;
    asio::posix::stream_descriptor child_signals(loop.io(),
                                                 ::signalfd(-1, &children_, SFD_NONBLOCK));
    std::function<void()> wait = [&] {
      child_signals.async_wait(
          asio::posix::stream_descriptor::wait_read, [&](const asio::error_code& error) {
            if (error) return;
            signalfd_siginfo info;
            while (::read(child_signals.native_handle(), &info, sizeof info) > 0) {
            }
            launcher_->OnChildSignal();
            wait();
          });
    };
    wait();
    launcher_.emplace(loop, *guardian, *this, options_);
    loop.Post([this] { launcher_->Start(); });
    RunLoop(loop);
    launcher_.reset();
    return exit_code_;
  }

  bool WriteOutput(std::string lines) override {
    for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
      output_.emplace_back(line);
      if (on_line_) on_line_(output_.back());
    }
    if (!stingy_) return true;
    // A reader that is never fast enough.
    loop_->Post([this] { launcher_->ResumeOutput(); });
    return false;
  }
  bool WriteErrors(std::string lines) override {
    errors_ += lines;
    return true;
  }
  void Say(std::string sentence) override { said_.push_back(std::move(sentence)); }
  void Report(const ProcessReport& report) override {
    reports_.push_back(report);
    if (report.kind == Kind::kStarted)
      pids_[report.member.value()] = static_cast<pid_t>(report.pid);
    if (on_report_) on_report_(report);
  }
  void WhenReported(std::function<void()> done) override {
    on_reported_ ? on_reported_(std::move(done)) : done();
  }
  void Restarting(int32_t restarts) override {
    RunEnvironment next = options_.environment;
    next.attempt.restarts = restarts;
    launcher_->Begin(next);
  }
  void Finished(int exit_code, const RunResult&) override {
    exit_code_ = exit_code;
    loop_->Stop();
  }

  LauncherOptions options_;
  sigset_t children_;
  runtime::Loop* loop_ = nullptr;
  std::optional<Launcher> launcher_;
  bool stingy_ = false;
  std::function<void(const std::string&)> on_line_;
  std::function<void(const ProcessReport&)> on_report_;
  std::function<void(std::function<void()>)> on_reported_;

  std::vector<std::string> output_;
  std::string errors_;
  std::vector<std::string> said_;
  std::vector<ProcessReport> reports_;
  std::map<int32_t, pid_t> pids_;
  int exit_code_ = -1;
};

TEST_F(LauncherTest, AllSucceed) {
  EXPECT_EQ(Run(3, Shell("echo out $LOCKSTEP_INDEX; echo err $LOCKSTEP_INDEX >&2")), 0);
  EXPECT_THAT(output_,
              testing::UnorderedElementsAre("[task/0] out 0", "[task/1] out 1", "[task/2] out 2"));
  EXPECT_THAT(errors_, AllOf(HasSubstr("[task/0] err 0\n"), HasSubstr("[task/2] err 2\n")));
  EXPECT_THAT(said_.back(), HasSubstr("all 3 succeeded"));
}

TEST_F(LauncherTest, ExitCodeIsThatOfTheFirstToFail) {
  // The second waits for the end of the first, which its pipe tells.
  on_report_ = [this](const ProcessReport& report) {
    if (report.kind == Kind::kEnded && report.member == MemberIndex(1)) {
      ::kill(pids_[0], SIGUSR1);
    }
  };
  EXPECT_EQ(Run(2, Shell("[ $LOCKSTEP_INDEX = 1 ] && exit 3; trap 'exit 4' USR1; "
                         "while :; do sleep 0.01; done")),
            3);
  EXPECT_THAT(said_.front(), HasSubstr("ended with exit code 3 after"));
}

TEST_F(LauncherTest, KilledProcessIsReportedWithItsSignal) {
  on_line_ = [this](const std::string& line) {
    if (line == "[task/0] up") ::kill(pids_[0], SIGKILL);
  };
  EXPECT_EQ(Run(1, Shell("echo up; exec sleep 1000")), 128 + SIGKILL);
  EXPECT_THAT(reports_,
              ElementsAre(ProcessReport{Kind::kStarted, MemberIndex(0), pids_[0], {}},
                          ProcessReport{Kind::kEnded, MemberIndex(0), pids_[0], {0, SIGKILL}}));
  EXPECT_THAT(said_.front(), HasSubstr("was killed by SIGKILL"));
}

TEST_F(LauncherTest, StopAndContinueAreReportedAsTheyHappen) {
  on_line_ = [this](const std::string&) { ::kill(pids_[0], SIGSTOP); };
  on_report_ = [this](const ProcessReport& report) {
    if (report.kind == Kind::kStopped) ::kill(pids_[0], SIGCONT);
    if (report.kind == Kind::kContinued) ::kill(pids_[0], SIGTERM);
  };
  EXPECT_EQ(Run(1, Shell("echo up; exec sleep 1000")), 128 + SIGTERM);
  EXPECT_THAT(reports_,
              ElementsAre(ProcessReport{Kind::kStarted, MemberIndex(0), pids_[0], {}},
                          ProcessReport{Kind::kStopped, MemberIndex(0), pids_[0], {}},
                          ProcessReport{Kind::kContinued, MemberIndex(0), pids_[0], {}},
                          ProcessReport{Kind::kEnded, MemberIndex(0), pids_[0], {0, SIGTERM}}));
}

TEST_F(LauncherTest, SignalsReachTheWholeGroup) {
  std::vector<Watched> grandchildren;
  on_line_ = [&](const std::string& line) {
    int pid = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &pid));
    grandchildren.emplace_back(pid);
    if (grandchildren.size() == 2) launcher_->Handle(SignalReceived{SIGTERM});
  };
  EXPECT_EQ(Run(2, Shell("sleep 1000 & echo $!; wait")), 128 + SIGTERM);
  ASSERT_EQ(grandchildren.size(), 2u);
  EXPECT_TRUE(grandchildren[0].WaitGone());
  EXPECT_TRUE(grandchildren[1].WaitGone());
}

TEST_F(LauncherTest, ProcessThatIgnoresSigtermIsKilledAfterAFailure) {
  options_.supervisor.grace = absl::ZeroDuration();
  options_.supervisor.terminate_grace = absl::Milliseconds(100);
  // Both have set their traps when both have spoken.
  on_line_ = [this](const std::string&) {
    if (output_.size() == 2) ::kill(pids_[1], SIGUSR1);
  };
  EXPECT_EQ(Run(2, Shell("if [ $LOCKSTEP_INDEX = 1 ]; then trap 'exit 5' USR1; "
                         "else trap '' TERM; fi; echo up; while :; do sleep 0.01; done")),
            5);
  EXPECT_THAT(said_, Contains(HasSubstr("was killed by SIGKILL")));
}

// JAX takes SIGTERM for a preemption and tells the server so, which has to know better by then.
TEST_F(LauncherTest, NobodyIsEndedBeforeTheServerKnows) {
  options_.supervisor.grace = absl::ZeroDuration();
  std::function<void()> done;
  on_line_ = [&](const std::string& line) {
    if (line == "[task/1] up") ::kill(pids_[0], SIGKILL);
    // It is asked after SIGTERM would have come, and answers in the order of coming.
    if (line == "[task/1] alive") done();
  };
  on_reported_ = [&](std::function<void()> then) {
    EXPECT_EQ(reports_.back().kind, Kind::kEnding);
    EXPECT_EQ(reports_.back().member, MemberIndex(1));
    done = std::move(then);
    ::kill(pids_[1], SIGWINCH);
  };
  Run(2, Shell("[ $LOCKSTEP_INDEX = 0 ] && exec sleep 1000; trap 'echo alive' WINCH; "
               "trap 'echo ended; exit 0' TERM; echo up; while :; do sleep 0.01; done"));
  EXPECT_THAT(output_, ElementsAre("[task/1] up", "[task/1] alive", "[task/1] ended"));
}

// By then another may have its place.
TEST_F(LauncherTest, ASignalThatComesLateHitsNobodyElse) {
  options_.supervisor.grace = absl::ZeroDuration();
  options_.supervisor.max_restarts = 1;
  options_.supervisor.drain_delay = absl::ZeroDuration();
  std::function<void()> late;
  on_reported_ = [&](std::function<void()> then) {
    late = std::move(then);
    ::kill(pids_[1], SIGKILL);
  };
  on_line_ = [&](const std::string& line) {
    if (line == "[task/1] up 0") ::kill(pids_[0], SIGKILL);
    if (line == "[task/1] up 1") {
      late();
      ::kill(pids_[1], SIGUSR1);
    }
  };
  EXPECT_EQ(Run(2, Shell("[ $LOCKSTEP_INDEX = 0 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ] && "
                         "exec sleep 1000; [ $LOCKSTEP_INDEX = 0 ] && exit 0; trap 'exit 0' USR1; "
                         "echo up $TORCHELASTIC_RESTART_COUNT; while :; do sleep 0.01; done")),
            0);
}

TEST_F(LauncherTest, MuchOutputOfSeveralProcessesIsNeitherLostNorMixedNorReordered) {
  stingy_ = true;
  constexpr int kLines = 50'000;
  EXPECT_EQ(Run(3, Shell(absl::StrCat("exec seq 1 ", kLines))), 0);
  std::map<std::string, int> next;
  for (const std::string& line : output_) {
    const std::vector<std::string> parts = absl::StrSplit(line, ' ');
    ASSERT_EQ(parts.size(), 2u) << line;
    ASSERT_EQ(parts[1], absl::StrCat(++next[parts[0]])) << line;
  }
  EXPECT_EQ(next, (std::map<std::string, int>{
                      {"[task/0]", kLines}, {"[task/1]", kLines}, {"[task/2]", kLines}}));
}

TEST_F(LauncherTest, LastWordsComeBeforeTheEndIsTold) {
  std::vector<std::string> at_end;
  on_report_ = [&](const ProcessReport& report) {
    if (report.kind == Kind::kEnded) at_end = output_;
  };
  EXPECT_EQ(Run(1, Shell("echo first; printf 'no newline'; kill -9 $$")), 128 + SIGKILL);
  EXPECT_THAT(at_end, Contains("[task/0] first"));
  EXPECT_THAT(output_, ElementsAre("[task/0] first", "[task/0] no newline"));
}

TEST_F(LauncherTest, HelperThatOutlivesItsProcessIsKilled) {
  options_.supervisor.helper_grace = absl::Milliseconds(50);
  std::optional<Watched> helper;
  on_line_ = [&](const std::string& line) {
    int pid = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &pid));
    helper.emplace(pid);
  };
  EXPECT_EQ(Run(1, Shell("sleep 1000 & echo $!")), 0);
  ASSERT_TRUE(helper.has_value());
  EXPECT_TRUE(helper->WaitGone());
  EXPECT_THAT(said_, Contains(HasSubstr("left processes behind")));
}

TEST_F(LauncherTest, EnvironmentTellsEachProcessWhoItIs) {
  EXPECT_EQ(Run(2, {.path = "/usr/bin/env", .arguments = {"env"}}), 0);
  EXPECT_THAT(
      output_,
      IsSupersetOf({"[task/0] OMPI_COMM_WORLD_RANK=0", "[task/1] OMPI_COMM_WORLD_RANK=1",
                    "[task/1] JAX_COORDINATOR_ADDRESS=127.0.0.1:2",
                    "[task/1] JAX_COORDINATOR_BIND_ADDRESS=127.0.0.1:0",
                    "[task/1] LOCKSTEP_COORDINATOR=127.0.0.1:1", "[task/1] LOCKSTEP_SIZE=2"}));
}

TEST_F(LauncherTest, ProcessReadsNothingAndHasTheSignalsOfAFreshProcess) {
  EXPECT_EQ(Run(1, Shell("cat; grep -E '^Sig(Blk|Ign)' /proc/self/status")), 0);
  EXPECT_THAT(output_, ElementsAre("[task/0] SigBlk:\t0000000000000000",
                                   "[task/0] SigIgn:\t0000000000000000"));
}

TEST_F(LauncherTest, FileThatIsNoProgramGives126) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("data", "\x01\x02 not a program", 0755);
  EXPECT_EQ(Run(2, {.path = path, .arguments = {path}}), kExitCannotExecute);
  EXPECT_THAT(said_.front(), HasSubstr("task/0 could not be started: cannot execute " + path));
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(LauncherTest, ProgramThatWentAwayGives127) {
  EXPECT_EQ(Run(1, {.path = "/nonexistent/train", .arguments = {"train"}}), kExitNotFound);
}

}  // namespace
}  // namespace lockstep::launch
