// The C++ client against the real coordinator, over real links.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <iostream>
#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/check.h"
#include "lockstep/client/member.h"
#include "lockstep/client/session.h"
#include "tests/native/native_server.h"
#include "tests/native/native_testing.h"
#include "tests/spawn_process.h"

namespace lockstep {
namespace {

using link::testing::Seen;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A forked child that starts threads of its own is more than the thread sanitizer can follow.
#if defined(__SANITIZE_THREAD__)
#define SKIP_UNDER_TSAN() GTEST_SKIP() << "forks"
#else
#define SKIP_UNDER_TSAN() static_cast<void>(0)
#endif

TEST(ClientServer, MembersMeetAndShareValues) {
  NativeServer server(JobOf(3));
  const auto members = JoinAll(server, 3);
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[1]->name(), "trainer/1#1");
  for (int use = 0; use < 3; ++use) {
    std::vector<std::future<absl::StatusOr<std::vector<std::string>>>> gathers;
    for (const auto& member : members) {
      gathers.push_back(std::async(std::launch::async, [&] {
        return member->Gather("ports", absl::StrCat(4000 + member->member()));
      }));
    }
    for (auto& gather : gathers) {
      const auto ports = gather.get();
      ASSERT_TRUE(ports.ok()) << ports.status();
      EXPECT_THAT(*ports, ElementsAre("4000", "4001", "4002"));
    }
  }
}

TEST(ClientServer, KeysDoWhatTheySay) {
  NativeServer server(JobOf(1));
  const auto members = JoinAll(server, 1);
  ASSERT_EQ(members.size(), 1u);
  const Keys keys = members[0]->keys();
  EXPECT_TRUE(absl::IsNotFound(keys.Get("a").status()));
  EXPECT_EQ(*keys.TryGet("a"), std::nullopt);
  auto waited = std::async(std::launch::async, [&] { return keys.WaitAll({"a", "b"}); });
  const auto revision = keys.Set("a", "1");
  ASSERT_TRUE(revision.ok()) << revision.status();
  EXPECT_TRUE(absl::IsAlreadyExists(keys.Set("a", "2", {.overwrite = false}).status()));
  EXPECT_FALSE(keys.CompareAndSet("b", KeyMust::HaveValue("x"), "y")->swapped);
  EXPECT_TRUE(keys.CompareAndSet("b", KeyMust::NotExist(), "2")->swapped);
  EXPECT_EQ(waited.get()->at(1).value, "2");
  EXPECT_TRUE(keys.CompareAndSet("a", KeyMust::BeAtRevision(*revision), "3")->swapped);
  EXPECT_EQ(keys.Get("a")->value, "3");
  EXPECT_EQ(*keys.Increment("n", 5), 5);
  EXPECT_EQ(*keys.Max("n", 3), 5);
  EXPECT_EQ(*keys.Max("n", 9), 9);
  for (int i = 0; i < 25; ++i) ASSERT_TRUE(keys.Set(absl::StrCat("d/", 100 + i), "v").ok());
  const auto listed = keys.List("d", {.page = 10});
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->size(), 25u);
  EXPECT_EQ(listed->back().key, "d/124");
  EXPECT_EQ(*keys.Delete("d", {.below = true}), 25);
  const std::string big(3 << 20, 'x');
  ASSERT_TRUE(keys.Set("big", big).ok());
  EXPECT_EQ(keys.Get("big")->value, big);
}

TEST(ClientServer, WatchesSeeEveryKeyInTheEndAlsoAcrossBrokenLinks) {
  NativeServer server(JobOf(1));
  const auto members = JoinAll(server, 1);
  ASSERT_EQ(members.size(), 1u);
  Seen<std::string> seen;
  const auto watch = members[0]->keys().Watch("w", [&](const absl::StatusOr<KeyChanges>& changes) {
    ASSERT_TRUE(changes.ok()) << changes.status();
    for (const KeyChange& change : changes->changes) seen.Add(change.key);
  });
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(members[0]->keys().Set(absl::StrCat("w/", i), "v").ok());
    if (i % 3 == 0) server.CutLinks();
  }
  const auto all = seen.WaitUntil(
      [](const auto& keys) { return std::find(keys.begin(), keys.end(), "w/9") != keys.end(); });
  for (int i = 0; i < 10; ++i) EXPECT_THAT(all, ::testing::Contains(absl::StrCat("w/", i)));
}

TEST(ClientServer, WhoIsMissingIsNamedWhenABarrierTimesOut) {
  NativeServer server(JobOf(2));
  const auto members = JoinAll(server, 2);
  ASSERT_EQ(members.size(), 2u);
  const auto values = members[0]->Barrier("b", {.timeout = absl::Milliseconds(200)});
  EXPECT_EQ(ReasonOf(values.status()), "barrier_timed_out") << values.status();
  EXPECT_THAT(std::string(values.status().message()), HasSubstr("trainer/1"));
  // The verdict stands for the late one too, and then both go on with the next use.
  EXPECT_EQ(ReasonOf(members[1]->Barrier("b").status()), "barrier_timed_out");
  auto first = std::async(std::launch::async, [&] { return members[0]->Barrier("b"); });
  EXPECT_TRUE(members[1]->Barrier("b").ok());
  EXPECT_TRUE(first.get().ok());
}

TEST(ClientServer, ABarrierIsCancelledForAll) {
  NativeServer server(JobOf(2));
  const auto members = JoinAll(server, 2);
  ASSERT_EQ(members.size(), 2u);
  Seen<std::string> reasons;
  members[0]->BarrierAsync("b", {}, [&](const auto& v) { reasons.Add(ReasonOf(v.status())); });
  // A member's requests are taken in order: when this is answered, it has arrived.
  ASSERT_TRUE(members[0]->keys().Set("arrived", "").ok());
  EXPECT_TRUE(members[1]->CancelBarrier("b").ok());
  EXPECT_THAT(reasons.WaitForCount(1), ElementsAre("barrier_cancelled"));
}

TEST(ClientServer, MembersAgreeOnAnIndexThatNoneHasPassed) {
  NativeServer server(JobOf(2));
  const auto members = JoinAll(server, 2);
  ASSERT_EQ(members.size(), 2u);
  auto first = std::async(std::launch::async,
                          [&] { return members[0]->AgreeOnIndex("save", 7, {.stride = 10}); });
  EXPECT_EQ(*members[1]->AgreeOnIndex("save", 23, {.stride = 10}), 30);
  EXPECT_EQ(*first.get(), 30);
}

TEST(ClientServer, ADeathIsToldToAllOnceAndEndsTheirWaits) {
  NativeServer server(JobOf(3));
  auto members = JoinAll(server, 3);
  ASSERT_EQ(members.size(), 3u);
  Seen<std::string> told;
  members[0]->OnError([&](const absl::Status& why) { told.Add(std::string(why.message())); });
  auto waiting = std::async(std::launch::async, [&] { return members[1]->keys().Wait("k"); });
  members[2].reset();
  EXPECT_THAT(told.WaitForCount(1), ElementsAre(HasSubstr("trainer/2#1")));
  EXPECT_THAT(std::string(waiting.get().status().message()), HasSubstr("trainer/2#1"));
}

TEST(ClientServer, AReportedErrorReachesTheOthersAsItIs) {
  NativeServer server(JobOf(2));
  const auto members = JoinAll(server, 2);
  ASSERT_EQ(members.size(), 2u);
  Seen<absl::Status> told;
  members[0]->OnError([&](const absl::Status& why) { told.Add(why); });
  EXPECT_TRUE(members[1]->ReportError(absl::DataLossError("the loss is NaN")).ok());
  const auto errors = told.WaitForCount(1);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_TRUE(absl::IsDataLoss(errors[0])) << errors[0];
  EXPECT_EQ(ReasonOf(errors[0]), "reported_error");
  EXPECT_THAT(std::string(errors[0].message()), HasSubstr("the loss is NaN"));
}

TEST(ClientServer, ASecondProcessCannotBeTheSameMember) {
  NativeServer server(JobOf(1));
  const auto members = JoinAll(server, 1);
  ASSERT_EQ(members.size(), 1u);
  JoinOptions options = Joining(server);
  options.index = 0;
  const auto second = Join(options);
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat(::getpid())));
}

TEST(ClientServer, EverybodyLeaves) {
  NativeServer server(JobOf(2));
  const auto members = JoinAll(server, 2);
  ASSERT_EQ(members.size(), 2u);
  auto first = std::async(std::launch::async, [&] { return members[0]->Leave(); });
  EXPECT_TRUE(members[1]->Leave().ok());
  EXPECT_TRUE(first.get().ok());
}

TEST(ClientServer, CutLinksAreNoNewsToAnybody) {
  NativeServer server(JobOf(2));
  Seen<std::string> told;  // outlives the members, who tell each other of their end
  const auto members = JoinAll(server, 2);
  ASSERT_EQ(members.size(), 2u);
  for (const auto& member : members) {
    member->OnError([&](const absl::Status& why) { told.Add(std::string(why.message())); });
  }
  int64_t sum = 0;
  for (int round = 0; round < 20; ++round) {
    auto first = std::async(std::launch::async, [&] { return members[0]->Barrier("b"); });
    server.CutLinks();
    const auto added = members[1]->keys().Increment("n");
    ASSERT_TRUE(added.ok()) << added.status();
    EXPECT_EQ(*added, ++sum) << "each increment counts once";
    EXPECT_TRUE(members[1]->Barrier("b").ok());
    EXPECT_TRUE(first.get().ok());
  }
  EXPECT_THAT(told.WaitForCount(0), ::testing::IsEmpty());
}

TEST(ClientServer, AServerThatDiesAndComesBackWithItsStateTakesNothingBack) {
  NativeServer server(JobOf(2));
  const auto members = JoinAll(server, 2);
  ASSERT_EQ(members.size(), 2u);
  int64_t sum = 0;
  std::vector<absl::Duration> outages;
  for (int round = 0; round < 20; ++round) {
    auto first = std::async(std::launch::async, [&] { return members[0]->Barrier("b"); });
    auto waited = std::async(std::launch::async,
                             [&] { return members[0]->keys().Wait(absl::StrCat("k", round)); });
    const Time before = runtime::MonotonicNow();
    server.Restart();
    const auto added = members[1]->keys().Increment("n");
    outages.push_back(runtime::MonotonicNow() - before);
    ASSERT_TRUE(added.ok()) << added.status();
    EXPECT_EQ(*added, ++sum);
    ASSERT_TRUE(members[1]->keys().Set(absl::StrCat("k", round), "v").ok());
    const auto met = members[1]->Barrier("b");
    EXPECT_TRUE(met.ok()) << met.status();
    EXPECT_TRUE(first.get().ok());
    EXPECT_TRUE(waited.get().ok());
  }
  std::sort(outages.begin(), outages.end());
  std::cout << "outages of 20 restarts: median " << outages[10] << ", worst " << outages[19]
            << "\n";
}

TEST(ClientServer, AProcessThatIsStoppedForAWhileGoesOn) {
  SKIP_UNDER_TSAN();
  NativeServer server(JobOf(2), {.ping_interval = absl::Milliseconds(500),
                                 .silence_timeout = absl::Milliseconds(1500)});
  const pid_t child = ::fork();
  if (child == 0) {
    JoinOptions options = Joining(server);
    options.index = 1;
    const auto me = Join(options);
    ::_exit(me.ok() && (*me)->Barrier("before").ok() && (*me)->keys().Wait("go").ok() &&
                    (*me)->Barrier("after").ok()
                ? 0
                : 1);
  }
  JoinOptions options = Joining(server);
  options.index = 0;
  const auto me = Join(options);
  ASSERT_TRUE(me.ok()) << me.status();
  ASSERT_TRUE((*me)->Barrier("before").ok());
  ::kill(child, SIGSTOP);
  EXPECT_THAT(server.ended.WaitForCount(1), ElementsAre(false)) << "silence closed its link";
  ASSERT_TRUE((*me)->keys().Set("go", "").ok());
  ::kill(child, SIGCONT);
  const auto after = (*me)->Barrier("after", {.timeout = absl::Seconds(30)});
  EXPECT_TRUE(after.ok()) << after.status();
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ClientServer, AServerWithoutItsStateIsAnErrorForMembers) {
  NativeServer server(JobOf(1));
  const auto members = JoinAll(server, 1);
  ASSERT_EQ(members.size(), 1u);
  auto waiting = std::async(std::launch::async, [&] { return members[0]->keys().Wait("k"); });
  ASSERT_TRUE(members[0]->keys().Set("x", "y").ok());
  server.Restart(/*with_state=*/false);
  EXPECT_EQ(ReasonOf(waiting.get().status()), "unknown_session");
}

// A process of members (many_members.cc), as the test sees it.
class MembersProcess {
 public:
  MembersProcess(const std::string& address, int32_t size, int32_t from, int32_t count,
                 int barriers)
      : members(count) {
    int ends[2] = {};
    LOCKSTEP_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    out_ = ends[0];
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    pid_ = SpawnProcess({LOCKSTEP_MEMBERS_PROGRAM, address, absl::StrCat(size), absl::StrCat(from),
                         absl::StrCat(count), absl::StrCat(barriers)},
                        &files);
    ::posix_spawn_file_actions_destroy(&files);
    ::close(ends[1]);
  }
  ~MembersProcess() {
    Kill();
    ::close(out_);
  }
  MembersProcess(const MembersProcess&) = delete;
  MembersProcess& operator=(const MembersProcess&) = delete;

  // Whether it said so much; it may have ended before.
  bool Read(std::vector<int64_t>& into) const {
    char* at = reinterpret_cast<char*>(into.data());
    size_t left = into.size() * sizeof(int64_t);
    while (left > 0) {
      const ssize_t got = ::read(out_, at, left);
      if (got <= 0) return false;
      at += got;
      left -= static_cast<size_t>(got);
    }
    return true;
  }
  void Kill() {
    if (!ended_.has_value()) ::kill(pid_, SIGKILL);
    AwaitEnd();
  }
  // In words: what it writes to standard error says more.
  std::string AwaitEnd() {
    if (!ended_.has_value()) {
      int status = 0;
      LOCKSTEP_CHECK(::waitpid(pid_, &status, 0) == pid_);
      ended_ = status;
    }
    return WIFEXITED(*ended_) ? absl::StrCat("it ended with status ", WEXITSTATUS(*ended_))
                              : absl::StrCat("signal ", WTERMSIG(*ended_), " ended it");
  }

  const int32_t members;

 private:
  pid_t pid_ = 0;
  int out_ = -1;
  std::optional<int> ended_;
};

int64_t ResidentKib() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE) / 1024;
}

TEST(ClientServer, AThousandMembersInFourProcessesMeetAndLoseTen) {
  SKIP_UNDER_TSAN();
#if defined(__SANITIZE_ADDRESS__)
  constexpr int32_t kSizes[] = {30, 30, 30, 10};
  constexpr int kBarriers = 10;
#else
  constexpr int32_t kSizes[] = {330, 330, 330, 10};
  constexpr int kBarriers = 100;
#endif
  const int32_t size = std::accumulate(std::begin(kSizes), std::end(kSizes), 0);
  NativeServer server(JobOf(size));
  const int64_t before_kib = ResidentKib();
  const Time begun = runtime::MonotonicNow();
  std::vector<std::unique_ptr<MembersProcess>> processes;
  for (int32_t from = 0; const int32_t members : kSizes) {
    processes.push_back(
        std::make_unique<MembersProcess>(server.address(), size, from, members, kBarriers));
    from += members;
  }
  std::vector<double> spreads;
  for (int barrier = 0; barrier < kBarriers; ++barrier) {
    int64_t last_arrival = 0;
    int64_t last_release = 0;
    for (const auto& process : processes) {
      std::vector<int64_t> times(static_cast<size_t>(process->members) + 1);
      ASSERT_TRUE(process->Read(times)) << "barrier " << barrier << ", a process of "
                                        << process->members << " members: " << process->AwaitEnd();
      EXPECT_GT(*std::min_element(times.begin(), times.end() - 1), 0) << "a barrier failed";
      last_arrival = std::max(last_arrival, times.back());
      last_release = std::max(last_release, *std::max_element(times.begin(), times.end() - 1));
    }
    if (barrier == 0) {
      std::cout << size << " members joined and met once in " << runtime::MonotonicNow() - begun
                << "; the server grew by " << ResidentKib() - before_kib << " KiB\n";
    }
    spreads.push_back(static_cast<double>(last_release - last_arrival) / 1e6);
  }
  std::sort(spreads.begin(), spreads.end());
  std::cout << kBarriers << " barriers, from the last arrival to the last release: least "
            << spreads.front() << " ms, median " << spreads[kBarriers / 2] << " ms, worst "
            << spreads.back() << " ms\n";

  const int32_t lost = processes.back()->members;
  const Time killed = runtime::MonotonicNow();
  processes.back()->Kill();
  processes.pop_back();
  int64_t last_told = 0;
  int64_t kib = 0;
  for (const auto& process : processes) {
    std::vector<int64_t> times(static_cast<size_t>(process->members) + 1);
    ASSERT_TRUE(process->Read(times))
        << "a process of members was not told: " << process->AwaitEnd();
    kib = std::max(kib, times.back());
    times.pop_back();
    last_told = std::max(last_told, *std::max_element(times.begin(), times.end()));
    EXPECT_EQ(process->AwaitEnd(), "it ended with status 0");
  }
  std::cout << lost << " members killed: the last of the others was told after "
            << Time::FromNanoseconds(last_told) - killed << "; greatest process of members: " << kib
            << " KiB\n";
}

TEST(ClientServer, LoneCallsAreQuickAndManyAtOnceAreQuicker) {
  NativeServer server(JobOf(1));
  const auto members = JoinAll(server, 1);
  ASSERT_EQ(members.size(), 1u);
  const Keys keys = members[0]->keys();
  ASSERT_TRUE(keys.Set("k", "v").ok());
  std::vector<absl::Duration> gets;
  for (int i = 0; i < 2000; ++i) {
    const Time before = runtime::MonotonicNow();
    ASSERT_TRUE(keys.Get("k").ok());
    gets.push_back(runtime::MonotonicNow() - before);
  }
  std::sort(gets.begin(), gets.end());
  const Time before = runtime::MonotonicNow();
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    Seen<bool> done;
    for (int i = 0; i < 64; ++i) {
      keys.SetAsync("k", "v", {}, [&](const auto& revision) { done.Add(revision.ok()); });
    }
    EXPECT_EQ(done.WaitForCount(64).size(), 64u);
  }
  const absl::Duration each = (runtime::MonotonicNow() - before) / (kRounds * 64);
  std::cout << "a lone get: median " << gets[1000] << ", p99 " << gets[1980]
            << "; a set among 64 at once: " << each << "\n";
}

}  // namespace
}  // namespace lockstep
