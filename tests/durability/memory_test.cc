// What strangers send makes the server refuse by name, and serve on, within the memory that it was
// given (`--memory-max`, or `ulimit -v` and nothing said): each probe of the security review,
// against the real program. Those of stock clients: memory_stock_test.cc.
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/data_service_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/status_messages.h"
#include "tests/durability/memory_testing.h"

namespace lockstep {
namespace {

using link::Client;
using link::FrameType;
using link::Message;
using link::testing::RawClient;
using ::testing::HasSubstr;
using wire::native::KindOf;
using wire::native::ReasonOf;

TEST_P(MemoryTest, Finding06_LargeJobsCostLittleAndAreCounted) {
  auto client = Connect();
  std::vector<std::string> refused;
  for (int i = 0; i < 8; ++i) {
    const auto made = client->Call(
        wire::native::CreateJob{.job = absl::StrCat("large-", i), .size = 65536}, kLong);
    if (!made.ok()) refused.push_back(std::string(made.status().message()));
  }
  ASSERT_EQ(refused.size(), 5u) << "4 of them are 262,144 members, and there is one job of 4";
  EXPECT_THAT(refused.front(), HasSubstr("members_total_max"));
  EXPECT_LT(Memory(server_.pid(), "VmRSS:"), base_ + 24 * kMiB);
  EXPECT_TRUE(client->Call(wire::native::CreateJob{.job = "small", .size = 8}, kLong).ok());
}

TEST_P(MemoryTest, KeysAreRefusedByNameWhileReadingAndDeletingGoOn) {
  auto client = Join();
  absl::Status refused;
  size_t set = 0;
  for (; set < 2 * limit_ / kMiB && refused.ok(); ++set) {
    refused = client
                  ->Call(wire::native::SetKey{.key = absl::StrCat("key-", set),
                                              .value = {std::string(kMiB, 'x')}},
                         kLong)
                  .status();
  }
  EXPECT_TRUE(IsFull(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("job 'digits'"));
  EXPECT_GT(set, limit_ / kMiB / 2);
  const auto read = client->Call(wire::native::GetKey{.key = "key-0"}, kLong);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_GT(Status().held, static_cast<int64_t>(limit_ / 2));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(client->Call(wire::native::DeleteKey{.key = absl::StrCat("key-", i)}, kLong).ok());
  }
  EXPECT_TRUE(
      client->Call(wire::native::SetKey{.key = "again", .value = {std::string(kMiB, 'x')}}, kLong)
          .ok());
}

TEST_P(MemoryTest, Finding15_UnfinishedMessagesAndParkedWaitsStayInTheAccount) {
  std::vector<std::unique_ptr<RawClient>> raws;
  const wire::native::SetKey large = {.key = "k", .value = {std::string(60 * kMiB, 'x')}};
  const std::string bytes = link::EncodeMessage(Request(2, large));
  for (int i = 0; i < 12; ++i) {
    raws.push_back(JoinRaw());
    raws.back()->Send(std::string_view(bytes).substr(0, bytes.size() - 100));
  }
  const auto memory = Status();
  EXPECT_LE(memory.held, static_cast<int64_t>(limit_));
  // Those that found no room are told so once they have sent all of it.
  raws.back()->Send(std::string_view(bytes).substr(bytes.size() - 100));
  const auto error = raws.back()->Receive();
  ASSERT_TRUE(error.has_value());
  EXPECT_THAT(error->payload, HasSubstr("memory_max"));
  raws.clear();
  std::vector<std::string> keys;
  for (int i = 0; i < 8; ++i) keys.push_back(absl::StrCat(i, std::string(20'000, 'k')));
  auto session = Join();
  const auto bounded = session->Call(wire::native::GetKeys{.keys = keys}, absl::Seconds(20));
  EXPECT_EQ(ReasonOf(bounded.status()), "limit_exceeded") << "key_bytes_max";
  keys.clear();
  for (int i = 0; i < 500; ++i) keys.push_back(absl::StrCat(i, std::string(16000, 'k')));
  auto waiter = JoinRaw();
  bool told = false;
  for (uint64_t id = 2; id < 40 && !told; ++id) {
    waiter->Send(Request(id, wire::native::GetKeys{.keys = keys}));
    if (id < 12) continue;
    const auto reply = waiter->Receive();
    ASSERT_TRUE(reply.has_value());
    told = absl::StrContains(reply->payload, "session_wait_bytes_max");
  }
  EXPECT_TRUE(told);
  EXPECT_TRUE(session->Call(wire::native::SetKey{.key = "on", .value = {"1"}}, kLong).ok());
}

TEST_P(MemoryTest, Finding10_WhoNeverReadsIsGivenUpBeforeMemoryIs) {
  auto client = Join();
  ASSERT_TRUE(
      client
          ->Call(wire::native::SetKey{.key = "large", .value = {std::string(4 * kMiB, 'x')}}, kLong)
          .ok());
  std::vector<std::unique_ptr<RawClient>> raws;
  for (int i = 0; i < 16; ++i) {
    raws.push_back(JoinRaw());
    std::string requests;
    for (uint64_t id = 2; id < 1000; ++id) {
      requests += link::EncodeMessage(Request(
          id, wire::native::ListKeys{.directory = "", .limit = 10 + static_cast<int64_t>(id)}));
    }
    raws.back()->Send(requests);
  }
  // A new link: on a busy host the first one, which says nothing meanwhile, may be too long silent.
  client = Join();
  const auto read = client->Call(wire::native::GetKey{.key = "large"}, kLong);
  EXPECT_TRUE(read.ok() || IsFull(read.status())) << read.status();
  EXPECT_LE(Status().held, static_cast<int64_t>(limit_));
  EXPECT_THAT(server_.Log(), HasSubstr("reads too slowly"));
  raws.clear();
  EXPECT_TRUE(Join()->Call(wire::native::SetKey{.key = "on", .value = {"1"}}, kLong).ok());
}

TEST_P(MemoryTest, Finding08_TextsAreRefusedByNameAndEventsStayInTheAccount) {
  auto client = Join();
  wire::native::ProcessReport report = {.job = "digits",
                                        .event = wire::native::ProcessEvent::kStarted,
                                        .host = std::string(4 * kMiB, 'h'),
                                        .pid = 4001};
  for (int i = 0; i < 24; ++i) {
    report.member = i % 4;
    const auto refused = client->Call(report, kLong);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("name_bytes_max"));
  }
  EXPECT_LT(Memory(server_.pid(), "VmRSS:"), base_ + 48 * kMiB);
  // As long as they may be, and as many as they like.
  report.host = std::string(256, 'h');
  report.error = std::string(60'000, 'e');
  auto raw = JoinRaw();
  constexpr uint64_t kReports = 4000;
  for (uint64_t id = 2; id < kReports; ++id) {
    report.member = static_cast<int32_t>(id % 4);
    report.pid = static_cast<int64_t>(id);
    report.event = id / 4 % 2 == 0 ? wire::native::ProcessEvent::kStarted
                                   : wire::native::ProcessEvent::kEnding;
    raw->Send(Request(id, report));
    ASSERT_TRUE(raw->Receive().has_value());
  }
  EXPECT_LE(Status().held, static_cast<int64_t>(limit_));
  EXPECT_TRUE(Join()->Call(wire::native::SetKey{.key = "on", .value = {"1"}}, kLong).ok());
}

TEST_P(MemoryTest, Finding08_DatasetsAreInTheAccount) {
  using Strings = std::vector<std::string>;
  auto client = Connect();
  absl::Status refused;
  size_t made = 0;
  for (; made < limit_ / kMiB && refused.ok(); ++made) {
    // An array is part of the definition.
    const size_t items = 4 * kMiB - 4096 - made;
    const plan::Definition definition = {
        .nodes = {{.id = 1,
                   .op = "array",
                   .attrs = {{"names", Strings{"x"}},
                             {"dtypes", Strings{"uint8"}},
                             {"shapes", Strings{std::to_string(items)}},
                             {"data", Strings{std::string(items, 'a')}}}}}};
    refused = client
                  ->Call(
                      wire::native::RegisterDataset{
                          .name = absl::StrCat("d", made),
                          .definition = {wire::native::EncodeDefinition(definition)}},
                      kLong)
                  .status();
  }
  EXPECT_TRUE(IsFull(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the data service"));
  EXPECT_GT(made, limit_ / kMiB / 12);
  const auto known = client->Call(wire::native::GetDataset{.name = "d0"}, kLong);
  EXPECT_TRUE(known.ok()) << known.status();
  const auto small = client->Call(wire::native::CreateJob{.job = "small", .size = 1}, kLong);
  EXPECT_TRUE(small.ok() || IsFull(small.status())) << small.status();
  EXPECT_LE(Status().held, static_cast<int64_t>(limit_));
  // What nobody would keep is not looked at, either.
  const auto large = client->Call(
      wire::native::RegisterDataset{.definition = {std::string(8 * kMiB, 'x')}}, kLong);
  EXPECT_THAT(std::string(large.status().message()),
              ::testing::AnyOf(HasSubstr("definition_bytes_max"), HasSubstr("memory_max")));
}

// A socket that speaks torch's protocol.
class TorchSocket {
 public:
  explicit TorchSocket(const std::string& address) {
    const auto parsed = runtime::ParseAddress(address);
    sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(parsed->port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    const timeval patience = {.tv_sec = 60, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const timeval briefly = {.tv_sec = 2, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &briefly, sizeof(briefly));
    Send(std::string("\0", 1) + Number<uint32_t>(0x3C85F7CE));
  }
  ~TorchSocket() { close(fd_); }

  template <class Integer>
  static std::string Number(Integer value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static std::string Text(const std::string& text) { return Number<uint64_t>(text.size()) + text; }
  static std::string Set(const std::string& key, const std::string& value) {
    return "\x01" + Text(key) + Text(value);
  }

  // False: it does not take all of it, or is closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // The value of the key; empty: the connection was closed.
  std::string Get(const std::string& key) {
    if (!Send("\x03" + Text(key))) return "";
    uint64_t size = 0;
    if (recv(fd_, &size, sizeof(size), MSG_WAITALL) != sizeof(size)) return "";
    std::string value(size, '\0');
    const ssize_t came = recv(fd_, value.data(), size, MSG_WAITALL);
    return came == static_cast<ssize_t>(size) ? value : "";
  }

 private:
  int fd_ = -1;
};

TEST_P(MemoryTest, Finding09_TorchsStoreHoldsNoMoreThanItsShare) {
  const auto store = Connect()->Call(wire::native::OpenStore{.job = "digits"}, kLong);
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string& address = store->store;
  TorchSocket honest(address);
  honest.Send(TorchSocket::Set("key", std::string(4096, 'x')));
  ASSERT_EQ(honest.Get("key").size(), 4096u);
  std::vector<std::unique_ptr<TorchSocket>> hostile;
  const auto add = [&]() -> TorchSocket& {
    return *hostile.emplace_back(std::make_unique<TorchSocket>(address));
  };
  // One key, named 16,384 times, never read.
  std::string get = "\x0a" + TorchSocket::Number<uint64_t>(16'384);
  for (int i = 0; i < 16'384; ++i) get += TorchSocket::Text("key");
  for (int i = 0; i < 40; ++i) add().Send(get);
  EXPECT_EQ(honest.Get("key").size(), 4096u);
  // Waits for 8 MB of names.
  std::string wait = "\x06" + TorchSocket::Number<uint64_t>(1000);
  for (int i = 0; i < 1000; ++i) wait += TorchSocket::Text(absl::StrCat(i, std::string(8000, 'k')));
  for (int i = 0; i < 40; ++i) add().Send(wait);
  EXPECT_EQ(honest.Get("key").size(), 4096u);
  // Requests that are never whole.
  const std::string half = "\x0b" + TorchSocket::Number<uint64_t>(60) + TorchSocket::Text("k") +
                           TorchSocket::Text(std::string(8 << 20, 'x'));
  for (int i = 0; i < 40; ++i) add().Send(half);
  EXPECT_EQ(honest.Get("key").size(), 4096u);
  EXPECT_LE(Status().held, static_cast<int64_t>(limit_));
  EXPECT_THAT(server_.Log(), HasSubstr("memory_max"));
  hostile.clear();
  // All of it is given back.
  const auto until = Clock::now() + kPatience;
  while (Status().held > static_cast<int64_t>(limit_ / 4) && Clock::now() < until) {
    std::this_thread::yield();
  }
  EXPECT_LT(Status().held, static_cast<int64_t>(limit_ / 4));
  EXPECT_TRUE(honest.Send(TorchSocket::Set("after", "1")));
  EXPECT_EQ(honest.Get("after"), "1");
}

INSTANTIATE_TEST_SUITE_P(Bounds, MemoryTest, ::testing::ValuesIn(kMemoryBounds), NameOfBound);

class ClientJobs : public BoundedServer {
 protected:
  ClientJobs()
      : BoundedServer(
            {.options = {"--no-client-jobs", "--memory-max", "256MiB"}, .limit = 256 * kMiB}) {}
};

TEST_F(ClientJobs, Finding06_AreRefusedWhereTheOperatorSaysSo) {
  auto client = Connect();
  const auto made = client->Call(wire::native::CreateJob{.job = "mine", .size = 1}, kLong);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ReasonOf(made.status()), "client_jobs_off");
  const auto opened = client->Call(
      wire::native::OpenSession{.session = {NewSession()}, .job = "mine", .create_size = 1}, kLong);
  EXPECT_EQ(ReasonOf(opened.status()), "client_jobs_off");
}

}  // namespace
}  // namespace lockstep
