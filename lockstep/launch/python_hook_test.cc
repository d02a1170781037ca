#include "lockstep/launch/python_hook.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "gtest/gtest.h"
#include "lockstep/launch/process_test_util.h"

namespace lockstep::launch {
namespace {

TEST(PythonHook, UseA07_ALineTellsWhatWasRaisedAndWhere) {
  const auto raised = ParseException("17\tValueError\tbad sample\t/home/me/train.py\t24\tload");
  ASSERT_TRUE(raised);
  EXPECT_EQ(raised->pid, 17);
  EXPECT_EQ(raised->text, "ValueError: bad sample, train.py:24 in load");
  EXPECT_EQ(ParseException("17\tE\t\ttrain.py\t2\t<module>")->text, "E, train.py:2");
  EXPECT_EQ(ParseException("17\tSyntaxError\tinvalid\t\t0\t")->text, "SyntaxError: invalid");
}

TEST(PythonHook, UseA07_WhatIsNoSuchLineIsDroppedAndALongOneIsCut) {
  for (const char* line : {"", "17", "x\tE\tt\tf\t1\tg", "-1\tE\tt\tf\t1\tg", "17\t\tt\tf\t1\tg",
                           "17\tE\tt\tf\tone\tg", "17\tE\tt\tf\t1\tg\tmore"}) {
    EXPECT_FALSE(ParseException(line)) << line;
  }
  const auto raised = ParseException("17\tE\t" + std::string(3000, 'x') + "\x1b[31m\t\t0\t");
  ASSERT_TRUE(raised);
  EXPECT_EQ(raised->text.size(), kExceptionTextBytesMax);
  EXPECT_EQ(ParseException("17\tE\ta\x1b[31m\t\t0\t")->text, "E: a [31m");
}

// Runs programs with the hook, and reads what is told of them.
class PythonHookPrograms : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ASSERT_TRUE(WritePythonHook(folder_, ::getpid()).ok());
    pipe_ = ::open(ExceptionPipePath(folder_).c_str(), O_RDWR | O_NONBLOCK);
    ASSERT_GE(pipe_, 0);
  }
  void TearDown() override {
    ::close(pipe_);
    EXPECT_EQ(::system(("/bin/rm -r " + folder_).c_str()), 0);
  }

  // What was told when the program has ended; empty: nothing. `code_` is its exit code.
  std::string Run(const std::string& program) {
    std::ofstream(folder_ + "/train.py") << program;
    RunEnvironment run;
    AddPythonHook(folder_, run);
    const std::vector<std::string> variables = Format(run.inherited);
    const std::string path = folder_ + "/train.py";
    const pid_t pid = ::fork();
    if (pid == 0) {
      const int null = ::open("/dev/null", O_WRONLY);
      ::dup2(null, 2);
      ::execle("/usr/bin/python3", "python3", path.c_str(), nullptr,
               std::vector<char*>{const_cast<char*>(variables.front().c_str()), nullptr}.data());
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    code_ = WEXITSTATUS(status);
    std::string text(4096, '\0');
    const ssize_t count = ::read(pipe_, text.data(), text.size());
    if (count <= 0) return "";
    const auto raised = ParseException(text.substr(0, static_cast<size_t>(count) - 1));
    return raised && raised->pid == pid ? raised->text : "something else: " + text;
  }

  std::string folder_ = "/tmp/lockstep-hook-XXXXXX";
  int pipe_ = -1;
  int code_ = -1;
};

TEST_F(PythonHookPrograms, UseA07_AnUncaughtExceptionIsTold) {
  EXPECT_EQ(Run("def load():\n  raise ValueError('bad\\nsample')\nload()\n"),
            "ValueError: bad sample, train.py:2 in load");
  EXPECT_EQ(code_, 1);
  // By the line of the program's own that led there.
  EXPECT_EQ(Run("import json\njson.loads('{')\n").substr(0, 28), "json.decoder.JSONDecodeError");
  EXPECT_EQ(Run("import not_there\n"),
            "ModuleNotFoundError: No module named 'not_there', train.py:1");
}

TEST_F(PythonHookPrograms, UseA07_ItIsToldBeforeExitHandlersRun) {
  std::ofstream(folder_ + "/check.py");
  EXPECT_EQ(
      Run("import atexit, os, select\n"
          "pipe = os.open(os.environ['PYTHONPATH'] + '/told', os.O_RDONLY | os.O_NONBLOCK)\n"
          "atexit.register(lambda: os._exit(7 if select.select([pipe], [], [], 0)[0] else 8))\n"
          "raise ValueError('bad')\n"),
      "ValueError: bad, train.py:4");
  EXPECT_EQ(code_, 7);
}

TEST_F(PythonHookPrograms, UseA07_HooksOfTheProgramWorkAsTheyDid) {
  EXPECT_EQ(Run("import sys\nassert sys.excepthook is sys.__excepthook__\n"
                "def own(*what):\n  sys.__excepthook__(*what)\n"
                "sys.excepthook = own\nraise ValueError('bad')\n"),
            "ValueError: bad, train.py:6");
  EXPECT_EQ(Run("import os, sys\nbefore = sys.excepthook\n"
                "def own(*what):\n  before(*what)\n  os._exit(9)\n"
                "sys.excepthook = own\nraise ValueError('bad')\n"),
            "ValueError: bad, train.py:7");
  EXPECT_EQ(code_, 9);
}

TEST_F(PythonHookPrograms, UseA07_WhatEndsNothingIsNotTold) {
  EXPECT_EQ(Run("import sys\ntry:\n  raise ValueError('bad')\nexcept ValueError:\n"
                "  sys.excepthook(*sys.exc_info())\n"),
            "");
  EXPECT_EQ(Run("import threading\ndef f(): raise ValueError('bad')\n"
                "t = threading.Thread(target=f); t.start(); t.join()\n"),
            "");
  EXPECT_EQ(Run("import os\nif os.fork() == 0: raise ValueError('bad')\nos.wait()\n"), "");
  EXPECT_EQ(
      Run("import subprocess\nsubprocess.run(['/usr/bin/python3', '-c', 'raise ValueError'])\n"),
      "");
  EXPECT_EQ(Run("raise SystemExit(3)\n"), "");
  EXPECT_EQ(code_, 3);
  EXPECT_EQ(Run("raise KeyboardInterrupt\n"), "");
}

}  // namespace
}  // namespace lockstep::launch
