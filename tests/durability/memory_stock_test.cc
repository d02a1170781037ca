// The same of the listener for stock clients: what they send compressed, and by the thousand.
#include <future>
#include <list>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/gzip_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/durability/memory_testing.h"

namespace lockstep {
namespace {

// As protobuf's gzip makes it.
std::string Gzip(const std::string& bytes) {
  std::string packed;
  google::protobuf::io::StringOutputStream to(&packed);
  google::protobuf::io::GzipOutputStream gzip(&to);
  google::protobuf::io::CodedOutputStream(&gzip).WriteString(bytes);
  gzip.Close();
  return packed;
}

std::string Repeat(std::string_view field, size_t bytes) {
  std::string all;
  while (all.size() < bytes) all.append(field);
  return all;
}

// Many calls at once, over one connection.
class Calls {
 public:
  explicit Calls(const std::string& address)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {}

  void Begin(const std::string& method, const std::string& bytes) {
    Call& call = calls_.emplace_back();
    grpc::Slice slice(bytes);
    call.request = grpc::ByteBuffer(&slice, 1);
    call.context.set_deadline(std::chrono::system_clock::now() + kPatience);
    stub_.UnaryCall(&call.context, "/xla.coordination.CoordinationService/" + method, {},
                    &call.request, &call.response,
                    [&call](grpc::Status status) { call.done.set_value(std::move(status)); });
  }
  // How many were refused so.
  int Refused(grpc::StatusCode code, const std::string& why) {
    int refused = 0;
    for (Call& call : calls_) {
      const grpc::Status status = call.done.get_future().get();
      if (status.error_code() == code && absl::StrContains(status.error_message(), why)) ++refused;
    }
    calls_.clear();
    return refused;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer response;
    std::promise<grpc::Status> done;
  };
  grpc::GenericStub stub_;
  std::list<Call> calls_;
};

TEST_P(MemoryTest, Finding12_WhatStockClientsCompressAndMakeUpStaysInTheAccount) {
  const auto status = Connect()->Call(wire::native::StatusRequest{}, kLong);
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->jobs.size(), 1u);
  Calls calls(status->jobs.front().grpc);
  // Field 15 is known nowhere; 64 MB of it are 64 kB of gzip.
  constexpr int kCalls = 32;
  const std::string bomb = Gzip(Repeat("\x78\x01", 64'000'000));
  for (int i = 0; i < kCalls; ++i) calls.Begin("Heartbeat", bomb);
  EXPECT_EQ(calls.Refused(grpc::StatusCode::RESOURCE_EXHAUSTED, "message_bytes_max"), kCalls);
  const std::string unknown = Repeat("\x78\x01", 1'000'000);
  for (int i = 0; i < 8 * kCalls; ++i) calls.Begin("Heartbeat", unknown);
  calls.Refused(grpc::StatusCode::RESOURCE_EXHAUSTED, "");
  const std::string inserted = Gzip(Repeat("\x78\x01", 30'000'000));
  for (int i = 0; i < kCalls; ++i) calls.Begin("InsertKeyValue", inserted);
  calls.Refused(grpc::StatusCode::RESOURCE_EXHAUSTED, "");
  EXPECT_LE(Status().held, static_cast<int64_t>(limit_));
  auto client = Join();
  EXPECT_TRUE(client->Call(wire::native::SetKey{.key = "on", .value = {"1"}}, kLong).ok());
}

}  // namespace
}  // namespace lockstep
