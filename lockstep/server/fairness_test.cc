// That no request holds the loop for long, however dear it is and however many come at once. What a
// turn computes is told by the thread's CPU clock, so that other programs on the machine are not
// counted.
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/coord/long_reads.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/server/server.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/data_service_messages.h"
#include "lockstep/wire/native/data_status_messages.h"
#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/to_event.h"

namespace lockstep::server {
namespace {

namespace native = wire::native;
using link::FrameType;
using link::testing::RawClient;

constexpr absl::Duration kPatience = absl::Seconds(60);
// What is promised is 5 ms, and a call for 65,536 keys takes 6. The watch reads up to 1 ms more,
// and a core that others keep busy, too, computes up to twice as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr absl::Duration kLongestTurn = absl::Milliseconds(400);
#elif defined(__OPTIMIZE__)
constexpr absl::Duration kLongestTurn = absl::Milliseconds(20);
#else
constexpr absl::Duration kLongestTurn = absl::Milliseconds(100);
#endif

constexpr int kJobs = 100;
constexpr int kMembers = 2048;     // of the large job
constexpr int kMeeting = 200;      // of the job that meets at barriers
constexpr int kKeys = 20'000;      // below "many"
constexpr int kManyKeys = 65'536;  // of one call: keys_per_wait_max
constexpr int kData = 1000;        // datasets, iterations, and consumers of one
constexpr int kAtOnce = 8;
constexpr int kRounds = 3;

class FairnessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    // A raw client sends no ping while it decodes the answer about 65,536 members.
    options.link.silence_timeout = kPatience;
    auto server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = link::Client::Connect(server_->listen_address(), kPatience, {});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    Ask(native::CreateJob{.job = "large", .size = kMembers});
    for (int i = 0; i < kJobs; ++i) {
      Ask(native::CreateJob{.job = absl::StrCat("job", i), .size = 8});
    }
    hostile_ = Connect("large");
  }

  template <class Request>
  void Ask(const Request& request) {
    const auto reply = client_->Call(request, kPatience);
    ASSERT_TRUE(reply.ok()) << Request::kName << ": " << reply.status();
  }

  template <class Request>
  std::string Bytes(const Request& request) {
    return link::EncodeMessage({.type = FrameType::kRequest,
                                .kind = native::KindOf<Request>::kKind,
                                .id = ++last_id_,
                                .payload = native::Encode(request)});
  }

  // A link with a session; the answers to what opened it have not been read.
  std::unique_ptr<RawClient> Start(const std::string& job) {
    auto raw = std::make_unique<RawClient>(server_->listen_address());
    raw->SayHello();
    raw->Send(Bytes(native::OpenSession{
        .session = native::ToBytes({.high = 5, .low = ++last_session_}), .job = job}));
    return raw;
  }
  std::unique_ptr<RawClient> Connect(const std::string& job) {
    auto raw = Start(job);
    raw->Expect<native::Welcome>(FrameType::kWelcome);
    raw->Expect<native::OpenSessionReply>(FrameType::kAnswer);
    return raw;
  }

  // Keys below "many", at the large job.
  void SetKeys(int count) {
    constexpr int kBatch = 500;
    for (int next = 0; next < count; next += kBatch) {
      std::string all;
      for (int i = next; i < next + kBatch; ++i) {
        all += Bytes(native::SetKey{.key = absl::StrCat("many/", i), .value = {"v"}});
      }
      hostile_->Send(all);
      for (int i = 0; i < kBatch; ++i) {
        hostile_->Expect<native::SetKeyReply>(FrameType::kAnswer);
      }
      hostile_->Send(FrameType::kAnswered, native::Answered{last_id_});
    }
  }

  // Many of these requests at once, again and again: each is answered, with an answer of this type.
  void Storm(RawClient& raw, FrameType type, const std::function<std::string()>& request) {
    server_->turns().Reset();
    for (int round = 0; round < kRounds; ++round) {
      std::string all;
      for (int i = 0; i < kAtOnce; ++i) all += request();
      raw.Send(all);
      for (int i = 0; i < kAtOnce; ++i) {
        const auto message = raw.Receive();
        ASSERT_TRUE(message.has_value());
        ASSERT_EQ(static_cast<int>(message->type), static_cast<int>(type)) << message->payload;
      }
    }
    EXPECT_LT(server_->turns().longest(), kLongestTurn);
  }

  std::unique_ptr<Server> server_;
  std::unique_ptr<link::Client> client_;
  std::unique_ptr<RawClient> hostile_;
  uint64_t last_id_ = 0;
  uint64_t last_session_ = 0;
};

TEST_F(FairnessTest, Finding07_StatusesOfManyJobs) {
  Storm(*hostile_, FrameType::kAnswer, [&] { return Bytes(native::StatusRequest{}); });
}

TEST_F(FairnessTest, Finding07_ListingsAndWatchesOfManyKeys) {
  SetKeys(kKeys);
  Storm(*hostile_, FrameType::kAnswer,
        [&] { return Bytes(native::ListKeys{.directory = "many", .limit = kKeys}); });
  Storm(*hostile_, FrameType::kError, [&] { return Bytes(native::ListKeys{}); });
  Storm(*hostile_, FrameType::kError, [&] { return Bytes(native::WatchKeys{.key = "many"}); });
}

TEST_F(FairnessTest, Finding07_ReadingManyKeysAtOnce) {
  SetKeys(kManyKeys);
  native::GetKeys all;
  for (int i = 0; i < kManyKeys; ++i) all.keys.push_back(absl::StrCat("many/", i));
  Storm(*hostile_, FrameType::kAnswer, [&] { return Bytes(all); });

  server_->turns().Reset();
  const uint64_t before = server_->turns().turns();
  hostile_->Send(Bytes(all));
  const auto reply = hostile_->Expect<native::GetKeysReply>(FrameType::kAnswer);
  ASSERT_EQ(reply.entries.size(), all.keys.size());
  EXPECT_EQ(reply.entries.front().key, "many/0");
  EXPECT_EQ(reply.entries.back().key, absl::StrCat("many/", kManyKeys - 1));
  EXPECT_GE(server_->turns().turns() - before, kManyKeys / coord::kReadKeysSliceMax);
}

// It was one turn, whatever its length.
TEST_F(FairnessTest, Finding07_DeletingManyKeysTakesManyTurns) {
  SetKeys(kKeys);
  server_->turns().Reset();
  const uint64_t before = server_->turns().turns();
  hostile_->Send(Bytes(native::DeleteKey{.key = "many", .below = true}));
  EXPECT_EQ(hostile_->Expect<native::DeleteKeyReply>(FrameType::kAnswer).deleted, kKeys);
  EXPECT_GE(server_->turns().turns() - before, kKeys / kDyingKeysSliceMax);
  EXPECT_LT(server_->turns().longest(), kLongestTurn);

  // Read your writes: nothing is there any more.
  hostile_->Send(Bytes(native::ListKeys{}));
  EXPECT_TRUE(hostile_->Expect<native::ListKeysReply>(FrameType::kAnswer).entries.empty());
}

TEST_F(FairnessTest, Finding07_EventsAndTheDataServicesStatus) {
  Storm(*hostile_, FrameType::kAnswer, [&] { return Bytes(native::WatchEvents{}); });
  Storm(*hostile_, FrameType::kAnswer, [&] { return Bytes(native::DataStatus{}); });
}

TEST_F(FairnessTest, Finding07_TheStatusOfAFullDataService) {
  const plan::Definition definition = {.nodes = {{.id = 1, .op = "range", .attrs = {{"stop", 9}}}}};
  int64_t first = 0;
  for (int i = 0; i < kData; ++i) {
    const auto registered =
        client_->Call(native::RegisterDataset{.name = absl::StrCat("dataset", i),
                                              .definition = {native::EncodeDefinition(definition)}},
                      kPatience);
    ASSERT_TRUE(registered.ok()) << registered.status();
    if (i == 0) first = registered->dataset;
    native::OpenIteration open = {
        .spec = {.name = absl::StrCat("iteration", i), .dataset = registered->dataset},
        .consumer = "c",
        .life = static_cast<uint64_t>(i) + 1};
    Ask(open);
    open.spec.name = "large";
    open.spec.dataset = first;
    open.consumer = absl::StrCat("c", i);
    Ask(open);
  }
  const auto status = client_->Call(native::DataStatus{}, kPatience);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->datasets.size(), kData);
  EXPECT_EQ(status->datasets.front().iterations, 2u);
  EXPECT_EQ(status->iterations.size(), kData + 1u);
  Storm(*hostile_, FrameType::kAnswer, [&] { return Bytes(native::DataStatus{}); });
}

TEST_F(FairnessTest, Finding07_WatchesOfAJobOfManyMembers) {
  Ask(native::CreateJob{.job = "largest", .size = kMembersMax});
  const auto raw = Connect("largest");
  raw->Send(Bytes(native::WatchJob{}));
  const auto all = raw->Expect<native::WatchJobReply>(FrameType::kAnswer);
  EXPECT_TRUE(all.snapshot);
  EXPECT_GT(all.version, 0);
  ASSERT_EQ(all.members.size(), static_cast<size_t>(kMembersMax));
  EXPECT_NE(all.members.front().name, all.members.back().name);
  Storm(*raw, FrameType::kAnswer, [&] { return Bytes(native::WatchJob{}); });
}

TEST_F(FairnessTest, Finding07_BarriersOfManyMembers) {
  Ask(native::CreateJob{.job = "meeting", .size = kMeeting});
  std::vector<std::unique_ptr<RawClient>> members;
  for (int i = 0; i < kMeeting; ++i) {
    members.push_back(Start("meeting"));
    members.back()->Send(
        Bytes(native::JoinJob{.index = i, .incarnation = static_cast<uint64_t>(i) + 1}));
  }
  RawClient& first = *members.front();
  first.Expect<native::Welcome>(FrameType::kWelcome);
  first.Expect<native::OpenSessionReply>(FrameType::kAnswer);
  first.Expect<native::JoinJobReply>(FrameType::kAnswer);
  native::Barrier barrier = {.timeout_us = 1000};
  barrier.members.resize(kMeeting);
  std::iota(barrier.members.begin(), barrier.members.end(), 0);
  Storm(first, FrameType::kError, [&] {
    barrier.id = absl::StrCat("b", last_id_);
    return Bytes(barrier);
  });
}

}  // namespace
}  // namespace lockstep::server
