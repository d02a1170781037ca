// The link over TLS: a server and clients over sockets.
#include <openssl/ssl.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/platform/tls/calls.h"
#include "lockstep/platform/tls/certificates.h"
#include "lockstep/platform/tls/tls_layer.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::tls {
namespace {

using link::Client;
using link::Request;
using link::Responder;
using link::testing::kLong;
using link::testing::RawClient;
using link::testing::TestServer;
using ::testing::HasSubstr;

Identity NewIdentity() {
  const absl::Time now = absl::Now();
  return *MakeSelfSigned({.name = "test",
                          .holds_for = {"127.0.0.1"},
                          .from = now - absl::Hours(1),
                          .until = now + absl::Hours(1)});
}

// Echoes every request.
class SecureLink : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    InstallSecureCalls([] { return &LinkedOpenSsl(); });
  }

  void Start(bool allows_plain) {
    link::Server::Options options = {.allows_plain = allows_plain};
    options.link.hello_timeout = kLong;
    options.accept_secure = [this] { return context_->Accept(); };
    server_ = std::make_unique<TestServer>(
        [](Request request, Responder responder) { responder.Answer(std::move(request.payload)); },
        std::move(options));
  }

  std::string join_string() const {
    return absl::StrCat("lockstep://", server_->address(),
                        "#sha256=", *FingerprintOf(identity_.certificates));
  }

  const Identity identity_ = NewIdentity();
  const std::shared_ptr<const ServerContext> context_ =
      *ServerContext::Make(LinkedOpenSsl(), identity_, {});
  std::unique_ptr<TestServer> server_;
};

TEST_F(SecureLink, CarriesRequestsOfEverySize) {
  Start(/*allows_plain=*/false);
  auto client = Client::Connect(join_string(), kLong, {});
  ASSERT_TRUE(client.ok()) << client.status();
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{16384}, size_t{1} << 20, size_t{20} << 20}) {
    const std::string payload(bytes, 'x');
    const auto answer = (*client)->CallRaw(1, payload, kLong);
    ASSERT_TRUE(answer.ok()) << bytes << ": " << answer.status();
    EXPECT_EQ(*answer, payload);
  }
}

TEST_F(SecureLink, ServesPlainConnectionsBesideOnlyWhereItMay) {
  Start(/*allows_plain=*/true);
  EXPECT_TRUE(Client::Connect(server_->address(), kLong, {}).ok());
  EXPECT_TRUE(Client::Connect(join_string(), kLong, {}).ok());
}

TEST_F(SecureLink, TellsAPlainClientThatItNeedsTls) {
  Start(/*allows_plain=*/false);
  const absl::Status status = Client::Connect(server_->address(), kLong, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(wire::native::ReasonOf(status), "tls_required");
  EXPECT_THAT(std::string(status.message()), HasSubstr("speaks TLS only"));
}

// In clear it would be no TLS, and the client would not know why.
TEST_F(SecureLink, ARefusalIsSaidThroughTls) {
  link::Server::Options options = {.connections_max = 0};
  options.accept_secure = [this] { return context_->Accept(); };
  server_ = std::make_unique<TestServer>(
      [](const Request&, Responder responder) { responder.Answer(""); }, std::move(options));
  for (const std::string& address : {join_string(), server_->address()}) {
    const absl::Status status = Client::Connect(address, kLong, {}).status();
    EXPECT_EQ(wire::native::ReasonOf(status), "connection_limit") << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("connections_max"));
  }
}

TEST_F(SecureLink, ClientRefusesAnotherServer) {
  Start(/*allows_plain=*/true);
  const std::string other = *FingerprintOf(NewIdentity().certificates);
  const absl::Status status =
      Client::Connect(absl::StrCat("lockstep://", server_->address(), "#sha256=", other), kLong, {})
          .status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_EQ(wire::native::ReasonOf(status), "certificate_refused");
  EXPECT_THAT(std::string(status.message()), HasSubstr(server_->address()));
}

TEST_F(SecureLink, ClientRefusesAServerWithoutTls) {
  TestServer plain([](const Request&, Responder responder) { responder.Answer(""); });
  const std::string address = absl::StrCat("lockstep://", plain.address(),
                                           "#sha256=", *FingerprintOf(identity_.certificates));
  EXPECT_FALSE(Client::Connect(address, kLong, {}).ok());
}

TEST_F(SecureLink, ShowsItsCertificateWhereTheServerRequiresOne) {
  const absl::Time now = absl::Now();
  const CertificateOptions options = {.name = "test",
                                      .holds_for = {"127.0.0.1"},
                                      .from = now - absl::Hours(1),
                                      .until = now + absl::Hours(1)};
  const Identity authority = *MakeAuthority(options);
  const Identity own = *MakeSigned(options, UsedBy::kClient, authority);
  const auto context = *ServerContext::Make(LinkedOpenSsl(), identity_, authority.certificates);
  link::Server::Options server = {.allows_plain = false};
  server.accept_secure = [&] { return context->Accept(); };
  TestServer strict([](const Request&, Responder responder) { responder.Answer(""); },
                    std::move(server));
  const std::string join = absl::StrCat("lockstep://", strict.address(),
                                        "#sha256=", *FingerprintOf(identity_.certificates));
  const absl::Status refused = Client::Connect(join, kLong, {}).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_EQ(wire::native::ReasonOf(refused), "certificate_required");

  const std::string path = testing::TempDir() + "secure_link_test." + std::to_string(::getpid());
  ASSERT_TRUE(runtime::ReplaceSecretFile(path, own.certificates + own.key).ok());
  ::setenv("LOCKSTEP_TLS_CERT_FILE", path.c_str(), 1);
  EXPECT_TRUE(Client::Connect(join, kLong, {}).ok());
  ::unsetenv("LOCKSTEP_TLS_CERT_FILE");
  ::unlink(path.c_str());
}

TEST_F(SecureLink, SurvivesStrangersAndServesOthers) {
  Start(/*allows_plain=*/false);
  std::vector<std::unique_ptr<RawClient>> strangers;
  for (const std::string_view bytes :
       {std::string_view("\x16"), std::string_view("\x16\x03\x01\xff\xff"),
        std::string_view("\x16\x03\x03\x00\x05hello"),
        std::string_view("GET / HTTP/1.1\r\n\r\n")}) {
    strangers.push_back(std::make_unique<RawClient>(server_->address()));
    strangers.back()->Send(bytes);
  }
  EXPECT_TRUE(Client::Connect(join_string(), kLong, {}).ok());
}

TEST_F(SecureLink, EndsAConnectionThatOnlyChangesItsKeys) {
  Start(/*allows_plain=*/false);
  const std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context(
      ::SSL_CTX_new(::TLS_client_method()), &::SSL_CTX_free);
  ::SSL_CTX_set_alpn_protos(context.get(), kLinkProtocol.name, kLinkProtocol.bytes);
  const std::unique_ptr<SSL, decltype(&::SSL_free)> ssl(::SSL_new(context.get()), &::SSL_free);
  asio::io_context io;
  asio::ip::tcp::socket socket(io);
  const auto at = *runtime::ParseAddress(server_->address());
  socket.connect({asio::ip::make_address(at.host), at.port});
  ::SSL_set_fd(ssl.get(), socket.native_handle());
  ASSERT_EQ(::SSL_connect(ssl.get()), 1);
  // Not the greeting's time-out: that is kLong here.
  int updates = 0;
  while (updates < 100'000 && ::SSL_key_update(ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
         ::SSL_do_handshake(ssl.get()) == 1) {
    ++updates;
  }
  EXPECT_LT(updates, 100'000);
  EXPECT_TRUE(Client::Connect(join_string(), kLong, {}).ok());
}

TEST_F(SecureLink, ServesManyAtOnce) {
  Start(/*allows_plain=*/false);
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([this, i] {
      auto client = Client::Connect(join_string(), kLong, {});
      ASSERT_TRUE(client.ok()) << client.status();
      for (int k = 0; k < 50; ++k) {
        const std::string text = absl::StrCat(i, "/", k);
        EXPECT_EQ(*(*client)->CallRaw(1, text, kLong), text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lockstep::tls
