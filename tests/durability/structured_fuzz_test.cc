// Valid and nearly valid requests of every kind of the link, by the thousand, to a server that is
// killed and started again in between. Whatever they were, it must not crash, must start again with
// all its jobs, and must not take more memory than it was given.
//
// LOCKSTEP_FUZZ_REQUESTS says how many requests (scripts/soak.sh sends 10,000,000),
// LOCKSTEP_FUZZ_SEED where to begin: the same seed makes the same requests.
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "asio/buffer.hpp"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "asio/read.hpp"
#include "asio/write.hpp"
#include "gtest/gtest.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/link/frame.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/kinds.h"
#include "lockstep/wire/native/link_messages.h"
#include "tests/durability/filler.h"
#include "tests/durability/server.h"

namespace lockstep {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

constexpr int64_t kRequestsByDefault = 200'000;
constexpr int64_t kRequestsInLife = 10'000;
constexpr int kBurst = 100;
// Of one link: not so many that all further ones are refused since these wait.
constexpr int kRequestsOfLink = 1500;
constexpr int kLinks = 8;
// The account's limit, as the server is told, and what its process may have beside what it has
// with nothing to do.
constexpr char kMemoryMax[] = "128MiB";
constexpr int64_t kGrowthMax = (int64_t{128} << 20) * 11 / 10;
// As numbers of kinds go, far beyond the last.
constexpr link::RequestKind kKindsMax = 256;

// A link that says what it likes and reads what comes without looking at it.
class Talker {
 public:
  explicit Talker(const std::string& address) : socket_(io_) {
    const auto at = runtime::ParseAddress(address);
    asio::error_code error;
    socket_.connect({asio::ip::make_address(at->host), at->port}, error);
    link::Message hello = {.type = link::FrameType::kHello,
                           .payload = Encode(Hello{.version_min = 1, .version_max = 1})};
    bytes_ = link::EncodeMessage(hello);
    Send();
    // Until the welcome: more would be too much before it.
    char byte[1];
    asio::read(socket_, asio::buffer(byte), error);
  }

  void Add(link::RequestKind kind, std::string payload) {
    bytes_ += link::EncodeMessage({.type = link::FrameType::kRequest,
                                   .kind = kind,
                                   .id = ++id_,
                                   .payload = std::move(payload)});
  }
  // Some request is not wanted any more; the answers up to some are there.
  void AddCancel(uint64_t back) { AddOf(link::FrameType::kCancel, back); }
  void AddAnswered(uint64_t back) { AddOf(link::FrameType::kAnswered, back); }

  void Send() {
    asio::error_code error;
    asio::write(socket_, asio::buffer(bytes_), error);
    bytes_.clear();
    char read[65536];
    while (recv(socket_.native_handle(), read, sizeof(read), MSG_DONTWAIT) > 0) {
    }
  }
  uint64_t sent() const { return id_; }

 private:
  void AddOf(link::FrameType type, uint64_t back) {
    if (back >= id_) return;
    bytes_ += link::EncodeMessage({.type = type, .id = id_ - back});
  }

  asio::io_context io_;
  asio::ip::tcp::socket socket_;
  std::string bytes_;
  uint64_t id_ = 0;
};

template <class Message>
void AddOne(Filler& filler, Talker& talker) {
  talker.Add(KindOf<Message>::kKind, filler.Request<Message>());
}

using Add = void (*)(Filler&, Talker&);

template <class... AnyRequest>
void Append(Requests<AnyRequest...>, std::vector<Add>& all) {
  (all.push_back(&AddOne<AnyRequest>), ...);
}

std::vector<Add> AllThatServerTakes() {
  std::vector<Add> all;
  Append(ServerRequests(), all);
  Append(LaunchersRequests(), all);
  Append(SessionRequests(), all);
  Append(StockRequests(), all);
  Append(DispatcherRequests(), all);
  return all;
}

void AddAny(Filler& filler, Talker& talker) {
  static const std::vector<Add> kAll = AllThatServerTakes();
  switch (filler.Below(40)) {
    case 0:
      return talker.AddCancel(filler.Below(50));
    case 1:
      return talker.AddAnswered(filler.Below(50));
    case 2:
    case 3:
    case 4:
      return AddOne<JoinJob>(filler, talker);
    default:
      // Jobs that are deleted at every turn never come to anything.
      if (const size_t kind = filler.Below(kAll.size());
          kAll[kind] != &AddOne<DeleteJob> || filler.Below(20) == 0) {
        kAll[kind](filler, talker);
      }
  }
}

// Whether the server knows what to do with such a request: on a link of its own, since some end it.
bool Takes(const std::string& address, link::RequestKind kind) {
  link::testing::RawClient raw(address);
  raw.SayHello();
  raw.Expect<Welcome>(link::FrameType::kWelcome);
  std::string session(16, 's');
  std::memcpy(session.data(), &kind, sizeof(kind));
  const auto ask = [&](uint64_t id, link::RequestKind what, std::string payload) {
    raw.Send({.type = link::FrameType::kRequest,
              .must_understand = true,
              .kind = what,
              .id = id,
              .payload = std::move(payload)});
  };
  ask(1, KindOf<OpenSession>::kKind, Encode(OpenSession{.session = {session}, .job = "a"}));
  EXPECT_TRUE(raw.Receive().has_value());
  ask(2, kind, "");
  // What would wait is answered at once.
  raw.Send({.type = link::FrameType::kCancel, .id = 2});
  const auto answer = raw.Receive();
  if (!answer.has_value()) return true;
  return answer->payload.find("unknown_request") == std::string::npos;
}

std::string LastLines(const Server& server) {
  const std::string log = server.Log();
  return log.substr(log.size() - std::min<size_t>(log.size(), 4000));
}

// A server that was started a moment ago may not listen yet; null: it has ended.
std::unique_ptr<link::Client> Connect(Server& server) {
  while (server.Runs()) {
    auto client = link::Client::Connect(server.address(), absl::Seconds(60), {});
    if (client.ok()) return *std::move(client);
  }
  return nullptr;
}

TEST(StructuredFuzz, Finding02_HasEveryKindThatTheServerTakes) {
  Server server("a=2");
  for (link::RequestKind kind = 1; kind < kKindsMax; ++kind) {
    const Route route = RouteOf(kind);
    const bool ours = route != Route::kUnspecified && route != Route::kWorker;
    EXPECT_EQ(Takes(server.address(), kind), ours) << "kind " << kind;
  }
}

TEST(StructuredFuzz, Finding02_NoRequestMakesTheStateUnreadable) {
  const int64_t requests = Count("LOCKSTEP_FUZZ_REQUESTS", kRequestsByDefault);
  const int64_t seed = Count("LOCKSTEP_FUZZ_SEED", 1);
  Filler filler(static_cast<uint64_t>(seed));
  Server server("a=2", {"--torch-store-durable", "--memory-max", kMemoryMax});
  const int64_t base = server.PeakBytes();
  int64_t most_memory = 0;
  int lives = 0;
  for (int64_t sent = 0; sent < requests; ++lives) {
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", after ", sent, " requests, life ", lives));
    std::vector<std::unique_ptr<Talker>> talkers(kLinks);
    const int64_t until = std::min(requests, sent + kRequestsInLife);
    while (sent < until && server.Runs()) {
      std::unique_ptr<Talker>& talker = talkers[filler.Below(kLinks)];
      if (talker == nullptr || talker->sent() > kRequestsOfLink) {
        talker = std::make_unique<Talker>(server.address());
        AddOne<CreateJob>(filler, *talker);
        AddOne<OpenSession>(filler, *talker);
        AddOne<JoinJob>(filler, *talker);
      }
      for (int i = 0; i < kBurst; ++i) AddAny(filler, *talker);
      talker->Send();
      sent += kBurst;
    }
    ASSERT_TRUE(server.Runs()) << "it ended by itself:\n" << LastLines(server);
    // It is well: it answers, and has set no job aside.
    const auto client = Connect(server);
    ASSERT_NE(client, nullptr) << LastLines(server);
    const auto status = client->Call(StatusRequest{}, absl::Seconds(60));
    ASSERT_TRUE(status.ok()) << status.status() << "\n" << LastLines(server);
    for (const SetAsideJob& job : status->set_aside) ADD_FAILURE() << job.job << ": " << job.why;
    most_memory = std::max(most_memory, server.PeakBytes());
    ASSERT_TRUE(kSanitized || most_memory <= base + kGrowthMax)
        << (most_memory >> 20) << " MiB, and " << (base >> 20) << " when it had nothing to do\n"
        << LastLines(server);
    server.Kill();
    talkers.clear();
    server.Restart();
    ASSERT_NE(Connect(server), nullptr) << "it does not start again:\n" << LastLines(server);
  }
  RecordProperty("most_memory", absl::StrCat(most_memory));
  std::printf("%d lives, %ld requests, at most %ld MiB\n", lives, static_cast<long>(requests),
              static_cast<long>(most_memory >> 20));
}

}  // namespace
}  // namespace lockstep
