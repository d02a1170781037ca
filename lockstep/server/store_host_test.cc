#include "lockstep/server/store_host.h"

#include <thread>

#include "gmock/gmock.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/server/server.h"
#include "lockstep/server/torch_client.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;
using wire::native::CreateJob;
using wire::native::DeleteJob;
using wire::native::EventKind;
using wire::native::OpenStore;
using wire::native::OpenStoreReply;
using wire::native::ProcessEvent;
using wire::native::StatusRequest;
using wire::native::StoreStatus;
using wire::native::WatchEvents;

constexpr absl::Duration kPatience = absl::Seconds(60);

class StoreHostTest : public testing::Test {
 protected:
  void Serve(StoreHostOptions stores = {}) {
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = {{.name = "digits", .size = 4}};
    options.stores = std::move(stores);
    auto server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = link::Client::Connect(server_->listen_address(), kPatience, {});
    ASSERT_TRUE(client.ok()) << client.status();
    native_ = *std::move(client);
  }

  OpenStoreReply Open(int64_t attempt) {
    const auto reply = native_->Call(OpenStore{.job = "digits", .attempt = attempt}, kPatience);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : OpenStoreReply{};
  }

  StoreStatus Status() {
    const auto reply = native_->Call(StatusRequest{.job = "digits"}, kPatience);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply->jobs.at(0).torch_store.value_or(StoreStatus{});
  }

  // What stock clients begin with: a PING by their pid, and one more who has come.
  static std::string BeginBytes(uint32_t pid) {
    std::string bytes = "\x0d";
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(pid >> shift);
    return bytes + AddBytes("init/", 1);
  }
  void SetAndLeave(const std::string& store, uint32_t pid) {
    {
      TorchClient client(store);
      client.Send(BeginBytes(pid) + SetBytes("/a") + GetBytes("/a"));
      EXPECT_EQ(client.Receive(4 + 8 + 13).substr(12), Text("value"));
    }
    while (Status().connections > 0) std::this_thread::yield();
  }
  void Report(int32_t member, ProcessEvent event) {
    EXPECT_TRUE(native_
                    ->Call(wire::native::ProcessReport{.job = "digits",
                                                       .member = member,
                                                       .event = event,
                                                       .host = "here",
                                                       .pid = 100 + member},
                           kPatience)
                    .ok());
  }

  std::unique_ptr<Server> server_;
  std::unique_ptr<link::Client> native_;
};

TEST_F(StoreHostTest, AJobHasAStoreAndTellsWhere) {
  Serve();
  const OpenStoreReply first = Open(0);
  EXPECT_EQ(first.attempt, 1);
  EXPECT_EQ(Open(1), first) << "it has begun with the job";
  EXPECT_EQ(native_->Call(StatusRequest{}, kPatience)->jobs.at(0).store, first.store);
  const auto made = native_->Call(CreateJob{.job = "other", .size = 1}, kPatience);
  ASSERT_TRUE(made.ok());
  EXPECT_NE(made->store, "");
  EXPECT_NE(made->store, first.store);
  EXPECT_EQ(native_->Call(CreateJob{.job = "other", .size = 1}, kPatience)->store, made->store);
}

TEST_F(StoreHostTest, Finding14_AnAttemptThatIsFarAheadDoesNotCloseTheStore) {
  Serve();
  const OpenStoreReply first = Open(1);
  for (const int64_t attempt : {int64_t{5000}, int64_t{1} << 31, INT64_MAX}) {
    const auto refused =
        native_->Call(OpenStore{.job = "digits", .attempt = attempt}, kPatience).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << attempt;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("attempts_ahead_max"));
  }
  EXPECT_EQ(Open(1), first);
  EXPECT_EQ(Open(2).attempt, 2);
}

TEST_F(StoreHostTest, EachAttemptHasAPortAndKeysOfItsOwn) {
  Serve();
  const OpenStoreReply first = Open(1);
  TorchClient old(first.store);
  old.Send(SetBytes("/stale") + WaitBytes("/never"));
  while (Status().waits == 0) std::this_thread::yield();

  const OpenStoreReply second = Open(2);
  EXPECT_EQ(second.attempt, 2);
  EXPECT_NE(second.store, first.store);
  EXPECT_EQ(Open(2), second) << "to whoever asks";
  EXPECT_EQ(Open(0), second);
  EXPECT_EQ(old.Receive(), "") << "its connection is closed";
  EXPECT_FALSE(TorchClient(first.store).connected());
  TorchClient fresh(second.store);
  fresh.Send(GetBytes("/stale"));
  EXPECT_EQ(fresh.Receive(), std::string(8, '\0'));
  EXPECT_EQ(Status().attempt, 2);
}

TEST_F(StoreHostTest, AnAttemptThatIsOverIsRefused) {
  Serve();
  Open(3);
  const auto late = native_->Call(OpenStore{.job = "digits", .attempt = 2}, kPatience);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(wire::native::ReasonOf(late.status()), "attempt_over");
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("attempt 3 has begun"));
  EXPECT_EQ(native_->Call(OpenStore{.job = "digits", .attempt = -1}, kPatience).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(native_->Call(OpenStore{.job = "none"}, kPatience).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(StoreHostTest, TheStatusSaysWhichRankWaitsForWhoseKey) {
  Serve();
  TorchClient rank1(Open(0).store);
  rank1.Send(SetBytes("/default_pg/0//cpu//0/1") + WaitBytes("/default_pg/0//cpu//0/3"));
  StoreStatus status = Status();
  while (status.waits == 0) status = Status();
  ASSERT_EQ(status.awaited.size(), 1u);
  EXPECT_EQ(status.awaited[0].key, "/default_pg/0//cpu//0/3");
  EXPECT_EQ(status.awaited[0].rank, 3);
  ASSERT_EQ(status.awaited[0].first_waiters.size(), 1u);
  EXPECT_EQ(status.awaited[0].first_waiters[0].rank, 1);
  EXPECT_THAT(status.awaited[0].first_waiters[0].peer, HasSubstr("127.0.0.1:"));

  TorchClient other(Open(0).store);
  other.Send(WaitBytes("/default_pg/0//cpu//0/4"));
  while (status.waits < 2) status = Status();
  EXPECT_EQ(status.awaited.at(1).rank, std::nullopt) << "the job has no rank 4";
}

TEST_F(StoreHostTest, AWaitThatIsGivenUpIsAnEvent) {
  Serve();
  TorchClient rank1(Open(0).store);
  rank1.Send(SetBytes("/g/1") + WaitBytes("/g/2"));
  while (Status().waits == 0) std::this_thread::yield();
  // As long as it takes to be told of.
  while (Status().awaited.at(0).since_ago_us < 1'000'000) std::this_thread::yield();
  rank1.Send("\x0c");
  EXPECT_EQ(rank1.Receive(), "\x01");
  const auto events = native_->Call(WatchEvents{.job = "digits"}, kPatience);
  ASSERT_TRUE(events.ok());
  ASSERT_FALSE(events->events.empty());
  EXPECT_EQ(events->events.back().kind, EventKind::kBarrierFailed);
  EXPECT_THAT(events->events.back().text,
              AllOf(HasSubstr("rank 1 (127.0.0.1:"), HasSubstr("gave up waiting for key '/g/2', "
                                                               "which is probably for rank 2")));
  EXPECT_FALSE(native_->Call(StatusRequest{}, kPatience)->jobs.at(0).stacks)
      << "no launcher told of any process";
}

TEST_F(StoreHostTest, AWaitThatIsGivenUpHasLaunchersAskedForStacks) {
  Serve();
  ASSERT_TRUE(native_
                  ->Call(wire::native::ProcessReport{.job = "digits",
                                                     .member = 2,
                                                     .event = wire::native::ProcessEvent::kStarted,
                                                     .host = "here",
                                                     .pid = 17},
                         kPatience)
                  .ok());
  TorchClient rank1(Open(0).store);
  rank1.Send(SetBytes("/g/1") + WaitBytes("/g/2"));
  while (Status().waits == 0) std::this_thread::yield();
  while (Status().awaited.at(0).since_ago_us < 1'000'000) std::this_thread::yield();
  rank1.Send("\x0c");
  EXPECT_EQ(rank1.Receive(), "\x01");
  const auto stacks = native_->Call(StatusRequest{}, kPatience)->jobs.at(0).stacks;
  ASSERT_TRUE(stacks);
  EXPECT_THAT(stacks->because, HasSubstr("gave up waiting for key '/g/2'"));
  EXPECT_EQ(stacks->awaited, std::vector<int32_t>{2});
}

TEST_F(StoreHostTest, UseA04_AKeyIsThereThoughWhoSetItHasLeft) {
  Serve({.rest = absl::ZeroDuration()});
  const std::string store = Open(0).store;
  SetAndLeave(store, 4711);
  TorchClient next(store);
  next.Send(BeginBytes(4712) + GetBytes("/a"));
  EXPECT_EQ(next.Receive(4 + 8 + 13).substr(12), Text("value")) << "two of four have come";
}

TEST_F(StoreHostTest, UseA04_ANewRunThatNoLauncherStartedBeginsWithAnEmptyStore) {
  Serve({.rest = absl::ZeroDuration()});
  const std::string store = Open(0).store;
  for (uint32_t pid = 1; pid <= 4; ++pid) SetAndLeave(store, pid);
  EXPECT_EQ(Status().keys, 2) << "until somebody comes";
  TorchClient stray(store, TorchClient::Silent());
  {
    TorchClient again(store);
    again.Send(BeginBytes(2) + GetBytes("/a"));
    EXPECT_EQ(again.Receive(4 + 8 + 13).substr(12), Text("value"));
  }
  while (Status().connections > 0) std::this_thread::yield();
  TorchClient next(store);
  next.Send(BeginBytes(5) + GetBytes("/a"));
  EXPECT_EQ(next.Receive(4 + 8 + 8).substr(4), Number(1) + std::string(8, '\0'));
}

TEST_F(StoreHostTest, UseA04_UnderALauncherTheKeysLiveUntilTheLastProcessHasEnded) {
  Serve({.rest = absl::ZeroDuration()});
  const std::string store = Open(2).store;
  for (int32_t member = 0; member < 4; ++member) Report(member, ProcessEvent::kStarted);
  for (uint32_t pid = 1; pid <= 5; ++pid) SetAndLeave(store, pid);
  for (int32_t member = 0; member < 3; ++member) Report(member, ProcessEvent::kEnded);
  EXPECT_EQ(Status().keys, 2);
  Report(3, ProcessEvent::kEnded);
  EXPECT_EQ(Status().keys, 0);
}

TEST_F(StoreHostTest, UseA04_ALauncherThatTellsOfNoProcessKeepsTheKeysForItsAttempt) {
  Serve({.rest = absl::ZeroDuration()});
  const std::string store = Open(1).store;
  for (uint32_t pid = 1; pid <= 6; ++pid) SetAndLeave(store, pid);
  TorchClient next(store);
  next.Send(BeginBytes(7) + GetBytes("/a"));
  EXPECT_EQ(next.Receive(4 + 8 + 13).substr(12), Text("value"));
  Open(2);
  EXPECT_EQ(Status().keys, 0);
}

TEST_F(StoreHostTest, AServerMayDoWithout) {
  Serve({.none = true});
  EXPECT_EQ(Open(0).store, "");
  EXPECT_EQ(Open(2).store, "");
  EXPECT_FALSE(native_->Call(StatusRequest{}, kPatience)->jobs.at(0).torch_store.has_value());
}

TEST_F(StoreHostTest, AJobThatIsDeletedClosesItsStore) {
  Serve();
  TorchClient client(Open(0).store);
  client.Send(WaitBytes("/never"));
  while (Status().waits == 0) std::this_thread::yield();
  ASSERT_TRUE(native_->Call(DeleteJob{.job = "digits"}, kPatience).ok());
  EXPECT_EQ(client.Receive(), "");
}

}  // namespace
}  // namespace lockstep::server
