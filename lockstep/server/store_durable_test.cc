// Stores that keep what is in them: nothing is told before it is durable, and all of it is there
// again when the server is.
#include <unistd.h>

#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "lockstep/platform/journal/memory_journal.h"
#include "lockstep/platform/journal/sqlite_journal.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/server/server.h"
#include "lockstep/server/store_host.h"
#include "lockstep/server/torch_client.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;
using wire::native::CreateJob;
using wire::native::DeleteJob;
using wire::native::OpenStore;
using wire::native::OpenStoreReply;
using wire::native::StatusRequest;
using wire::native::StoreStatus;

constexpr absl::Duration kPatience = absl::Seconds(60);

// A host whose journal syncs when it is told to.
class HeldStoreTest : public testing::Test {
 protected:
  HeldStoreTest()
      : commits_(loop_),
        host_(loop_, options_, commits_, "digits", 4,
              {Ignore(), [](std::string, std::optional<int32_t>) {}, Ignore()}) {
    auto journal = std::make_unique<journal::MemoryJournal>(
        std::make_shared<journal::MemoryDisk>(), journal::MemoryJournal::Syncs::kWhenTold);
    journal_ = journal.get();
    EXPECT_TRUE(commits_
                    .Keep(
                        std::move(journal), [](absl::Status) {}, [] { return nullptr; })
                    .ok());
    EXPECT_TRUE(host_.Listen("127.0.0.1").ok());
    host_.Keep();
    journal_->Sync();
    host_.Start();
    runner_ = std::thread([this] { loop_.Run(); });
  }
  ~HeldStoreTest() override {
    OnLoop([this] { host_.Stop(); });
    loop_.Stop();
    runner_.join();
  }

  static StoreHost::Tellers::Tell Ignore() {
    return [](std::string) {};
  }
  template <class Function>
  void OnLoop(Function function) {
    std::promise<void> done;
    loop_.Post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }
  uint64_t Taken() {
    uint64_t taken = 0;
    OnLoop([&] {
      for (const uint64_t count : host_.commands()) taken += count;
    });
    return taken;
  }
  void AwaitTaken(uint64_t commands) {
    while (Taken() < commands) std::this_thread::yield();
  }
  void Sync() {
    OnLoop([this] { journal_->Sync(); });
  }

  const StoreHostOptions options_ = {.store = {.keeps = true}};
  runtime::Loop loop_;
  CommitQueue commits_;
  StoreHost host_;
  journal::MemoryJournal* journal_ = nullptr;
  std::thread runner_;
};

TEST_F(HeldStoreTest, NobodyIsAnsweredBeforeItIsDurable) {
  TorchClient adds(host_.address());
  adds.Send(AddBytes("/n", 5) + GetBytes("/n"));
  AwaitTaken(2);
  TorchClient reads(host_.address());
  reads.Send(GetBytes("/n"));
  AwaitTaken(3);
  EXPECT_FALSE(adds.HasCome());
  EXPECT_FALSE(reads.HasCome()) << "it would tell of what may be lost";
  Sync();
  EXPECT_EQ(adds.Receive(17), Number(5) + Text("5"));
  EXPECT_EQ(reads.Receive(9), Text("5"));
  reads.Send(GetBytes("/n"));
  EXPECT_EQ(reads.Receive(9), Text("5")) << "at once: there is nothing to wait for";
}

TEST_F(HeldStoreTest, AWaitIsReleasedByWhatIsDurable) {
  TorchClient waits(host_.address());
  waits.Send(WaitBytes("/a"));
  AwaitTaken(1);
  TorchClient sets(host_.address());
  sets.Send(SetBytes("/a"));
  AwaitTaken(2);
  EXPECT_FALSE(waits.HasCome());
  Sync();
  EXPECT_EQ(waits.Receive(1), std::string(1, '\0'));
}

TEST_F(HeldStoreTest, WhatComesBehindARefusalHasNoEffect) {
  TorchClient client(host_.address());
  client.Send(SetBytes("/text", "x") + AddBytes("/n", 1) + AddBytes("/text", 1) +
              SetBytes("/late"));
  AwaitTaken(3);
  Sync();
  EXPECT_EQ(client.Receive(9), Number(1)) << "then it is closed";
  // The last one has left, and what it had set before is there for others of its attempt.
  OnLoop([this] { EXPECT_EQ(host_.View().keys, 2u) << "and not the late one"; });
  EXPECT_EQ(Taken(), 3u);
}

TEST_F(HeldStoreTest, WhatWaitsForTheDiskIsBounded) {
  constexpr int64_t kAdds = 3 * StoreSpace::kHeldMax;
  TorchClient client(host_.address());
  std::string bytes;
  for (int64_t i = 0; i < kAdds; ++i) bytes += AddBytes("/n", 1);
  client.Send(bytes);
  AwaitTaken(StoreSpace::kHeldMax);
  TorchClient other(host_.address());
  other.Send(GetBytes("/n"));
  for (int turn = 0; turn < 100; ++turn) OnLoop([] {});
  EXPECT_EQ(Taken(), StoreSpace::kHeldMax) << "no more is taken, of anybody";
  std::string expected;
  for (int64_t i = 1; i <= kAdds; ++i) expected += Number(i);
  std::thread disk([this] {
    while (Taken() < kAdds + 1) Sync();
    Sync();
  });
  EXPECT_TRUE(client.Receive(expected.size()) == expected);
  EXPECT_FALSE(other.Receive(9).empty());
  disk.join();
}

TEST_F(HeldStoreTest, ALongListComesWhenWhatItTellsOfIsDurable) {
  constexpr int64_t kKeys = 5000;
  std::string sets = "\x0b" + Number(kKeys);
  std::string names = Number(kKeys);
  for (int64_t i = 0; i < kKeys; ++i) {
    const std::string key = "/" + std::to_string(100'000 + i);
    sets += Text(key) + Text("");
    names += Text(key);
  }
  TorchClient lists(host_.address());
  lists.Send(sets + "\x11" + GetBytes("/100000"));
  AwaitTaken(2);
  TorchClient leaves(host_.address());
  leaves.Send("\x11");
  AwaitTaken(3);
  EXPECT_FALSE(lists.HasCome());
  Sync();
  EXPECT_TRUE(lists.Receive(names.size() + 8) == names + Text(""))
      << "and the next answer behind it";
  EXPECT_TRUE(leaves.Receive(names.size()) == names);
  leaves.Send("\x11");
  AwaitTaken(5);
  OnLoop([this] { EXPECT_TRUE(host_.Open(2).ok()); });
  lists.TrySend(GetBytes("/100000"));
  EXPECT_EQ(lists.Receive(), "") << "the list of a store that is over harms nobody";
}

TEST_F(HeldStoreTest, WhatIsHeldForAnOlderAttemptIsDropped) {
  TorchClient old(host_.address());
  old.Send(AddBytes("/n", 5));
  AwaitTaken(1);
  OnLoop([this] { EXPECT_TRUE(host_.Open(2).ok()); });
  Sync();
  EXPECT_EQ(old.Receive(), "");
  TorchClient next(host_.address());
  next.Send(AddBytes("/n", 1));
  AwaitTaken(2);
  Sync();
  EXPECT_EQ(next.Receive(8), Number(1));
}

// Servers, one after the other, on one directory.
class DurableStoreTest : public testing::Test {
 protected:
  DurableStoreTest() {
    char path[] = "/tmp/lockstep-stores-XXXXXX";
    directory_ = mkdtemp(path);
  }
  ~DurableStoreTest() override {
    End();
    std::filesystem::remove_all(directory_);
  }

  ServerOptions Options(bool durable) const {
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = {{.name = "digits", .size = 4}};
    options.state_directory = directory_;
    options.stores.store.keeps = durable;
    return options;
  }
  void Serve(bool durable) {
    End();
    auto server = Server::Start(Options(durable));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = link::Client::Connect(server_->listen_address(), kPatience, {});
    ASSERT_TRUE(client.ok()) << client.status();
    native_ = *std::move(client);
  }
  void End() {
    native_.reset();
    server_.reset();
  }
  absl::StatusOr<OpenStoreReply> TryOpen(int64_t attempt) {
    return native_->Call(OpenStore{.job = "digits", .attempt = attempt}, kPatience);
  }
  OpenStoreReply Open(int64_t attempt) {
    const auto reply = TryOpen(attempt);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : OpenStoreReply{};
  }
  StoreStatus Status() {
    const auto reply = native_->Call(StatusRequest{.job = "digits"}, kPatience);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply->jobs.at(0).torch_store.value_or(StoreStatus{});
  }

  std::string directory_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<link::Client> native_;
};

TEST_F(DurableStoreTest, KeysCountersAndQueuesGoOnAtTheSamePort) {
  Serve(/*durable=*/true);
  const OpenStoreReply store = Open(3);
  TorchClient before(store.store);
  before.Send(SetBytes("/a", "x") + "\x09" + Text("/a") + Text("yz") + AddBytes("/n", 41) +
              PushBytes("/q", "1") + PushBytes("/q", "2") + PopBytes("/q") + SetBytes("/gone") +
              "\x08" + Text("/gone"));
  ASSERT_EQ(before.Receive(8 + 17 + 8).size(), 33u);

  Serve(/*durable=*/true);
  EXPECT_EQ(Status().connections, 0);
  EXPECT_EQ(Status().keys, 2);
  EXPECT_EQ(Open(0), store);
  TorchClient after(store.store);
  after.Send(GetBytes("/a") + AddBytes("/n", 1) + PopBytes("/q") + GetBytes("/gone"));
  const std::string expected = Text("xyz") + Number(42) + Number(1) + Text("2") + Text("");
  EXPECT_EQ(after.Receive(expected.size()), expected);
  const auto late = TryOpen(2);
  EXPECT_EQ(wire::native::ReasonOf(late.status()), "attempt_over");
  const OpenStoreReply next = Open(4);
  EXPECT_NE(next.store, store.store);
  EXPECT_EQ(Status().keys, 0);

  Serve(/*durable=*/true);
  EXPECT_EQ(Open(0), next);
}

TEST_F(DurableStoreTest, WhoIsSentAwayAfterARestartLeavesTheKeys) {
  Serve(/*durable=*/true);
  const OpenStoreReply store = Open(0);
  {
    TorchClient only(store.store);
    only.Send(SetBytes("/a") + GetBytes("/a"));
    ASSERT_EQ(only.Receive(13), Text("value"));
    End();
  }
  Serve(/*durable=*/true);
  TorchClient stray(store.store, TorchClient::Silent());
  stray.Send("GET / HTTP/1.1");
  ASSERT_EQ(stray.Receive(), "") << "it is sent away";
  TorchClient next(store.store);
  next.Send(GetBytes("/a"));
  EXPECT_EQ(next.Receive(13), Text("value"));
}

// That everybody has left is not the end of the attempt, so the keys are there for who comes next.
TEST_F(DurableStoreTest, UseA04_AStoreThatEverybodyHasLeftKeepsItsKeysOverARestart) {
  Serve(/*durable=*/true);
  {
    TorchClient only(Open(0).store);
    only.Send(SetBytes("/a") + GetBytes("/a"));
    ASSERT_EQ(only.Receive(13), Text("value"));
  }
  while (Status().connections > 0) std::this_thread::yield();
  Serve(/*durable=*/true);
  EXPECT_EQ(Status().keys, 1);
}

TEST_F(DurableStoreTest, UseA04_AStoreWhoseAttemptHasEndedStaysEmpty) {
  Serve(/*durable=*/true);
  {
    TorchClient only(Open(1).store);
    only.Send(SetBytes("/a") + GetBytes("/a"));
    ASSERT_EQ(only.Receive(13), Text("value"));
  }
  while (Status().connections > 0) std::this_thread::yield();
  using wire::native::ProcessEvent;
  for (const ProcessEvent event : {ProcessEvent::kStarted, ProcessEvent::kEnded}) {
    for (int32_t member = 0; member < 4; ++member) {
      const wire::native::ProcessReport report = {
          .job = "digits", .member = member, .event = event, .host = "here", .pid = 7};
      ASSERT_TRUE(native_->Call(report, kPatience).ok());
    }
  }
  EXPECT_EQ(Status().keys, 0);
  Serve(/*durable=*/true);
  EXPECT_EQ(Status().keys, 0);
}

// More than the journal writes before it makes a snapshot, from which the store is then read.
TEST_F(DurableStoreTest, ALongHistoryGoesByASnapshot) {
  Serve(/*durable=*/true);
  const OpenStoreReply store = Open(0);
  {
    TorchClient client(store.store);
    const std::string value(1 << 20, 'v');
    client.Send(PushBytes("/q", "first") + PushBytes("/q", "second"));
    for (int i = 0; i < 90; ++i) {
      client.Send(SetBytes("/long", value) + AddBytes("/n", 1));
      ASSERT_EQ(client.Receive(8), Number(i + 1));
    }
    End();
  }
  {
    auto kept = journal::SqliteJournal::Open({.directory = directory_});
    ASSERT_TRUE(kept.ok()) << kept.status();
    const auto found = (*kept)->Replay([](std::string_view) { return absl::OkStatus(); });
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_GT(found->snapshot_entries, 0u);
    EXPECT_LT(found->bytes, uint64_t{64} << 20) << "of 90 MiB that were written";
  }
  Serve(/*durable=*/true);
  TorchClient client(store.store);
  client.Send(AddBytes("/n", 1) + PopBytes("/q") + PopBytes("/q"));
  const std::string expected = Number(91) + Number(2) + Text("first") + Number(1) + Text("second");
  EXPECT_EQ(client.Receive(expected.size()), expected);
  client.Send(GetBytes("/long"));
  EXPECT_EQ(client.Receive(8 + (1 << 20)).size(), 8u + (1 << 20));
}

TEST_F(DurableStoreTest, WithoutTheOptionTheNextAttemptBegins) {
  Serve(/*durable=*/false);
  Serve(/*durable=*/false);
  EXPECT_EQ(Status().attempt, 1) << "nobody knew of the first";
  const OpenStoreReply first = Open(0);
  TorchClient client(first.store);
  client.Send(SetBytes("/a") + GetBytes("/a"));
  ASSERT_EQ(client.Receive(13), Text("value"));

  Serve(/*durable=*/false);
  const OpenStoreReply second = Open(0);
  EXPECT_EQ(second.attempt, 2);
  EXPECT_NE(second.store, first.store);
  EXPECT_EQ(Status().keys, 0);
  EXPECT_EQ(wire::native::ReasonOf(TryOpen(1).status()), "attempt_over")
      << "who is of the first does not come to the second";
  Open(7);
  Serve(/*durable=*/false);
  EXPECT_EQ(Status().attempt, 8);
  Serve(/*durable=*/false);
  EXPECT_EQ(Status().attempt, 8);
}

TEST_F(DurableStoreTest, WhatIsKeptWithAndWithoutTheOptionIsNotMixedUp) {
  Serve(/*durable=*/true);
  const OpenStoreReply first = Open(0);
  TorchClient client(first.store);
  client.Send(SetBytes("/a") + GetBytes("/a"));
  ASSERT_EQ(client.Receive(13), Text("value"));
  Serve(/*durable=*/false);
  EXPECT_EQ(Status().attempt, 2);
  EXPECT_EQ(Status().keys, 0);
  const OpenStoreReply second = Open(0);
  EXPECT_NE(second.store, first.store);
  Serve(/*durable=*/true);
  EXPECT_EQ(Status().attempt, 3) << "what was in the second is lost";
  EXPECT_EQ(Status().keys, 0);
  TorchClient third(Open(0).store);
  third.Send(SetBytes("/b") + GetBytes("/b"));
  ASSERT_EQ(third.Receive(13), Text("value"));
  Serve(/*durable=*/true);
  EXPECT_EQ(Status().attempt, 3);
  EXPECT_EQ(Status().keys, 1);
}

TEST_F(DurableStoreTest, AJobThatIsDeletedTakesItsStoreAlong) {
  Serve(/*durable=*/true);
  const auto made = native_->Call(CreateJob{.job = "other", .size = 1}, kPatience);
  ASSERT_TRUE(made.ok());
  TorchClient client(made->store);
  client.Send(SetBytes("/a") + GetBytes("/a"));
  ASSERT_EQ(client.Receive(13), Text("value"));
  ASSERT_TRUE(native_->Call(DeleteJob{.job = "other"}, kPatience).ok());
  EXPECT_EQ(client.Receive(), "");
  Serve(/*durable=*/true);
  EXPECT_EQ(native_->Call(StatusRequest{}, kPatience)->jobs.size(), 1u);
}

TEST_F(DurableStoreTest, APortThatIsTakenIsSaid) {
  Serve(/*durable=*/true);
  const std::string address = Open(0).store;
  End();
  runtime::Loop loop;
  runtime::Acceptor other(
      loop, {}, [](int) {}, [](std::string) {});
  ASSERT_TRUE(other.Listen(*runtime::ParseAddress(address)).ok());
  Serve(/*durable=*/true);
  const auto status = native_->Call(StatusRequest{}, kPatience);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(status->jobs.empty());
  ASSERT_EQ(status->set_aside.size(), 1u);
  EXPECT_EQ(status->set_aside[0].job, "digits");
  const std::string why = status->set_aside[0].why;
  EXPECT_THAT(why, HasSubstr("torch's store of attempt 1"));
  EXPECT_THAT(why, HasSubstr(address));
  EXPECT_THAT(why, HasSubstr("--torch-store-durable"));
}

}  // namespace
}  // namespace lockstep::server
