#include "lockstep/data/engine/function_pool.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/engine/engine_testing.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kModule[] = R"(
import os, time
import numpy as np

def double(x):
    return x * 2

def moody(x):
    if x == 3:
        raise ValueError("not three")
    if x == 5:
        os.kill(os.getpid(), 9)
    if x == 6:
        time.sleep(30)
    return x

def leaves(x):
    return {"text": f"number {x}", "array": np.arange(int(x), dtype=np.float32), "small": int(x)}

def back(e):
    assert not e["array"].flags.writeable
    return e["text"] + ":" + str(e["array"].sum()) + ":" + str(int(e["small"]))

def _hidden(x):
    return x

from os.path import basename as borrowed

def wrong(x):
    return np.float32(1)

def pid(x):
    return os.getpid()

def spin(x):
    while True:
        pass

class Classes:
    @staticmethod
    def method(x):
        return x + 1
)";

// A package that has nothing but the host, and the user's module beside it.
class FunctionPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system(absl::StrCat(Python(), " -c 'import numpy' 2>/dev/null").c_str()) != 0) {
      GTEST_SKIP() << "no NumPy for " << Python();
    }
    const std::filesystem::path package = files_.Path("lockstep/data");
    std::filesystem::create_directories(package);
    files_.Write("lockstep/__init__.py", "");
    files_.Write("lockstep/data/__init__.py", "");
    std::filesystem::create_symlink(LOCKSTEP_FUNCTION_HOST, package / "_function_host.py");
    files_.Write("user_functions.py", kModule);
    files_.Write("broken_module.py", "import no_such_module\n");
    ::setenv("PYTHONPATH", files_.Path("").c_str(), 1);
  }

  // The one of the build, which has what our package needs.
  static std::string Python() {
    const char* chosen = std::getenv("LOCKSTEP_TEST_PYTHON");
    if (chosen != nullptr) return chosen;
    return std::filesystem::exists(LOCKSTEP_VENV_PYTHON) ? LOCKSTEP_VENV_PYTHON : "python3";
  }

  static std::shared_ptr<FunctionPool> Pool(size_t hosts_max = 2) {
    return std::make_shared<FunctionPool>(FunctionPoolOptions{
        .python = Python(),
        .allowance = *FunctionAllowance::Parse(
            {"user_functions", "user_functions:Classes.method", "broken_module", "planted"}),
        .hosts_max = hosts_max});
  }

  static plan::Builder Mapped(int64_t stop, const std::string& function, const std::string& spec) {
    plan::Builder builder;
    builder.Range(stop).Behind("map_python",
                               {{"function", "user_functions:" + function}, {"spec", spec}});
    return builder;
  }

  static DatasetOptions With(std::shared_ptr<FunctionPool> pool) {
    DatasetOptions options;
    options.functions = std::move(pool);
    return options;
  }

  template <class T>
  static absl::StatusOr<std::vector<T>> Run(const plan::Builder& builder,
                                            std::shared_ptr<FunctionPool> pool = Pool()) {
    const auto dataset = OpenDataset(builder, With(std::move(pool)));
    if (!dataset.ok()) return dataset.status();
    return All<T>(*dataset);
  }

  const TestFiles files_;
};

TEST_F(FunctionPoolTest, MapsElements) {
  const auto pool = Pool();
  plan::Builder builder = Mapped(5000, "double", "int64[]");
  builder.Count("batch", 100);
  const auto values = Run<int64_t>(builder, pool);
  ASSERT_TRUE(values.ok()) << values.status();
  ASSERT_EQ(values->size(), 5000u);
  for (int64_t i = 0; i < 5000; ++i) EXPECT_EQ((*values)[i], 2 * i);
  EXPECT_EQ(pool->hosts(), 1u);
  EXPECT_THAT(*Run<int64_t>(Mapped(2, "Classes.method", "int64[]")), ElementsAre(1, 2));
}

TEST_F(FunctionPoolTest, LeavesOfEveryKindGoBothWays) {
  plan::Builder builder = Mapped(4, "leaves", "text:text[];array:float32[?];small:int32[]");
  builder.Behind("map_python", {{"function", std::string("user_functions:back")},
                                {"spec", std::string("text[]")}});
  const auto values = Run<std::string>(builder);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values,
              ElementsAre("number 0:0.0:0", "number 1:0.0:1", "number 2:1.0:2", "number 3:3.0:3"));
}

TEST_F(FunctionPoolTest, ExceptionsAreToldWithTheirTraceback) {
  plan::Builder builder = Mapped(5, "moody", "int64[]");
  builder.At("train.py:7");
  const absl::Status error = Run<int64_t>(builder).status();
  EXPECT_EQ(plan::ReasonOf(error), plan::kFunctionFailed);
  const std::string text(error.message());
  EXPECT_THAT(text, HasSubstr("train.py:7: map_python: at position 3"));
  EXPECT_LT(text.find("ValueError: not three\n  at "), text.find("in moody: raise"));
  EXPECT_THAT(text, HasSubstr("raise ValueError(\"not three\")"));
  EXPECT_THAT(text, Not(HasSubstr("_function_host")));
}

// The one that kills its process and the one that never ends are found among their neighbours.
TEST_F(FunctionPoolTest, CrashesAndHangsAreTheirElements) {
  plan::Builder builder = Mapped(8, "moody", "int64[]");
  builder.Set("timeout_ms", int64_t{400}).Set("on_error", std::string("skip"));
  const auto values = Run<int64_t>(builder);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ElementsAre(0, 1, 2, 4, 7));

  plan::Builder skip = Mapped(8, "moody", "int64[]");
  skip.Set("timeout_ms", int64_t{400}).Set("on_error", std::string("skip"));
  skip.Set("error_budget", int64_t{1});
  EXPECT_THAT(std::string(Run<int64_t>(skip).status().message()), HasSubstr("died by signal 9"));
  skip.Set("error_budget", int64_t{2});
  EXPECT_THAT(std::string(Run<int64_t>(skip).status().message()),
              HasSubstr("took longer than 400ms"));
}

TEST_F(FunctionPoolTest, WhatItReturnsIsHeldAgainstItsSpec) {
  EXPECT_THAT(std::string(Run<int64_t>(Mapped(1, "wrong", "int64[]")).status().message()),
              HasSubstr("the element is to be int64[], and is float32[]"));
}

TEST_F(FunctionPoolTest, WhatCannotBeImportedIsSaidAtOnce) {
  plan::Builder builder;
  builder.Range(1).Behind("map_python", {{"function", std::string("broken_module:f")},
                                         {"spec", std::string("int64[]")}});
  const absl::Status error = Run<int64_t>(builder).status();
  EXPECT_EQ(plan::ReasonOf(error), plan::kFunctionFailed);
  EXPECT_THAT(std::string(error.message()), HasSubstr("No module named 'no_such_module'"));
  EXPECT_THAT(std::string(Run<int64_t>(Mapped(1, "absent", "int64[]")).status().message()),
              HasSubstr("has no attribute 'absent'"));
}

TEST_F(FunctionPoolTest, ThereAreNoMoreProcessesThanAllowed) {
  const auto pool = Pool(1);
  const auto dataset = *OpenDataset(Mapped(10'000, "double", "int64[]"), With(pool));
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 3; ++i) {
    threads.emplace_back([&dataset, i] {
      auto run = *SegmentRun::Start(dataset, i);
      for (auto element = run->Next(); element->has_value(); element = run->Next()) {
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->hosts(), 1u);
}

// Of an allowed module only what it defines itself, and offers.
TEST_F(FunctionPoolTest, Finding01_WhatAModuleHasImportedIsNotItsOwn) {
  const auto borrowed = Run<int64_t>(Mapped(1, "borrowed", "int64[]")).status();
  EXPECT_THAT(std::string(borrowed.message()), HasSubstr("does not define borrowed itself"));
  for (const char* name : {"_hidden", "os.kill", "double.__class__", "Classes"}) {
    const absl::Status error = Run<int64_t>(Mapped(1, name, "int64[]")).status();
    EXPECT_FALSE(error.ok()) << name;
    if (std::string_view(name) != "Classes") {
      EXPECT_EQ(plan::ReasonOf(error), plan::kFunctionRefused) << name;
    }
  }
}

// No process is started for a function that nobody allowed, and the dataset does not open.
TEST_F(FunctionPoolTest, Finding01_WithoutAllowanceNothingRuns) {
  const auto pool = std::make_shared<FunctionPool>(FunctionPoolOptions{.python = Python()});
  for (const char* function : {"builtins:exec", "user_functions:double", "os:system", "exec", ""}) {
    plan::Builder builder;
    builder.Range(1).Behind(
        "map_python", {{"function", std::string(function)}, {"spec", std::string("int64[]")}});
    const auto dataset = OpenDataset(builder, With(pool));
    EXPECT_FALSE(dataset.ok()) << function;
  }
  EXPECT_EQ(pool->hosts(), 0u);
}

// A module that lies where the worker happens to run is not found.
TEST_F(FunctionPoolTest, Finding01_TheWorkingDirectoryIsNotSearched) {
  const TestFiles here;
  here.Write("planted.py", "def double(x):\n    return x * 2\n");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(here.Path(""));
  plan::Builder builder;
  builder.Range(1).Behind("map_python", {{"function", std::string("planted:double")},
                                         {"spec", std::string("int64[]")}});
  const absl::Status error = Run<int64_t>(builder).status();
  std::filesystem::current_path(before);
  if (std::system(absl::StrCat(Python(), " -c 'import sys; sys.exit(sys.version_info < (3, 11))'")
                      .c_str()) != 0) {
    GTEST_SKIP() << "PYTHONSAFEPATH came with Python 3.11";
  }
  EXPECT_THAT(std::string(error.message()), HasSubstr("No module named 'planted'"));
}

// What runs, what waits for a process, and what comes later.
TEST_F(FunctionPoolTest, IsStopped) {
  const auto pool = Pool(1);
  const auto dataset = *OpenDataset(Mapped(10'000, "spin", "int64[]"), With(pool));
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 2; ++i) {
    threads.emplace_back([&dataset, i] {
      auto run = *SegmentRun::Start(dataset, i);
      EXPECT_TRUE(absl::IsCancelled(run->Next().status()));
    });
  }
  while (pool->hosts() == 0) ::usleep(1000);
  const Time began = runtime::MonotonicNow();
  pool->Stop();
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(runtime::MonotonicNow() - began, absl::Seconds(10));
  EXPECT_EQ(pool->hosts(), 0u);
  EXPECT_TRUE(absl::IsCancelled((*SegmentRun::Start(dataset, 0))->Next().status()));
}

TEST_F(FunctionPoolTest, ProcessesEndWithTheirParent) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto host = FunctionHost::Start(Python(),
                                          {.reference = "user_functions:spin",
                                           .input = *plan::ParseSpec("int64[]"),
                                           .output = *plan::ParseSpec("int64[]")},
                                          FunctionGrant::kByModule);
    const pid_t pid = host.ok() ? (*host)->pid() : -1;
    if (::write(ends[1], &pid, sizeof(pid)) != sizeof(pid)) ::_exit(1);
    // Busy for ever, when the parent dies.
    plan::Builder builder;
    builder.Range(1);
    LocalIteration iteration(*OpenDataset(builder));
    const Element element = **iteration.Next();
    if (host.ok()) {
      (*host)->Call({&element, 1}, absl::InfiniteDuration(), HeapAllocator()).IgnoreError();
    }
    ::_exit(0);
  }
  pid_t pid = 0;
  ASSERT_EQ(::read(ends[0], &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  ASSERT_GT(pid, 0);
  ::usleep(200'000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const Time deadline = runtime::MonotonicNow() + absl::Seconds(10);
  const auto alive = [&] {
    std::ifstream status(absl::StrCat("/proc/", pid, "/stat"));
    std::string text;
    return std::getline(status, text) && text.find(") Z ") == std::string::npos;
  };
  while (alive() && runtime::MonotonicNow() < deadline) ::usleep(10'000);
  EXPECT_FALSE(alive());
}

}  // namespace
}  // namespace lockstep::engine
