// What strangers and broken clients do to the listener; afterwards it serves on.
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/gzip_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/resource_quota.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/stock/grpc/stock_listener_testing.h"

namespace lockstep::net {
namespace {

using ::testing::HasSubstr;

class StockListenerAbuseTest : public StockListenerTest {
 protected:
  void ExpectServes() {
    pb::InsertKeyValueRequest insert;
    insert.mutable_kv()->set_key("k");
    pb::InsertKeyValueResponse inserted;
    grpc::ClientContext context;
    grpc::Status status = Client()->InsertKeyValue(&context, insert, &inserted);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // Until the other side closes.
  static bool ClosedByPeer(int fd) {
    char bytes[4096];
    for (;;) {
      pollfd wanted{fd, POLLIN, 0};
      if (poll(&wanted, 1, 60'000) != 1) return false;
      if (recv(fd, bytes, sizeof(bytes), 0) <= 0) return true;
    }
  }

  // For tests in which calls are counted; outlives the listener.
  runtime::MemoryAccount memory_{uint64_t{64} << 20};
};

TEST_F(StockListenerAbuseTest, GarbageBytesEndOnlyTheirConnection) {
  Open();
  const int fd = Connect();
  const std::string garbage(100'000, '\x5a');
  static_cast<void>(send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL));
  EXPECT_TRUE(ClosedByPeer(fd));
  close(fd);
  ExpectServes();
}

TEST_F(StockListenerAbuseTest, AnHttp1RequestEndsOnlyItsConnection) {
  Open();
  const int fd = Connect();
  const std::string get = "GET / HTTP/1.1\r\nHost: listener\r\n\r\n";
  ASSERT_EQ(send(fd, get.data(), get.size(), MSG_NOSIGNAL), static_cast<ssize_t>(get.size()));
  EXPECT_TRUE(ClosedByPeer(fd));
  close(fd);
  ExpectServes();
}

TEST_F(StockListenerAbuseTest, ASilentConnectionIsClosedAfterTheHandshakeTimeout) {
  options_.handshake_timeout = absl::Milliseconds(200);
  Open();
  const int fd = Connect();
  EXPECT_TRUE(ClosedByPeer(fd));
  close(fd);
  ExpectServes();
}

TEST_F(StockListenerAbuseTest, AMessageOf100MegabytesIsRefused) {
  Open();
  auto stub = Client();
  pb::InsertKeyValueRequest insert;
  insert.mutable_kv()->set_value(std::string(100'000'000, 'x'));
  pb::InsertKeyValueResponse inserted;
  grpc::ClientContext context;
  EXPECT_EQ(stub->InsertKeyValue(&context, insert, &inserted).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  // Not even its own connection suffers: the process behind it lives on.
  insert.mutable_kv()->set_value("small");
  grpc::ClientContext again;
  EXPECT_TRUE(stub->InsertKeyValue(&again, insert, &inserted).ok());
}

TEST_F(StockListenerAbuseTest, AMessageThatGrowsTo100MegabytesIsRefused) {
  Open();
  grpc::ChannelArguments arguments;
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_GZIP);
  auto stub = Client(arguments);
  pb::InsertKeyValueRequest insert;
  insert.mutable_kv()->set_value(std::string(100'000'000, 'x'));
  pb::InsertKeyValueResponse inserted;
  grpc::ClientContext context;
  grpc::Status status = stub->InsertKeyValue(&context, insert, &inserted);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("message_bytes_max"));
  ExpectServes();
}

// As protobuf's gzip makes it.
std::string Gzip(const std::string& bytes) {
  std::string packed;
  google::protobuf::io::StringOutputStream to(&packed);
  google::protobuf::io::GzipOutputStream gzip(&to);
  google::protobuf::io::CodedOutputStream(&gzip).WriteString(bytes);
  gzip.Close();
  return packed;
}

size_t PeakBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) << 10;
}

TEST_F(StockListenerAbuseTest, Finding12_UnknownFieldsAndListsCostWhatTheirBytesAre) {
  Open();
  ExpectServes();
  grpc::GenericStub stub(grpc::CreateChannel(target(), grpc::InsecureChannelCredentials()));
  const auto call = [&](const std::string& method, const std::string& bytes) {
    grpc::Slice slice(bytes);
    grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::ClientContext context;
    Mailbox<grpc::Status> done;
    stub.UnaryCall(&context, method, {}, &request, &response,
                   [&](grpc::Status status) { done.Put(status); });
    return *done.Take();
  };
  const auto repeat = [](std::string_view field, size_t bytes) {
    std::string all;
    while (all.size() < bytes) all.append(field);
    return all;
  };
  const size_t before = PeakBytes();
  const std::string xla = "/xla.coordination.CoordinationService/";
  const std::string tensorflow = "/tensorflow.CoordinationService/";
  // Field 15 is known nowhere; 64 MB of it are 64 kB of gzip.
  const std::string unknown = Gzip(repeat("\x78\x01", 64'000'000));
  const grpc::Status status = call(xla + "Heartbeat", unknown);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("message_bytes_max"));
  call(xla + "InsertKeyValue", Gzip(repeat("\x78\x01", 30'000'000)));
  // Empty tasks, two bytes each.
  const grpc::Status listed = call(tensorflow + "Barrier", Gzip(repeat({"\x1a\0", 2}, 1'900'000)));
  EXPECT_EQ(listed.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(listed.error_message(), HasSubstr("members_max"));
  EXPECT_EQ(call(xla + "Heartbeat", repeat("\x78\x01", 1'500'000)).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_LT(PeakBytes() - before, size_t{160} << 20);
  ExpectServes();
}

// The loop stands still, so that nobody has taken the values yet: only so many are there as the
// account has room for, whatever has been sent.
TEST_F(StockListenerAbuseTest, Finding12_CompressedValuesOfManyCallsAreCountedAsTheyAreInflated) {
  constexpr size_t kValueBytes = 20'000'000;
  constexpr int kCalls = 32;
  constexpr int kFit = 3;
  options_.memory = &memory_;
  options_.owner = "job 'digits'";
  Open();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  grpc::GenericStub stub(
      grpc::CreateCustomChannel(target(), grpc::InsecureChannelCredentials(), arguments));
  pb::InsertKeyValueRequest insert;
  insert.mutable_kv()->set_key("k");
  insert.mutable_kv()->set_value(std::string(kValueBytes, 'x'));
  const std::string packed = Gzip(insert.SerializeAsString());
  ASSERT_LT(packed.size(), size_t{64} << 10);
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer response;
  };
  Mailbox<grpc::Status> done;
  const auto start = [&](Call& call, const std::string& bytes) {
    grpc::Slice slice(bytes);
    call.request = grpc::ByteBuffer(&slice, 1);
    stub.UnaryCall(&call.context, "/xla.coordination.CoordinationService/InsertKeyValue", {},
                   &call.request, &call.response,
                   [&](grpc::Status status) { done.Put(std::move(status)); });
  };
  // One small one, with which the connection is made.
  insert.mutable_kv()->set_value("small");
  Call first;
  start(first, Gzip(insert.SerializeAsString()));
  ASSERT_TRUE(done.Take().value_or(grpc::Status::CANCELLED).ok());

  std::promise<void> go_on;
  loop_.Post([held = go_on.get_future().share()] { held.wait(); });
  std::vector<Call> calls(kCalls);
  for (Call& call : calls) start(call, packed);
  int refused = 0;
  while (refused < kCalls - kFit) {
    const std::optional<grpc::Status> status = done.Take();
    if (!status) break;
    ++refused;
    EXPECT_EQ(status->error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status->error_message(), HasSubstr("memory_max"));
    EXPECT_LE(memory_.held(), memory_.limit());
  }
  EXPECT_EQ(refused, kCalls - kFit);
  go_on.set_value();
  for (int rest = refused; rest < kCalls; ++rest) ASSERT_TRUE(done.Take().has_value());
  ExpectServes();
}

TEST_F(StockListenerAbuseTest, BrokenGzipIsRefused) {
  Open();
  grpc::GenericStub stub(grpc::CreateChannel(target(), grpc::InsecureChannelCredentials()));
  grpc::Slice broken("\x1f\x8b\x08\0\0\0\0\0\0\3\xff\xff\xff\xff", 14);
  grpc::ByteBuffer request(&broken, 1);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  Mailbox<grpc::Status> done;
  stub.UnaryCall(&context, "/xla.coordination.CoordinationService/Heartbeat", {}, &request,
                 &response, [&](grpc::Status status) { done.Put(status); });
  EXPECT_EQ(done.Take()->error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ExpectServes();
}

TEST_F(StockListenerAbuseTest, BytesThatAreNoMessageAreRefusedWithAReason) {
  Open();
  grpc::GenericStub stub(grpc::CreateChannel(target(), grpc::InsecureChannelCredentials()));
  grpc::Slice garbage("\xff\xff\xff\xff", 4);
  grpc::ByteBuffer request(&garbage, 1);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  Mailbox<grpc::Status> done;
  stub.UnaryCall(&context, "/xla.coordination.CoordinationService/Barrier", {}, &request, &response,
                 [&](grpc::Status status) { done.Put(status); });
  grpc::Status status = *done.Take();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("BarrierRequest"));
  EXPECT_EQ(context.GetServerTrailingMetadata().count("lockstep-reason"), 1u);
  ExpectServes();
}

TEST_F(StockListenerAbuseTest, CallsOfNoFamilyAreUnimplemented) {
  Open();
  grpc::GenericStub stub(grpc::CreateChannel(target(), grpc::InsecureChannelCredentials()));
  grpc::ByteBuffer request(nullptr, 0);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  Mailbox<grpc::Status> done;
  stub.UnaryCall(&context, "/tensorflow.EagerService/CreateContext", {}, &request, &response,
                 [&](grpc::Status status) { done.Put(status); });
  EXPECT_EQ(done.Take()->error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(StockListenerAbuseTest, TooMuchMetadataIsRefused) {
  Open();
  grpc::ClientContext context;
  context.AddMetadata("much", std::string(100'000, 'm'));
  pb::GetKeyValueResponse response;
  EXPECT_FALSE(Client()->GetKeyValue(&context, pb::GetKeyValueRequest(), &response).ok());
  ExpectServes();
}

// What the server says first of all, from which on no client has more.
TEST_F(StockListenerAbuseTest, Finding12_AConnectionHasAtMost1024StreamsAtATime) {
  constexpr size_t kFrameHeadBytes = 9;
  constexpr char kSettingsFrame = 4;
  constexpr uint32_t kMaxConcurrentStreams = 3;
  Open();
  const int fd = Connect();
  const std::string hello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  ASSERT_EQ(send(fd, hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
  const auto read = [&](size_t bytes) {
    std::string all(bytes, '\0');
    EXPECT_EQ(recv(fd, all.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
    return all;
  };
  const auto number = [](std::string_view bytes) {
    uint32_t value = 0;
    for (const char one : bytes) value = value << 8 | static_cast<uint8_t>(one);
    return value;
  };
  const std::string head = read(kFrameHeadBytes);
  ASSERT_EQ(head[3], kSettingsFrame);
  const std::string settings = read(number(head.substr(0, 3)));
  uint32_t streams = 0;
  for (size_t at = 0; at + 6 <= settings.size(); at += 6) {
    if (number(settings.substr(at, 2)) == kMaxConcurrentStreams) {
      streams = number(settings.substr(at + 2, 4));
    }
  }
  EXPECT_EQ(streams, 1024u);
  close(fd);
  ExpectServes();
}

TEST_F(StockListenerAbuseTest, Finding12_ManyListenersStayWithinTheBudgetOfAll) {
  constexpr size_t kBytes = size_t{256} << 20;
  constexpr size_t kListenerMost = size_t{4} << 30;
  GrpcBudget budget(kBytes);
  std::vector<std::shared_ptr<grpc::ResourceQuota>> listeners;
  for (int i = 0; i < 1000; ++i) {
    listeners.push_back(budget.Enter(kListenerMost));
    EXPECT_LE(budget.quotas() * budget.quota_bytes(), kBytes);
    EXPECT_GE(budget.quota_bytes(), size_t{32} << 20);
  }
  EXPECT_EQ(budget.quotas(), 8u);
  EXPECT_NE(listeners[0], listeners[7]);
  for (const auto& listener : listeners) budget.Leave(listener);
  EXPECT_EQ(budget.quotas(), 0u);
  const auto alone = budget.Enter(kListenerMost);
  EXPECT_EQ(budget.quota_bytes(), kBytes);
  // A budget below what a listener should have is kept all the same.
  GrpcBudget small(size_t{8} << 20);
  const auto first = small.Enter(kListenerMost);
  EXPECT_EQ(first, small.Enter(kListenerMost));
  EXPECT_EQ(small.quota_bytes(), size_t{8} << 20);
}

TEST_F(StockListenerAbuseTest, AListenerThatSharesItsQuotaServes) {
  options_.budget = std::make_shared<GrpcBudget>(size_t{32} << 20);
  const auto other = options_.budget->Enter(options_.grpc_memory_max);
  Open();
  ExpectServes();
  OnLoop([&] { EXPECT_EQ(options_.budget->quotas(), 1u); });
}

TEST_F(StockListenerAbuseTest, MoreCallsThanTheLimitAreRefusedByItsName) {
  options_.calls_max = 1;
  Open();
  auto stub = Client();
  pb::GetKeyValueRequest get;
  PendingCall<pb::GetKeyValueResponse> parked;
  stub->async()->GetKeyValue(&parked.context, &get, &parked.response,
                             [&](grpc::Status status) { parked.done.Put(status); });
  Await<coord::GetKey>();
  grpc::ClientContext context;
  pb::GetKeyValueResponse response;
  grpc::Status status = stub->GetKeyValue(&context, get, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("calls_max"));
  parked.context.TryCancel();
  EXPECT_EQ(parked.done.Take()->error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(StockListenerAbuseTest, MoreConnectionsThanTheLimitAreRefusedUntilSomeEnd) {
  options_.connections.connections_max = 1;
  Open();
  const int first = Connect();
  const int second = Connect();
  EXPECT_TRUE(ClosedByPeer(second));
  EXPECT_THAT(*complaints_.Take(), HasSubstr("connections_max"));
  close(second);
  close(first);
  // Counted anew at most once a second, so the client has to come back until then.
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + kTestPatience);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  pb::InsertKeyValueResponse inserted;
  EXPECT_TRUE(
      Client(arguments)->InsertKeyValue(&context, pb::InsertKeyValueRequest(), &inserted).ok());
}

TEST_F(StockListenerAbuseTest, MoreConnectionsFromOneHostThanTheLimitAreRefused) {
  options_.connections.connections_per_host_max = 2;
  Open();
  const int first = Connect();
  const int second = Connect();
  const int third = Connect();
  EXPECT_TRUE(ClosedByPeer(third));
  EXPECT_THAT(*complaints_.Take(), HasSubstr("connections_per_host_max"));
  for (int fd : {first, second, third}) close(fd);
}

// gRPC must not have put its own time-out on the connection, with which a cut of 20 s ends it.
TEST_F(StockListenerAbuseTest, ConnectionsHaveKeepaliveAndNoUserTimeout) {
  Open();
  ExpectServes();
  auto stub = Client();
  pb::InsertKeyValueResponse inserted;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->InsertKeyValue(&context, pb::InsertKeyValueRequest(), &inserted).ok());
  int found = 0;
  DIR* fds = opendir("/proc/self/fd");
  while (dirent* entry = readdir(fds)) {
    const int fd = atoi(entry->d_name);
    sockaddr_in local = {};
    sockaddr_in peer = {};
    socklen_t size = sizeof(local);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0) continue;
    if (local.sin_family != AF_INET || ntohs(local.sin_port) != listener_->address().port())
      continue;
    size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    const auto option = [&](int level, int name) {
      int value = -1;
      socklen_t value_size = sizeof(value);
      EXPECT_EQ(getsockopt(fd, level, name, &value, &value_size), 0);
      return value;
    };
    EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 60);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPINTVL), 20);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPCNT), 6);
    ++found;
  }
  closedir(fds);
  EXPECT_GE(found, 1);
}

}  // namespace
}  // namespace lockstep::net
