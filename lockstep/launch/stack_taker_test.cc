#include "lockstep/launch/stack_taker.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>

#include "gtest/gtest.h"
#include "lockstep/launch/process_test_util.h"
#include "lockstep/launch/python_hook.h"

namespace lockstep::launch {
namespace {

// A child of its own environment; killed at the end.
class Child {
 public:
  Child(const std::vector<std::string>& words, const Environment& environment) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 1);
      std::vector<std::string> strings = Format(environment);
      std::vector<char*> arguments, variables;
      for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      for (std::string& one : strings) variables.push_back(one.data());
      arguments.push_back(nullptr);
      variables.push_back(nullptr);
      ::execve(words.front().c_str(), arguments.data(), variables.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ends[0];
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(output_);
  }

  // Waits for its first byte.
  void AwaitOutput() {
    char byte = 0;
    EXPECT_EQ(::read(output_, &byte, 1), 1);
  }
  std::string ReadBytes(size_t count) {
    std::string text(count, '\0');
    for (size_t at = 0; at < count;) {
      const ssize_t got = ::read(output_, text.data() + at, count - at);
      if (got <= 0) return text.substr(0, at);
      at += static_cast<size_t>(got);
    }
    return text;
  }
  std::string RestOfOutput() { return ReadBytes(1 << 16); }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  int output_ = -1;
};

class StackTaker : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ASSERT_TRUE(WritePythonHook(folder_, ::getpid()).ok());
    // Whatever tools this host has: the hook is what is tested here.
    ::setenv("PATH", "/nowhere", 1);
  }
  void TearDown() override {
    const std::string command = "/bin/rm -r " + folder_;
    EXPECT_EQ(::system(command.c_str()), 0);
  }

  Environment WithHook(Environment inherited) const {
    RunEnvironment run{.inherited = std::move(inherited)};
    AddPythonHook(folder_, run);
    return run.inherited;
  }

  ProcessStacks Take(pid_t pid) const {
    return TakeStacks({.member = 2, .name = "task/2", .host = "here", .pid = pid}, folder_);
  }

  // It has printed, and is about to wait: sooner or later it does.
  ProcessStacks TakeOnceItWaits(pid_t pid) const {
    ProcessStacks taken = Take(pid);
    for (int tries = 0; PlaceOf(taken).what != "wait in wait" && tries < 1000; ++tries) {
      taken = Take(pid);
    }
    return taken;
  }

  std::string folder_ = "/tmp/lockstep-stacks-XXXXXX";
};

constexpr char kWaits[] =
    "import threading\n"
    "event = threading.Event()\n"
    "def waits():\n"
    "    print('x', flush=True)\n"
    "    event.wait()\n"
    "waits()\n";

TEST_F(StackTaker, AStockProgramTellsWhereItIsAgainAndAgain) {
  const std::string program = folder_ + "/train.py";
  std::ofstream(program) << kWaits;
  Child child({"/usr/bin/python3", program}, WithHook({}));
  child.AwaitOutput();
  for (int times = 0; times < 2; ++times) {
    const ProcessStacks taken = TakeOnceItWaits(child.pid());
    EXPECT_EQ(taken.source, "faulthandler") << taken.note;
    ASSERT_EQ(taken.threads.size(), 1u);
    EXPECT_EQ(PlaceOf(taken).what, "wait in wait");
    EXPECT_EQ(PlaceOf(taken).where, "train.py:5");
  }
}

TEST_F(StackTaker, WithoutTheHookTheKernelTellsAndNothingIsSignalled) {
  Child child({"/usr/bin/python3", "-c", kWaits}, {});
  child.AwaitOutput();
  const ProcessStacks taken = Take(child.pid());
  EXPECT_EQ(taken.source, "kernel");
  EXPECT_TRUE(taken.threads.empty());
  EXPECT_EQ(::waitpid(child.pid(), nullptr, WNOHANG), 0);
}

TEST_F(StackTaker, AStoppedProcessIsNotWaitedFor) {
  Child child({"/usr/bin/python3", "-c", kWaits}, WithHook({}));
  child.AwaitOutput();
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  ASSERT_EQ(::waitpid(child.pid(), nullptr, WUNTRACED), child.pid());
  const ProcessStacks taken = Take(child.pid());
  EXPECT_EQ(taken.state, "stopped");
  EXPECT_EQ(PlaceOf(taken).what1, "is stopped");
}

TEST_F(StackTaker, WhatHasEndedIsSaidToHave) {
  pid_t pid = 0;
  {
    Child child({"/bin/true"}, {});
    pid = child.pid();
  }
  EXPECT_EQ(Take(pid).state, "ended");
}

TEST_F(StackTaker, WhoWaitsDoesNotRunAndWhoWorksDoes) {
  Child waits({"/usr/bin/python3", "-c", kWaits}, {});
  waits.AwaitOutput();
  Child works({"/usr/bin/python3", "-c",
               "import time\nprint('x', flush=True)\nwhile True: time.sleep(0.001)"},
              {});
  works.AwaitOutput();
  const auto before = RunsOf(works.pid());
  ASSERT_TRUE(before);
  while (RunsOf(works.pid()) == before) {
  }
  // It goes to sleep at some time after its output, and stays so.
  std::optional<int64_t> runs;
  for (int same = 0; same < 20; ++same) {
    const auto now = RunsOf(waits.pid());
    if (now != runs) same = 0;
    runs = now;
    ::usleep(1000);
  }
  EXPECT_TRUE(runs);
  EXPECT_EQ(RunsOf(0), std::nullopt);
}

TEST_F(StackTaker, TheEnvironmentsOwnSitecustomizeIsImportedToo) {
  std::string other = "/tmp/lockstep-stacks-XXXXXX";
  ASSERT_NE(::mkdtemp(other.data()), nullptr);
  std::ofstream(other + "/sitecustomize.py") << "import builtins\nbuiltins.chained = 'yes'\n";
  Child child({"/usr/bin/python3", "-c",
               "import sys, signal, sitecustomize\n"
               "print(chained, flush=True)\nsignal.pause()"},
              WithHook({{"PYTHONPATH", other}}));
  child.AwaitOutput();
  EXPECT_EQ(Take(child.pid()).source, "faulthandler");
  EXPECT_EQ(::system(("/bin/rm -r " + other).c_str()), 0);
}

// What C code in the main thread waits in runs its full time, and ends as if nobody had looked.
constexpr char kWaitsInC[] =
    "import ctypes, os, select, sys, time\n"
    "c = ctypes.CDLL(None, use_errno=True)\n"
    "def wait_in_c():\n"
    "    began = time.monotonic()\n"
    "    ctypes.set_errno(0)\n"
    "    if sys.argv[1] == 'sleep': value = c.sleep(2)\n"
    "    if sys.argv[1] == 'poll': value = c.poll(None, 0, 2000)\n"
    "    if sys.argv[1] == 'sem_timedwait':\n"
    "        sem = ctypes.create_string_buffer(64)\n"
    "        c.sem_init(sem, 0, 0)\n"
    "        until = (ctypes.c_long * 2)(int(time.time()) + 2, 0)\n"
    "        value = c.sem_timedwait(sem, until)\n"
    "    print(value, ctypes.get_errno(), time.monotonic() - began > 0.9, flush=True)\n"
    "print('x', flush=True)\n"
    "wait_in_c()\n";

TEST_F(StackTaker, UseA02_ALookDoesNotInterruptWhatTheMainThreadDoesInC) {
  const std::string program = folder_ + "/train.py";
  std::ofstream(program) << kWaitsInC;
  const std::map<std::string, std::string> ends = {
      {"sleep", "\n0 0 True\n"}, {"poll", "\n0 0 True\n"}, {"sem_timedwait", "\n-1 110 True\n"}};
  for (const auto& [call, end] : ends) {
    Child child({"/usr/bin/python3", program, call}, WithHook({}));
    child.AwaitOutput();
    ProcessStacks taken = Take(child.pid());
    for (int tries = 0; PlaceOf(taken).what1 != "waits in wait_in_c" && tries < 1000; ++tries) {
      taken = Take(child.pid());
    }
    EXPECT_EQ(taken.source, "faulthandler") << taken.note;
    EXPECT_EQ(PlaceOf(taken).what1, "waits in wait_in_c") << call;
    for (int times = 0; times < 5; ++times) Take(child.pid());
    EXPECT_EQ(child.RestOfOutput(), end) << call;
  }
}

TEST_F(StackTaker, UseA02_ASignalIsSentOnlyWhenThatIsAllowed) {
  // PyDLL holds the interpreter, so that the thread cannot answer.
  Child child({"/usr/bin/python3", "-c",
               "import ctypes\nprint('x', flush=True)\nctypes.PyDLL(None).sleep(1000)\n"},
              WithHook({}));
  child.AwaitOutput();
  ProcessStacks taken = Take(child.pid());
  while (taken.state == "running") taken = Take(child.pid());
  EXPECT_EQ(taken.source, "kernel");
  EXPECT_NE(taken.note.find("C code holds the interpreter, in clock_nanosleep"), std::string::npos)
      << taken.note;
  taken = TakeStacks({.pid = child.pid(), .signal = true}, folder_);
  EXPECT_EQ(taken.source, "faulthandler");
}

TEST_F(StackTaker, UseA02_TheProgramSeesNoThreadNoDescriptorAndForksAsItDid) {
  Child child({"/usr/bin/python3", "-W", "error", "-c",
               "import os, sys, threading\n"
               "assert threading.active_count() == 1\n"
               "assert threading.main_thread() is threading.current_thread()\n"
               "for fd in filter(lambda fd: fd < 700, map(int, os.listdir('/proc/self/fd'))):\n"
               "    try: assert not os.readlink(f'/proc/self/fd/{fd}').startswith(\n"
               "        os.environ['PYTHONPATH'])\n"
               "    except FileNotFoundError: pass\n"
               "print('x', flush=True)\n"
               "pid = os.fork()\n"
               "if pid == 0:\n"
               "    assert os.listdir('/proc/self/task') == [str(os.getpid())]\n"
               "    os._exit(0)\n"
               "print(os.waitpid(pid, 0)[1], flush=True)\n"
               "threading.Event().wait()\n"},
              WithHook({}));
  child.AwaitOutput();
  EXPECT_EQ(child.ReadBytes(3), "\n0\n");
  EXPECT_EQ(TakeOnceItWaits(child.pid()).source, "faulthandler") << "it answers after a fork too";
}

TEST_F(StackTaker, NothingButFilesAndPipesIsLeftInTheFolder) {
  Child child({"/usr/bin/python3", "-c", kWaits}, WithHook({}));
  child.AwaitOutput();
  EXPECT_NE(
      ::system(("/usr/bin/find " + folder_ + " -mindepth 1 ! -type f ! -type p | /bin/grep -q .")
                   .c_str()),
      0);
}

TEST_F(StackTaker, PySpyIsAskedFirstWhenItIsThere) {
  const std::string tool = folder_ + "/py-spy";
  std::ofstream(tool) << "#!/bin/sh\necho 'Thread 1 (active): \"MainThread\"'\n"
                         "echo \"    pid_$5 (/home/me/train.py:8)\"\n";
  ASSERT_EQ(::chmod(tool.c_str(), 0755), 0);
  ::setenv("PATH", folder_.c_str(), 1);
  Child child({"/usr/bin/python3", "-c", kWaits}, {});
  child.AwaitOutput();
  const ProcessStacks taken = Take(child.pid());
  EXPECT_EQ(taken.source, "py-spy");
  ASSERT_EQ(taken.threads.size(), 1u);
  EXPECT_EQ(taken.threads[0].frames.front().function, "pid_" + std::to_string(child.pid()));
}

TEST_F(StackTaker, AToolThatFailsIsMadeUpFor) {
  const std::string tool = folder_ + "/py-spy";
  std::ofstream(tool) << "#!/bin/sh\nexit 1\n";
  ASSERT_EQ(::chmod(tool.c_str(), 0755), 0);
  ::setenv("PATH", folder_.c_str(), 1);
  Child child({"/usr/bin/python3", "-c", kWaits}, WithHook({}));
  child.AwaitOutput();
  EXPECT_EQ(Take(child.pid()).source, "faulthandler");
}

}  // namespace
}  // namespace lockstep::launch
