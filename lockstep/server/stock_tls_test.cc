// Stock gRPC clients with certificates, as JAX 0.11 makes them: `JAX_MTLS_CERT_FILE`, `_KEY_FILE`,
// `_CA_FILE`.
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/platform/tls/certificates.h"
#include "lockstep/server/secure_server_testing.h"
#include "lockstep/server/server.h"
#include "proto/compat/xla/coordination_service.grpc.pb.h"

namespace lockstep::server {
namespace {

namespace pb = ::xla::coordination;

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kPatience = absl::Seconds(60);
// A client that is refused tries again until its deadline.
constexpr absl::Duration kRefusedWithin = absl::Seconds(2);

class StockTlsTest : public testing::Test {
 protected:
  StockTlsTest() { std::filesystem::create_directory(folder_); }
  ~StockTlsTest() override {
    if (server_ != nullptr) server_->Stop();
    std::filesystem::remove_all(folder_);
  }

  // `member_uri`: empty: a certificate is good for every member.
  void Serve(int32_t size, std::string_view member_uri = "") {
    const tls::Identity own =
        *tls::MakeSigned(Named({"localhost"}), tls::UsedBy::kServer, authority_);
    ASSERT_TRUE(runtime::WriteSecretFile(folder_ + "/server.pem", own.certificates + own.key).ok());
    ASSERT_TRUE(runtime::WritePublicFile(folder_ + "/ca.pem", authority_.certificates).ok());
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = {{.name = "digits", .size = size}};
    options.listener.tls = {.certificates = folder_ + "/server.pem",
                            .key = folder_ + "/server.pem",
                            .client_authorities = folder_ + "/ca.pem"};
    if (!member_uri.empty()) options.member_uri = *MemberUri::Parse(member_uri);
    auto server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // Of a client, with these names.
  tls::Identity Client(std::vector<std::string> names) const {
    return *tls::MakeSigned(Named(std::move(names)), tls::UsedBy::kClient, authority_);
  }

  // `own`: without a key, a client without a certificate.
  std::unique_ptr<pb::CoordinationService::Stub> Stub(const tls::Identity& own) {
    return pb::CoordinationService::NewStub(
        grpc::CreateCustomChannel(server_->GrpcAddress("digits"),
                                  grpc::SslCredentials({.pem_root_certs = authority_.certificates,
                                                        .pem_private_key = own.key,
                                                        .pem_cert_chain = own.certificates}),
                                  [] {
                                    grpc::ChannelArguments arguments;
                                    arguments.SetSslTargetNameOverride("localhost");
                                    return arguments;
                                  }()));
  }

  // `incarnation`: what the server answers; null: not wanted.
  static grpc::Status Register(pb::CoordinationService::Stub& stub, int32_t member,
                               absl::Duration timeout, uint64_t* incarnation = nullptr) {
    pb::RegisterTaskRequest request;
    request.set_source_task_id(member);
    request.set_incarnation(100 + static_cast<uint64_t>(member));
    pb::RegisterTaskResponse response;
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    const grpc::Status status = stub.RegisterTask(&context, request, &response);
    if (incarnation != nullptr) *incarnation = response.service_incarnation();
    return status;
  }

  // What is said to a client of these names that registers as that member; empty: it may.
  std::string Refusal(std::vector<std::string> names, int32_t member) {
    const auto stub = Stub(Client(std::move(names)));
    return TextOfRefusal([&](grpc::ClientContext& context) {
      pb::RegisterTaskRequest request;
      request.set_source_task_id(member);
      request.set_incarnation(100 + static_cast<uint64_t>(member));
      pb::RegisterTaskResponse response;
      return stub->RegisterTask(&context, request, &response);
    });
  }
  // The same of any call, which is not refused for another reason.
  static std::string TextOfRefusal(const std::function<grpc::Status(grpc::ClientContext&)>& call) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
    const grpc::Status status = call(context);
    if (status.ok()) return "";
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << status.error_message();
    const auto& metadata = context.GetServerTrailingMetadata();
    const auto reason = metadata.find("lockstep-reason");
    EXPECT_TRUE(reason != metadata.end() && reason->second == "not_permitted");
    return status.error_message();
  }

  static grpc::Status Meet(pb::CoordinationService::Stub& stub, int32_t member,
                           uint64_t incarnation) {
    pb::BarrierRequest request;
    request.mutable_incarnations()->set_service_incarnation(incarnation);
    request.set_barrier_id("met");
    request.set_barrier_timeout_in_ms(60'000);
    request.set_source_task_id(member);
    pb::BarrierResponse response;
    grpc::ClientContext context;
    return stub.Barrier(&context, request, &response);
  }

  const tls::Identity authority_ = *tls::MakeAuthority(Named({}));
  const std::string folder_ = testing::TempDir() + "stock_tls_test." + std::to_string(::getpid());
  std::unique_ptr<Server> server_;
};

TEST_F(StockTlsTest, ClientsWithCertificatesRegisterAndMeet) {
  Serve(2);
  const tls::Identity own =
      *tls::MakeSigned(Named({"spiffe://cluster/job/digits/0"}), tls::UsedBy::kClient, authority_);
  const auto first = Stub(own);
  const auto second = Stub(own);
  const auto meet = [](pb::CoordinationService::Stub& stub, int32_t member) {
    uint64_t incarnation = 0;
    const grpc::Status registered = Register(stub, member, kPatience, &incarnation);
    EXPECT_TRUE(registered.ok()) << registered.error_message();
    const grpc::Status met = Meet(stub, member, incarnation);
    EXPECT_TRUE(met.ok()) << met.error_message();
  };
  std::thread other([&] { meet(*second, 1); });
  meet(*first, 0);
  other.join();
}

constexpr std::string_view kMemberUri = "spiffe://cluster/job/{job}/member/{member}";

TEST_F(StockTlsTest, MembersThatTheirCertificatesNameRegisterAndMeet) {
  Serve(2, kMemberUri);
  const auto meet = [&](int32_t member) {
    const auto stub =
        Stub(Client({"spiffe://cluster/job/digits/member/" + std::to_string(member), "some.host"}));
    uint64_t incarnation = 0;
    const grpc::Status registered = Register(*stub, member, kPatience, &incarnation);
    EXPECT_TRUE(registered.ok()) << registered.error_message();
    const grpc::Status met = Meet(*stub, member, incarnation);
    EXPECT_TRUE(met.ok()) << met.error_message();
  };
  std::thread other([&] { meet(1); });
  meet(0);
  other.join();
}

TEST_F(StockTlsTest, ACertificateThatNamesAMemberIsGoodForNoOther) {
  Serve(1, kMemberUri);
  const std::string own = "spiffe://cluster/job/digits/member/0";
  const std::string said = Refusal({own}, 1);
  EXPECT_THAT(said, HasSubstr("names member 0 of job 'digits'"));
  EXPECT_THAT(said, HasSubstr("request names member 1"));
  const auto stub = Stub(Client({own}));
  uint64_t service = 0;
  ASSERT_TRUE(Register(*stub, 0, kPatience, &service).ok());
  // Each call that says who makes it, as itself and as another.
  for (const int32_t member : {0, 1}) {
    const auto said_of = [&](auto call, auto request, auto response) {
      request.mutable_incarnations()->set_service_incarnation(service);
      request.set_source_task_id(member);
      return TextOfRefusal([&](grpc::ClientContext& context) {
        return (stub.get()->*call)(&context, request, &response);
      });
    };
    using Service = pb::CoordinationService::Stub;
    pb::BarrierRequest barrier;
    barrier.set_barrier_id("met");
    barrier.set_barrier_timeout_in_ms(60'000);
    const testing::Matcher<std::string> hears =
        member == 0 ? testing::Matcher<std::string>(IsEmpty())
                    : testing::Matcher<std::string>(HasSubstr("request names member 1"));
    EXPECT_THAT(said_of(&Service::Barrier, barrier, pb::BarrierResponse()), hears);
    pb::HeartbeatRequest heartbeat;
    heartbeat.set_incarnation(100);
    EXPECT_THAT(said_of(&Service::Heartbeat, heartbeat, pb::HeartbeatResponse()), hears);
    if (member == 0) continue;
    EXPECT_THAT(
        said_of(&Service::PollForError, pb::PollForErrorRequest(), pb::PollForErrorResponse()),
        hears);
    EXPECT_THAT(said_of(&Service::ReportErrorToService, pb::ReportErrorToServiceRequest(),
                        pb::ReportErrorToServiceResponse()),
                hears);
    EXPECT_THAT(
        said_of(&Service::ShutdownTask, pb::ShutdownTaskRequest(), pb::ShutdownTaskResponse()),
        hears);
  }
}

TEST_F(StockTlsTest, WhereCertificatesNameMembersOthersAreRefused) {
  Serve(1, kMemberUri);
  EXPECT_THAT(Refusal({}, 0), HasSubstr("has no URI"));
  EXPECT_THAT(Refusal({"some.host", "10.0.0.1"}, 0), HasSubstr("has no URI"));
  EXPECT_THAT(Refusal({"spiffe://cluster/job/other/member/0"}, 0),
              HasSubstr("names member 0 of job 'other'"));
  EXPECT_THAT(Refusal({"spiffe://elsewhere/job/digits/member/0"}, 0),
              HasSubstr("'spiffe://elsewhere/job/digits/member/0', names no member"));
  EXPECT_THAT(Refusal({"spiffe://cluster/job/digits/member/00"}, 0), HasSubstr("names none"));
  EXPECT_THAT(
      Refusal({"spiffe://cluster/job/digits/member/0", "spiffe://cluster/job/digits/member/1"}, 0),
      HasSubstr("several URIs"));
  // Also with what names no member.
  const auto stub = Stub(Client({}));
  EXPECT_THAT(TextOfRefusal([&](grpc::ClientContext& context) {
                pb::TryGetKeyValueRequest request;
                request.set_key("config/lr");
                pb::TryGetKeyValueResponse response;
                return stub->TryGetKeyValue(&context, request, &response);
              }),
              HasSubstr("has no URI"));
  EXPECT_EQ(Refusal({"spiffe://cluster/job/digits/member/0"}, 0), "");
}

// They may be on any host, as callers with a token of role task.
TEST_F(StockTlsTest, ClientsAreHeldToTheRightsOfATask) {
  Serve(1);
  const tls::Identity own = *tls::MakeSigned(Named({}), tls::UsedBy::kClient, authority_);
  const auto stub = Stub(own);
  uint64_t incarnation = 0;
  ASSERT_TRUE(Register(*stub, 0, kPatience, &incarnation).ok());
  const auto insert = [&](const std::string& key) {
    pb::InsertKeyValueRequest request;
    request.mutable_incarnations()->set_service_incarnation(incarnation);
    request.mutable_kv()->set_key(key);
    request.mutable_kv()->set_value("v");
    pb::InsertKeyValueResponse response;
    grpc::ClientContext context;
    return stub->InsertKeyValue(&context, request, &response).error_code();
  };
  EXPECT_EQ(insert("config/lr"), grpc::StatusCode::OK);
  EXPECT_EQ(insert("_stacks/question"), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(StockTlsTest, ClientsWithoutOneAreRefused) {
  Serve(1);
  const tls::Identity strangers = *tls::MakeAuthority(Named({}));
  for (const tls::Identity& own :
       {tls::Identity(), *tls::MakeSigned(Named({}), tls::UsedBy::kClient, strangers)}) {
    const grpc::Status status = Register(*Stub(own), 0, kRefusedWithin);
    EXPECT_TRUE(status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)
        << status.error_code() << ": " << status.error_message();
  }
  const auto plain = pb::CoordinationService::NewStub(
      grpc::CreateChannel(server_->GrpcAddress("digits"), grpc::InsecureChannelCredentials()));
  EXPECT_FALSE(Register(*plain, 0, kRefusedWithin).ok());
  const tls::Identity own = *tls::MakeSigned(Named({}), tls::UsedBy::kClient, authority_);
  EXPECT_TRUE(Register(*Stub(own), 0, kPatience).ok());
}

}  // namespace
}  // namespace lockstep::server
