// Certificates that name members, at a whole server: over the link, without tokens.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/platform/tls/certificates.h"
#include "lockstep/server/secure_server_testing.h"
#include "lockstep/server/server.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/native/status_messages.h"
#include "lockstep/wire/native/to_event.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;
namespace native = wire::native;

constexpr absl::Duration kPatience = absl::Seconds(60);

class MemberCertificates : public testing::Test {
 protected:
  static void SetUpTestSuite() { CallByTls(); }
  MemberCertificates() {
    std::filesystem::create_directory(folder_);
    const tls::Identity own =
        *tls::MakeSigned(Named({"127.0.0.1"}), tls::UsedBy::kServer, authority_);
    EXPECT_TRUE(runtime::WriteSecretFile(folder_ + "/server.pem", own.certificates + own.key).ok());
    EXPECT_TRUE(runtime::WritePublicFile(folder_ + "/ca.pem", authority_.certificates).ok());
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = {{.name = "digits", .size = 2}, {.name = "other", .size = 1}};
    options.certificate = {.certificates = folder_ + "/server.pem",
                           .key = {},
                           .client_authorities = folder_ + "/ca.pem"};
    options.member_uri = *MemberUri::Parse("spiffe://cluster/{job}/{member}");
    auto server = Server::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    join_string_ = JoinStringOf(*server_);
  }
  ~MemberCertificates() override {
    ::unsetenv("LOCKSTEP_TLS_CERT_FILE");
    ::unsetenv("LOCKSTEP_TLS_KEY_FILE");
    server_->Stop();
    std::filesystem::remove_all(folder_);
  }

  absl::StatusOr<std::unique_ptr<link::Client>> Connect(std::vector<std::string> names) {
    const tls::Identity own =
        *tls::MakeSigned(Named(std::move(names)), tls::UsedBy::kClient, authority_);
    const std::string path = folder_ + "/client.pem";
    EXPECT_TRUE(runtime::ReplaceSecretFile(path, own.certificates + own.key).ok());
    ::setenv("LOCKSTEP_TLS_CERT_FILE", path.c_str(), 1);
    ::setenv("LOCKSTEP_TLS_KEY_FILE", path.c_str(), 1);
    return link::Client::Connect(join_string_, kPatience, {});
  }
  // With a session of the job.
  std::unique_ptr<link::Client> Member(const std::string& uri) {
    auto client = Connect({uri});
    EXPECT_TRUE(client.ok()) << client.status();
    EXPECT_EQ(Reason(**client, Open("digits")), "ok");
    return *std::move(client);
  }
  native::OpenSession Open(const std::string& job) {
    return {.session = native::ToBytes({.high = 7, .low = ++last_session_}), .job = job};
  }
  template <class Request>
  static std::string Reason(link::Client& client, const Request& request) {
    const absl::Status status = client.Call(request, kPatience).status();
    return status.ok() ? "ok" : native::ReasonOf(status);
  }

  const tls::Identity authority_ = *tls::MakeAuthority(Named({}));
  const std::string folder_ =
      testing::TempDir() + "member_certificates_test." + std::to_string(::getpid());
  std::unique_ptr<Server> server_;
  std::string join_string_;
  uint64_t last_session_ = 0;
};

TEST_F(MemberCertificates, StandForTokensOfTheirMembers) {
  const auto first = Member("spiffe://cluster/digits/0");
  const auto second = Member("spiffe://cluster/digits/1");
  EXPECT_EQ(Reason(*second, native::JoinJob{.index = 0, .incarnation = 2}), "not_permitted");
  // Whoever leaves the index open is who its certificate says.
  std::thread joins([&] { EXPECT_EQ(Reason(*second, native::JoinJob{.incarnation = 2}), "ok"); });
  EXPECT_EQ(Reason(*first, native::JoinJob{.index = 0, .incarnation = 1}), "ok");
  joins.join();
  EXPECT_EQ(Reason(*second, native::SetKey{.key = "lockstep/rendezvous/card/1", .value = {"v"}}),
            "ok");
  EXPECT_EQ(Reason(*first, native::DeleteJob{.job = "digits"}), "not_permitted");
}

TEST_F(MemberCertificates, AreOfOneJob) {
  const auto client = Connect({"spiffe://cluster/other/0"});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(Reason(**client, Open("digits")), "not_permitted");
  EXPECT_EQ(Reason(**client, native::StatusRequest{.job = "digits"}), "not_permitted");
  EXPECT_EQ(Reason(**client, native::StatusRequest{.job = "other"}), "ok");
}

TEST_F(MemberCertificates, ThatAreNotClearAreRefused) {
  for (const std::vector<std::string>& names : std::vector<std::vector<std::string>>{
           {"spiffe://cluster/digits/00"},
           {"spiffe://cluster/digits/0", "spiffe://cluster/digits/1"}}) {
    const auto client = Connect(names);
    ASSERT_FALSE(client.ok());
    EXPECT_EQ(native::ReasonOf(client.status()), "not_permitted") << client.status();
  }
  // One of another kind leaves its holder what it was: a user of this host.
  const auto client = Connect({"spiffe://elsewhere/digits/0"});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(Reason(**client, native::StatusRequest{.job = "digits"}), "ok");
}

}  // namespace
}  // namespace lockstep::server
