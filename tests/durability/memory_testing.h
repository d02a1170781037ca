// A server with a bound on its memory, and what its tests ask of it. Tests only.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/status_messages.h"
#include "tests/durability/server.h"

namespace lockstep {

inline constexpr absl::Duration kLong = absl::Seconds(60);
inline constexpr size_t kMiB = size_t{1} << 20;

// How a server comes to its bound.
struct MemoryBound {
  std::string name;
  std::vector<std::string> options;
  size_t address_space = 0;  // as by `ulimit -v`; 0: as much as there is
  size_t limit = 0;          // what the account comes to
};

// It is told; or it finds its address space limited, and takes half of that: the rest is for
// programs, libraries and stacks, which take some 250 MiB of it at the start.
inline const std::vector<MemoryBound> kMemoryBounds = {
    {.name = "Told", .options = {"--memory-max", "256MiB"}, .limit = 256 * kMiB},
    {.name = "AddressSpace", .address_space = 1024 * kMiB, .limit = 512 * kMiB},
};

inline std::string NameOfBound(const ::testing::TestParamInfo<MemoryBound>& bound) {
  return bound.param.name;
}

// A line of /proc/PID/status, in bytes.
inline size_t Memory(pid_t pid, const std::string& line) {
  std::istringstream status(Read(absl::StrCat("/proc/", pid, "/status")));
  for (std::string each; std::getline(status, each);) {
    if (absl::StartsWith(each, line)) return std::stoull(each.substr(line.size() + 1)) << 10;
  }
  ADD_FAILURE() << "no " << line;
  return 0;
}

// Whatever a test does: the server lives, and never had more memory than at the start and what the
// account and a tenth of it allow.
class BoundedServer : public ::testing::Test {
 protected:
  explicit BoundedServer(const MemoryBound& bound)
      : limit_(bound.limit),
        server_("digits=4", bound.options, kSanitized ? 0 : bound.address_space),
        base_(Memory(server_.pid(), "VmHWM:")) {}
  ~BoundedServer() override {
    EXPECT_TRUE(server_.Runs()) << server_.Log();
    // The most that it ever was.
    if (kSanitized) return;
    EXPECT_LE(Memory(server_.pid(), "VmHWM:"), base_ + limit_ + limit_ / 10);
    EXPECT_FALSE(absl::StrContains(server_.Log(), "bad_alloc"));
  }

  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "sanitizers keep memory of their own, and much address space";
    ASSERT_EQ(Status().limit, static_cast<int64_t>(limit_));
  }

  std::unique_ptr<link::Client> Connect() {
    auto client = link::Client::Connect(server_.address(), kLong, {});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  // With a session.
  std::unique_ptr<link::Client> Join(const std::string& job = "digits") {
    auto client = Connect();
    const auto opened =
        client->Call(wire::native::OpenSession{.session = {NewSession()}, .job = job}, kLong);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return client;
  }
  std::string NewSession() {
    std::string id(16, 's');
    const uint64_t number = ++sessions_;
    std::memcpy(id.data(), &number, sizeof(number));
    return id;
  }
  // A raw one that has said hello and opened a session.
  std::unique_ptr<link::testing::RawClient> JoinRaw() {
    auto raw = std::make_unique<link::testing::RawClient>(server_.address());
    raw->SayHello();
    raw->Expect<wire::native::Welcome>(link::FrameType::kWelcome);
    raw->Send(Request(1, wire::native::OpenSession{.session = {NewSession()}, .job = "digits"}));
    EXPECT_TRUE(raw->Receive().has_value());
    return raw;
  }
  template <class M>
  static link::Message Request(uint64_t id, const M& message) {
    return {.type = link::FrameType::kRequest,
            .must_understand = true,
            .kind = wire::native::KindOf<M>::kKind,
            .id = id,
            .payload = wire::native::Encode(message)};
  }

  wire::native::MemoryStatus Status() {
    const auto status = Connect()->Call(wire::native::StatusRequest{}, kLong);
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? status->server.memory.value_or(wire::native::MemoryStatus())
                       : wire::native::MemoryStatus();
  }
  static bool IsFull(const absl::Status& status) {
    return wire::native::ReasonOf(status) == "memory_max";
  }

  const size_t limit_;
  Server server_;
  const size_t base_;
  uint64_t sessions_ = 0;
};

class MemoryTest : public BoundedServer, public ::testing::WithParamInterface<MemoryBound> {
 protected:
  MemoryTest() : BoundedServer(GetParam()) {}
};

}  // namespace lockstep
