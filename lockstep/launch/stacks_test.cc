#include "lockstep/launch/stacks.h"

#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

constexpr char kLibrary[] = "/venv/lib/python3.11/site-packages/torch/distributed/";

ProcessStacks InAllReduce(int32_t member) {
  return {.member = member,
          .name = "task/" + std::to_string(member),
          .host = "host-a",
          .pid = 100 + member,
          .state = "sleeping",
          .source = "py-spy",
          .threads = {{.name = "MainThread",
                       .frames = {{"all_reduce", std::string(kLibrary) + "c10d.py", 3007},
                                  {"wrapper", std::string(kLibrary) + "c10d_logger.py", 83},
                                  {"step", "/home/me/train.py", 88},
                                  {"main", "/home/me/train.py", 120}}}}};
}

ProcessStacks InLoader(int32_t member) {
  return {.member = member,
          .name = "task/" + std::to_string(member),
          .host = "host-b",
          .pid = 17,
          .state = "running",
          .source = "faulthandler",
          .threads = {{.name = "0x1", .frames = {{"load", "/home/me/loader.py", 31}}}}};
}

TEST(Stacks, ThoseAtOnePlaceAreOneGroupAndTheOthersAreNamed) {
  std::vector<ProcessStacks> all;
  for (const int member : {0, 1, 3, 4, 5}) all.push_back(InAllReduce(member));
  all.insert(all.begin() + 1, InLoader(2));
  EXPECT_EQ(StacksSentence(all),
            "5 of 6 wait in all_reduce, train.py:88; task/2 (pid 17 on host-b) runs load, "
            "loader.py:31");
  const auto groups = Group(all);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].processes.front()->member, 0);
  EXPECT_NE(StacksText(all).find("    wrapper (/venv/lib/python3.11/"), std::string::npos);
}

TEST(Stacks, AStoppedProcessIsSaidToBeStoppedWhereverItIs) {
  ProcessStacks stopped = InAllReduce(1);
  stopped.state = "stopped";
  EXPECT_EQ(StacksSentence({stopped}), "task/1 (pid 101 on host-a) is stopped");
}

TEST(Stacks, WithoutAStackTheKernelTellsWhereItWaits) {
  ProcessStacks process = {.name = "task/0",
                           .host = "h",
                           .pid = 1,
                           .state = "sleeping",
                           .waits_in = "futex_wait_queue",
                           .source = "kernel"};
  EXPECT_EQ(StacksSentence({process}), "task/0 (pid 1 on h) waits in futex_wait_queue");
  process.waits_in.clear();
  EXPECT_EQ(PlaceOf(process).what1, "waits in an unknown place");
  process.state = "running";
  EXPECT_EQ(PlaceOf(process).what1, "runs");
}

TEST(Stacks, InLibrariesAloneTheInnermostFunctionIsThePlace) {
  ProcessStacks process = InAllReduce(0);
  process.threads[0].frames.resize(2);
  EXPECT_EQ(PlaceOf(process), (StackPlace{"wait in all_reduce", "waits in all_reduce",
                                          "c10d.py:3007", "all_reduce"}));
}

TEST(Stacks, WhoIsInACollectiveWaitsForOthers) {
  EXPECT_TRUE(WaitsForOthers(InAllReduce(0)));
  EXPECT_FALSE(WaitsForOthers(InLoader(0)));
  ProcessStacks process = InAllReduce(0);
  process.state = "running";  // as NCCL waits
  EXPECT_TRUE(WaitsForOthers(process));
  process.state = "stopped";
  EXPECT_FALSE(WaitsForOthers(process));
  // A program of one's own whose folder is called so is no library.
  process = InLoader(0);
  process.threads[0].frames[0].file = "/home/me/torch/distributed/loader.py";
  EXPECT_FALSE(WaitsForOthers(process));
}

TEST(Stacks, WhoSleepsInBackwardWaitsForOthersAndWhoRunsThereDoesNot) {
  ProcessStacks process = InAllReduce(0);
  process.threads[0].frames = {
      {"_engine_run_backward", "/venv/lib/python3.11/site-packages/torch/autograd/graph.py", 800},
      {"step", "/home/me/train.py", 80}};
  EXPECT_TRUE(WaitsForOthers(process));
  process.state = "running";
  EXPECT_FALSE(WaitsForOthers(process));
}

TEST(Stacks, OfAnOlderLauncherItIsNotKnownForHowLongAProcessHasBeenStill) {
  std::string text = EncodeStacks({InAllReduce(0)});
  const std::string still = ",\"still_us\":-1";
  const size_t at = text.find(still);
  ASSERT_NE(at, std::string::npos) << text;
  const auto decoded = DecodeStacks(text.erase(at, still.size()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->front(), InAllReduce(0));
}

TEST(Stacks, WhatIsEncodedIsDecoded) {
  std::vector<ProcessStacks> all = {InAllReduce(0), InLoader(1)};
  all[0].still_us = 41'000'000;
  const auto decoded = DecodeStacks(EncodeStacks(all));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, all);
}

TEST(Stacks, BytesThatAreNoTextAreShownAsSuch) {
  ProcessStacks process = InLoader(0);
  process.threads[0].frames[0].function = "\xff";
  EXPECT_TRUE(DecodeStacks(EncodeStacks({process})).ok());
}

TEST(Stacks, WhatAreNoStacksIsRefused) {
  for (const char* text : {"", "{", "[1]", "[{}]", "7", R"([{"member":"x"}])"}) {
    EXPECT_EQ(DecodeStacks(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(Stacks, FaulthandlersDumpIsRead) {
  const auto threads = ParseFaulthandler(
      "Thread 0x00007f01 (most recent call first):\n"
      "  File \"/lib/python3.11/threading.py\", line 324 in wait\n"
      "\n"
      "Current thread 0x00007f02 (most recent call first):\n"
      "  File \"/home/me/a \"b\".py\", line 7 in load in parts\n"
      "  File \"/home/me/train.py\", line 88 in <module>\n"
      "  ...\n"
      "\n"
      "Thread 0x00007f03 (most recent call first):\n"
      "  <no Python frame>\n");
  ASSERT_EQ(threads.size(), 3u);
  EXPECT_EQ(threads[0].name, "0x00007f02");
  EXPECT_EQ(threads[0].frames, (std::vector<StackFrame>{{"load in parts", "/home/me/a \"b\".py", 7},
                                                        {"<module>", "/home/me/train.py", 88}}));
  EXPECT_EQ(threads[1].frames.size(), 1u);
  EXPECT_TRUE(threads[2].frames.empty());
}

TEST(Stacks, WithoutACurrentThreadTheOldestIsTheMainOne) {
  const auto threads = ParseFaulthandler(
      "Thread 0x1 (most recent call first):\n"
      "Thread 0x2 (most recent call first):\n");
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0].name, "0x2");
}

TEST(Stacks, PySpysDumpIsRead) {
  const auto threads = ParsePySpy(
      "Process 17: python train.py\n"
      "Python v3.11.2 (/usr/bin/python3.11)\n"
      "\n"
      "Thread 18 (idle): \"Thread-1 (worker)\"\n"
      "    wait (/usr/lib/python3.11/threading.py:324)\n"
      "Thread 17 (active): \"MainThread\"\n"
      "    pthread_cond_wait (libc.so.6)\n"
      "    step (/home/me/train.py:88)\n");
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0].name, "MainThread");
  EXPECT_EQ(threads[0].frames, (std::vector<StackFrame>{{"pthread_cond_wait", "", 0},
                                                        {"step", "/home/me/train.py", 88}}));
}

TEST(Stacks, GdbsBacktracesAreRead) {
  const auto threads = ParseGdb(
      "Thread 2 (Thread 0x7f02 (LWP 18) \"worker\"):\n"
      "#0  0x00007f in epoll_wait () from /lib/libc.so.6\n"
      "\n"
      "Thread 1 (Thread 0x7f01 (LWP 17) \"train\"):\n"
      "#0  __futex_wait (word=0x1) at ./nptl/futex.c:57\n"
      "#1  0x000055 in main (argc=1, argv=0x7ffe) at /home/me/train.cc:12\n"
      "[Inferior 1 (process 17) detached]\n");
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0].frames, (std::vector<StackFrame>{{"__futex_wait", "./nptl/futex.c", 57},
                                                        {"main", "/home/me/train.cc", 12}}));
  EXPECT_EQ(threads[1].frames, (std::vector<StackFrame>{{"epoll_wait", "", 0}}));
}

TEST(Stacks, WhatNoToolPrintsIsNoStack) {
  for (const char* text :
       {"", "Thread\n", "Thread 0\n#", "    (\n", "  File \"\", line\n", "#0 0x"}) {
    for (const auto& parse : {ParseFaulthandler, ParsePySpy, ParseGdb}) {
      for (const ThreadStack& thread : parse(text)) EXPECT_TRUE(thread.frames.empty()) << text;
    }
  }
}

TEST(Stacks, LongStacksAndManyThreadsAreCut) {
  std::string text;
  for (size_t i = 0; i < 2 * kStackThreadsMax; ++i) {
    text += "Thread 0x1 (most recent call first):\n";
    for (size_t j = 0; j < 2 * kStackFramesMax; ++j) text += "  File \"a.py\", line 1 in f\n";
  }
  const auto threads = ParseFaulthandler(text);
  ASSERT_EQ(threads.size(), kStackThreadsMax);
  for (const ThreadStack& thread : threads) EXPECT_EQ(thread.frames.size(), kStackFramesMax);
}

}  // namespace
}  // namespace lockstep::launch
