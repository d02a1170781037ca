// Members and sessions against a server that does what the test says.
#include "lockstep/client/member.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/client/fake_server.h"
#include "lockstep/client/preemption.h"
#include "lockstep/client/session.h"

namespace lockstep {
namespace {

using client::FakeServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace native = wire::native;
using link::testing::Seen;

constexpr auto kLong = std::chrono::seconds(30);

// A forked child that starts threads of its own is more than the thread sanitizer can follow.
#if defined(__SANITIZE_THREAD__)
#define SKIP_UNDER_TSAN() GTEST_SKIP() << "forks"
#else
#define SKIP_UNDER_TSAN() static_cast<void>(0)
#endif

// In a forked child that exits by itself, the search for leaks takes what only its parent's threads
// hold for lost.
#if defined(__SANITIZE_ADDRESS__)
#define SKIP_UNDER_ASAN() GTEST_SKIP() << "exits in a forked child"
#else
#define SKIP_UNDER_ASAN() static_cast<void>(0)
#endif

absl::Status Error(absl::StatusCode code, std::string_view reason, const char* text = "x") {
  return native::WithReason(absl::Status(code, text), reason);
}

std::unique_ptr<Member> JoinAt(FakeServer& server, absl::Duration grace = absl::Minutes(1)) {
  server.LetIn(2);
  auto member = Join({.address = server.address(),
                      .job = "digits",
                      .index = 0,
                      .size = 2,
                      .host = "gpu-1",
                      .labels = {{"zone", "a"}},
                      .timeout = absl::Seconds(30),
                      .grace = grace});
  EXPECT_TRUE(member.ok()) << member.status();
  return member.ok() ? *std::move(member) : nullptr;
}

// A completion that a test waits for.
template <class T>
struct Promised {
  std::promise<T> promise;
  std::future<T> future = promise.get_future();

  T Get() {
    EXPECT_EQ(future.wait_for(kLong), std::future_status::ready) << "was not called back";
    return future.get();
  }
};

// What a fork's child found, as its exit code.
template <class Claim>
int InChild(Claim claim) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(claim());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Member, JoinsAsTheOptionsSay) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  const auto open = server.Last<native::OpenSession>();
  EXPECT_EQ(open.job, "digits");
  EXPECT_EQ(open.create_size, 2);
  const auto join = server.Last<native::JoinJob>();
  EXPECT_EQ(join.index, 0);
  EXPECT_EQ(join.host, "gpu-1");
  EXPECT_EQ(join.pid, ::getpid());
  EXPECT_NE(join.incarnation, 0u);
  EXPECT_GT(join.timeout_us, 0);
  ASSERT_EQ(join.labels.size(), 1u);
  EXPECT_EQ(join.labels[0].name, "zone");
  EXPECT_EQ(me->name(), "trainer/0#1");
  EXPECT_EQ(me->size(), 2);
  server.WaitFor<native::PollForError>();
}

TEST(Member, FindsAServerThatComesLater) {
  FakeServer server;
  server.LetIn(2);
  const std::string address = server.address();
  server.Kill();
  auto joined = std::async(std::launch::async, [&] {
    return Join({.address = address, .job = "digits", .timeout = absl::Seconds(30)});
  });
  server.Revive();
  const auto me = joined.get();
  EXPECT_TRUE(me.ok()) << me.status();
}

TEST(Member, FollowsTheLeaderToAnotherServer) {
  FakeServer first;
  FakeServer second;
  first.Lead(1);
  first.LetIn(2);
  second.LetIn(2);
  second.StandBy(first.address());
  const auto me = Join({.address = second.address() + "," + first.address(),
                        .job = "digits",
                        .timeout = absl::Seconds(30)});
  ASSERT_TRUE(me.ok()) << me.status();
  const auto opened = first.Last<native::OpenSession>();
  EXPECT_FALSE(opened.resume);
  Promised<absl::StatusOr<KeyEntry>> value;
  (*me)->keys().GetAsync("k", {.timeout = absl::Seconds(30)},
                         [&](auto entry) { value.promise.set_value(std::move(entry)); });
  first.WaitFor<native::GetKey>();

  second.Lead(2);
  first.StandBy(second.address());
  first.Cut();
  const auto resumed = second.Last<native::OpenSession>();
  EXPECT_TRUE(resumed.resume);
  EXPECT_EQ(resumed.session, opened.session);
  const auto asked = second.WaitFor<native::GetKey>();
  ASSERT_FALSE(asked.empty());
  second.Answer(asked.front(), native::GetKeyReply{.entry = {.key = "k", .value = {"v"}}});
  const auto entry = value.Get();
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->value, "v");

  // The former leader, which has not noticed.
  first.Lead(1);
  second.StandBy("");
  second.Cut();
  second.Lead(2);
  EXPECT_TRUE(second.Last<native::OpenSession>(2).resume);
  EXPECT_EQ(first.WaitFor<native::OpenSession>().size(), 1u);
}

TEST(Member, SaysWhichServersItDidNotFind) {
  FakeServer server;
  FakeServer other;
  const std::string address = server.address();
  server.Kill();
  other.StandBy(address);
  const auto me = Join({.address = address + "," + other.address(),
                        .job = "digits",
                        .timeout = absl::Milliseconds(500)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(me.status()));
  EXPECT_THAT(std::string(me.status().message()),
              ::testing::AllOf(HasSubstr("the servers at " + address + ", " + other.address() +
                                         " have not been reached for "),
                               HasSubstr("Connection refused"), HasSubstr("it stands by")));
}

TEST(Member, SaysWhichServerItDidNotFind) {
  FakeServer server;
  const std::string address = server.address();
  server.Kill();
  const auto me = Join({.address = address, .job = "digits", .timeout = absl::Milliseconds(100)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(me.status()));
  EXPECT_THAT(std::string(me.status().message()),
              ::testing::AllOf(HasSubstr(address), HasSubstr("Connection refused")));
  EXPECT_EQ(DetailsOf(me.status()).at("job"), "digits");
}

TEST(Member, PassesOnWhyItWasNotLetIn) {
  FakeServer server;
  auto joined = std::async(std::launch::async,
                           [&] { return Join({.address = server.address(), .job = "digits"}); });
  server.Fail(server.WaitFor<native::JoinJob>().back(),
              Error(absl::StatusCode::kAlreadyExists, "member_exists",
                    "trainer/0#1 (pid 7 on gpu-1) is that member, and lives"));
  const auto me = joined.get();
  EXPECT_TRUE(absl::IsAlreadyExists(me.status()));
  EXPECT_EQ(ReasonOf(me.status()), "member_exists");
  EXPECT_THAT(std::string(me.status().message()), HasSubstr("pid 7 on gpu-1"));
}

TEST(Member, SaysWhichAttemptItWasStartedFor) {
  FakeServer server;
  server.LetIn(2);
  const auto me = Join({.address = server.address(), .job = "digits", .attempt = 7});
  ASSERT_TRUE(me.ok()) << me.status();
  EXPECT_EQ(server.Last<native::JoinJob>().attempt, 7);
}

TEST(Member, JoinsAsynchronously) {
  FakeServer server;
  Promised<absl::StatusOr<std::unique_ptr<Member>>> promised;
  JoinAsync({.address = server.address(), .job = "digits"},
            [&](auto member) { promised.promise.set_value(std::move(member)); });
  server.Answer(server.WaitFor<native::JoinJob>().back(),
                native::JoinJobReply{.role = "r", .name = "r/0#1", .size = 1});
  const auto me = promised.Get();
  ASSERT_TRUE(me.ok()) << me.status();
  EXPECT_EQ((*me)->name(), "r/0#1");
}

TEST(Member, AnAsynchronousJoinCanBeCancelled) {
  FakeServer server;
  Promised<absl::StatusOr<std::unique_ptr<Member>>> promised;
  const Pending pending =
      JoinAsync({.address = server.address(), .job = "digits"},
                [&](auto member) { promised.promise.set_value(std::move(member)); });
  server.WaitFor<native::JoinJob>();
  pending.Cancel();
  EXPECT_TRUE(absl::IsCancelled(promised.Get().status()));
  server.lost.WaitForCount(1);
}

// A server that asks for a first step, and never says what was agreed on.
TEST(Member, APollThatWaitsForTheSyncStepEndsWithItsMember) {
  FakeServer server;
  auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  const auto preemption = Preemption::Open(*me);
  EXPECT_FALSE(preemption->Reached(1));
  server.Answer(server.WaitFor<native::WatchPreemption>().back(),
                native::WatchPreemptionReply{
                    .state = {.version = 1, .id = 1, .phase = native::PreemptionPhase::kHolding}});
  EXPECT_EQ(server.Last<native::AnswerHold>().first, 2);
  auto reached = std::async(std::launch::async, [&] { return preemption->Reached(2); });
  EXPECT_EQ(reached.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  me.reset();
  ASSERT_EQ(reached.wait_for(kLong), std::future_status::ready);
  EXPECT_FALSE(reached.get());
}

TEST(Member, CountsTheUsesOfABarrierAndBringsValues) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  for (int64_t use = 0; use < 2; ++use) {
    auto gathered = std::async(std::launch::async, [&] {
      return me->Gather("ports", "4711", {.timeout = absl::Seconds(30)});
    });
    const auto barrier = server.Last<native::Barrier>(static_cast<size_t>(use) + 1);
    EXPECT_EQ(barrier.counter, use);
    EXPECT_EQ(barrier.value->data, "4711");
    EXPECT_GT(barrier.timeout_us, 29'000'000);
    EXPECT_LT(barrier.timeout_us, 30'000'000);
    server.Answer(server.WaitFor<native::Barrier>().back(),
                  native::BarrierReply{.counter = use, .values = {{0, {"4711"}}, {1, {"8080"}}}});
    const auto values = gathered.get();
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_THAT(*values, ElementsAre("4711", "8080"));
  }
}

TEST(Member, AWaitGoesOnAfterItsLinkBroke) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  auto waited = std::async(std::launch::async, [&] { return me->keys().Wait("k"); });
  const auto first = server.WaitFor<native::GetKey>().back();
  server.Cut();
  const auto second = server.WaitFor<native::GetKey>(2).back();
  EXPECT_EQ(first.message.id, second.message.id);
  EXPECT_NE(first.link, second.link);
  EXPECT_TRUE(server.Last<native::OpenSession>(2).resume);
  server.Answer(second, native::GetKeyReply{.entry = {.key = "k", .value = {"v"}}});
  const auto entry = waited.get();
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->value, "v");
}

TEST(Member, AWriteIsSentAgainUnderItsNumberWhenTheServerDied) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  auto written = std::async(std::launch::async, [&] { return me->keys().Increment("n", 5); });
  const auto first = server.WaitFor<native::IncrementKey>().back();
  server.Kill();
  server.Revive();
  const auto second = server.WaitFor<native::IncrementKey>(2).back();
  EXPECT_EQ(first.message.id, second.message.id);
  EXPECT_EQ(first.message.payload, second.message.payload);
  server.Answer(second, native::IncrementKeyReply{.value = 5});
  const auto sum = written.get();
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, 5);
}

TEST(Member, GivesTheServerUpAfterTheGraceAndSaysSo) {
  FakeServer server;
  const auto me = JoinAt(server, /*grace=*/absl::Milliseconds(100));
  ASSERT_NE(me, nullptr);
  Promised<absl::Status> told;
  me->OnError([&](absl::Status why) { told.promise.set_value(std::move(why)); });
  auto waited = std::async(std::launch::async, [&] { return me->keys().Wait("k"); });
  server.WaitFor<native::GetKey>();
  server.Kill();
  EXPECT_EQ(ReasonOf(waited.get().status()), "server_lost");
  EXPECT_EQ(ReasonOf(told.Get()), "server_lost");
  EXPECT_EQ(ReasonOf(me->keys().Get("k").status()), "server_lost");
}

TEST(Member, TheRootCauseEndsEveryWaitAndIsToldOnce) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  Seen<std::string> told;
  me->OnError([&](const absl::Status& why) { told.Add(ReasonOf(why)); });
  auto barrier = std::async(std::launch::async, [&] { return me->Barrier("b"); });
  auto key = std::async(std::launch::async, [&] { return me->keys().Wait("k"); });
  server.WaitFor<native::Barrier>();
  server.WaitFor<native::GetKey>();
  server.Fail(server.WaitFor<native::PollForError>().back(),
              Error(absl::StatusCode::kUnavailable, "process_ended", "trainer/1#1 ended"));
  EXPECT_EQ(ReasonOf(barrier.get().status()), "process_ended");
  EXPECT_EQ(key.get().status().message(), "trainer/1#1 ended");
  EXPECT_THAT(told.WaitForCount(1), ElementsAre("process_ended"));
  me->OnError([&](const absl::Status& why) { told.Add("again " + ReasonOf(why)); });
  EXPECT_THAT(told.WaitForCount(2), ElementsAre("process_ended", "again process_ended"));
}

TEST(Member, CancellingAnAsynchronousCallCallsItBackOnce) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  Seen<std::string> reasons;
  const Pending pending = me->BarrierAsync(
      "b", {}, [&](const auto& values) { reasons.Add(ReasonOf(values.status())); });
  const auto request = server.WaitFor<native::Barrier>().back();
  pending.Cancel();
  pending.Cancel();
  EXPECT_THAT(reasons.WaitForCount(1), ElementsAre("cancelled"));
  const auto came = server.came.WaitUntil([](const auto& seen) {
    return std::any_of(seen.begin(), seen.end(), [](const auto& one) {
      return one.message.type == link::FrameType::kCancel;
    });
  });
  EXPECT_EQ(came.back().message.id, request.message.id);
  server.Answer(request, native::BarrierReply{});
  auto again = std::async(std::launch::async, [&] { return me->Barrier("b"); });
  const auto second = server.WaitFor<native::Barrier>(2).back();
  EXPECT_EQ(server.Last<native::Barrier>().counter, 0) << "the first use never ended";
  server.Answer(second, native::BarrierReply{});
  EXPECT_TRUE(again.get().ok());
  EXPECT_EQ(reasons.WaitForCount(1).size(), 1u);
}

TEST(Member, ABlockedCallerIsAskedWhetherItWantsToGoOn) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  std::atomic<int> asked = 0;
  const auto entry =
      me->keys().Wait("k", {.interrupted = [&]() -> absl::Status {
                        return ++asked < 2 ? absl::OkStatus() : absl::CancelledError("ctrl-c");
                      }});
  EXPECT_EQ(entry.status().message(), "ctrl-c");
  EXPECT_EQ(asked, 2);
}

TEST(Member, TimeIsUpOnTimeAlsoWhenTheServerSaysNothing) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  const auto entry = me->keys().Wait("k", {.timeout = absl::Milliseconds(50)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(entry.status()));
  EXPECT_THAT(std::string(entry.status().message()), HasSubstr("a value of key 'k'"));
}

TEST(Member, SendsOnlyTheNewestProgress) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  for (int step = 0; step <= 1000; ++step) me->ReportProgress(step, "training");
  const auto came = server.came.WaitUntil([](const auto& seen) {
    return std::any_of(seen.begin(), seen.end(), [](const FakeServer::Came& one) {
      if (one.message.kind != link::KindOf<native::ReportProgress>::kKind) return false;
      return native::Decode<native::ReportProgress>(one.message.payload)->step == 1000;
    });
  });
  const auto reports = server.WaitFor<native::ReportProgress>();
  EXPECT_LT(reports.size(), 100u) << "not one for each step";
  EXPECT_EQ(native::Decode<native::ReportProgress>(reports.back().message.payload)->step, 1000);
}

TEST(Member, WatchesGoOnWhereTheyWere) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  Seen<std::string> seen;
  const auto watch = me->keys().Watch("config", [&](const absl::StatusOr<KeyChanges>& changes) {
    for (const KeyChange& change : changes->changes) {
      seen.Add(change.key + "=" + change.value.value_or("(deleted)"));
    }
  });
  EXPECT_EQ(server.Last<native::WatchKeys>().after, 0);
  server.Answer(
      server.WaitFor<native::WatchKeys>().back(),
      native::WatchKeysReply{.changes = {{.key = "config/lr", .value = native::Bytes{"1"}}},
                             .revision = 7,
                             .snapshot = true});
  EXPECT_EQ(server.Last<native::WatchKeys>(2).after, 7);
  server.Cut();
  EXPECT_EQ(server.Last<native::WatchKeys>(3).after, 7);
  server.Answer(server.WaitFor<native::WatchKeys>().back(),
                native::WatchKeysReply{.changes = {{.key = "config/lr"}}, .revision = 8});
  EXPECT_THAT(seen.WaitForCount(2), ElementsAre("config/lr=1", "config/lr=(deleted)"));
  watch->Stop();
}

TEST(Member, AWatchCanBePulledAndStopped) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  const auto watch = me->WatchJob();
  auto next = std::async(std::launch::async, [&] { return watch->Next(); });
  server.Answer(server.WaitFor<native::WatchJob>().back(),
                native::WatchJobReply{.version = 3,
                                      .snapshot = true,
                                      .attempt = 1,
                                      .state = native::AttemptState::kRunning,
                                      .members = {{.name = "trainer/0#1"}}});
  const auto change = next.get();
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(change->state, "running");
  EXPECT_EQ(change->members.at(0).name, "trainer/0#1");
  next = std::async(std::launch::async, [&] { return watch->Next(); });
  EXPECT_EQ(server.Last<native::WatchJob>(2).after, 3);
  watch->Stop();
  EXPECT_TRUE(absl::IsCancelled(next.get().status()));
  EXPECT_TRUE(absl::IsCancelled(watch->Next().status()));
}

TEST(Member, ListsPageByPage) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  auto listed = std::async(std::launch::async, [&] { return me->keys().List("d", {.page = 2}); });
  server.Answer(server.WaitFor<native::ListKeys>().back(),
                native::ListKeysReply{.entries = {{.key = "d/a"}, {.key = "d/b"}}, .more = true});
  EXPECT_EQ(server.Last<native::ListKeys>(2).after, "d/b");
  server.Answer(server.WaitFor<native::ListKeys>().back(),
                native::ListKeysReply{.entries = {{.key = "d/c"}}});
  const auto entries = listed.get();
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->size(), 3u);
}

TEST(Member, AfterLeavingItIsNoMember) {
  FakeServer server;
  const auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  auto left = std::async(std::launch::async, [&] { return me->Leave(); });
  server.Answer(server.WaitFor<native::LeaveJob>().back(), native::LeaveJobReply{});
  EXPECT_TRUE(left.get().ok());
  EXPECT_EQ(ReasonOf(me->Barrier("b").status()), "member_left");
  EXPECT_EQ(ReasonOf(me->Leave()), "member_left");
}

TEST(Member, ItsEndEndsItsWaitsAndSaysSoToTheServer) {
  FakeServer server;
  auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  Seen<std::string> reasons;
  const Keys keys = me->keys();
  keys.WaitAsync("k", {}, [&](const auto& entry) { reasons.Add(ReasonOf(entry.status())); });
  server.WaitFor<native::GetKey>();
  me.reset();
  EXPECT_EQ(reasons.WaitForCount(1).size(), 1u);
  server.WaitFor<native::CloseSession>();
  EXPECT_EQ(ReasonOf(keys.Get("k").status()), "session_closed");
}

TEST(Member, CanBeDestroyedByItsOwnCompletion) {
  FakeServer server;
  auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  std::promise<void> gone;
  me->keys().GetAsync("k", {}, [&](const auto&) {
    me.reset();
    gone.set_value();
  });
  server.Fail(server.WaitFor<native::GetKey>().back(),
              Error(absl::StatusCode::kNotFound, "key_not_found"));
  EXPECT_EQ(gone.get_future().wait_for(kLong), std::future_status::ready);
}

TEST(Member, ACompletionMayBlock) {
  FakeServer server;
  auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  Promised<absl::Status> promised;
  me->keys().TryGetAsync("a", {}, [&](const auto& nothing) {
    EXPECT_TRUE(nothing.ok() && !nothing->has_value());
    promised.promise.set_value(me->keys().Get("b").status());
  });
  server.Fail(server.WaitFor<native::GetKey>().back(),
              Error(absl::StatusCode::kNotFound, "key_not_found"));
  server.Answer(server.WaitFor<native::GetKey>(2).back(), native::GetKeyReply{});
  EXPECT_TRUE(promised.Get().ok());
}

TEST(Member, AForkedChildHasNoneOfIt) {
  FakeServer server;
  auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  const auto waiting = me->WatchJob();
  EXPECT_EQ(InChild([&] {
              if (ReasonOf(me->Barrier("b").status()) != "forked") return 1;
              if (ReasonOf(me->keys().Get("k").status()) != "forked") return 2;
              if (ReasonOf(me->Leave()) != "forked") return 3;
              if (ReasonOf(waiting->Next().status()) != "forked") return 4;
              me->ReportProgress(1);
              me.reset();
              return 0;
            }),
            0);
  auto got = std::async(std::launch::async, [&] { return me->keys().Get("k"); });
  server.Answer(server.WaitFor<native::GetKey>().back(), native::GetKeyReply{});
  EXPECT_TRUE(got.get().ok()) << "the parent does not notice";
}

TEST(Member, AForkedChildMayJoinForItself) {
  SKIP_UNDER_TSAN();
  FakeServer server;
  auto me = JoinAt(server);
  ASSERT_NE(me, nullptr);
  EXPECT_EQ(InChild([&] {
              auto mine = Join({.address = server.address(), .job = "digits"});
              if (!mine.ok()) return 1;
              return ReasonOf(me->Barrier("b").status()) == "forked" ? 0 : 2;
            }),
            0);
  EXPECT_EQ(server.WaitFor<native::JoinJob>(2).size(), 2u);
}

TEST(Member, ItsDeathIsSeenWhileAForkedChildLives) {
  SKIP_UNDER_TSAN();
  FakeServer server;
  server.LetIn(2);
  const std::string address = server.address();
  int alive[2];
  ASSERT_EQ(::pipe(alive), 0);
  const pid_t member = ::fork();
  if (member == 0) {
    auto me = Join({.address = address, .job = "digits"});
    if (!me.ok()) ::_exit(1);
    if (::fork() == 0) {
      // Lives until the test lets go.
      ::close(alive[1]);
      char byte = 0;
      ::_exit(::read(alive[0], &byte, 1) == 0 ? 0 : 1);
    }
    ::kill(::getpid(), SIGKILL);
  }
  EXPECT_EQ(server.lost.WaitForCount(1).size(), 1u);
  ::close(alive[0]);
  ::close(alive[1]);
  int status = 0;
  ::waitpid(member, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(Member, AProcessMayExitWhileItWaits) {
  SKIP_UNDER_TSAN();
  SKIP_UNDER_ASAN();
  FakeServer server;
  server.LetIn(2);
  EXPECT_EXIT(
      {
        auto me = Join({.address = server.address(), .job = "digits"});
        if (!me.ok()) ::_exit(1);
        std::thread([keys = (*me)->keys()] { static_cast<void>(keys.Wait("k")); }).detach();
        (*me)->keys().WaitAsync("l", {}, [](const auto&) {});
        static_cast<void>(me->release());
        std::exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(Session, ReadsWithoutBeingAMember) {
  FakeServer server;
  auto session = Session::Open({.address = server.address(), .job = "digits"});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->attempt(), 1);
  auto got = std::async(std::launch::async, [&] { return (*session)->keys().Get("k"); });
  server.Fail(server.WaitFor<native::GetKey>().back(),
              Error(absl::StatusCode::kNotFound, "key_not_found"));
  EXPECT_TRUE(absl::IsNotFound(got.get().status()));
}

TEST(Session, SaysThatThereIsNoSuchJob) {
  FakeServer server;
  server.RefuseSessions(Error(absl::StatusCode::kNotFound, "unknown_job", "no job 'x'"));
  const auto session = Session::Open({.address = server.address(), .job = "x"});
  EXPECT_EQ(ReasonOf(session.status()), "unknown_job");
}

TEST(Session, ComesBackWhenItsLinkIsCutAndItWritesMuch) {
  FakeServer server;
  auto session = Session::Open({.address = server.address(), .job = "digits"});
  ASSERT_TRUE(session.ok()) << session.status();
  Seen<int64_t> revisions;
  for (int i = 0; i < 64; ++i) {
    (*session)->keys().SetAsync("k" + std::to_string(i), std::string(100, 'v'), {},
                                [&](const auto& revision) { revisions.Add(*revision); });
  }
  const auto first = server.WaitFor<native::SetKey>(64);
  server.Answer(first[0], native::SetKeyReply{.revision = 1});
  EXPECT_EQ(revisions.WaitForCount(1).size(), 1u);
  server.Cut();
  const auto both = server.WaitFor<native::SetKey>(127);
  for (size_t i = 64; i < 127; ++i) {
    EXPECT_EQ(both[i].message.id, both[i - 63].message.id) << "in order, under the old numbers";
    server.Answer(both[i], native::SetKeyReply{.revision = static_cast<int64_t>(i)});
  }
  EXPECT_EQ(revisions.WaitForCount(64).size(), 64u);
}

}  // namespace
}  // namespace lockstep
