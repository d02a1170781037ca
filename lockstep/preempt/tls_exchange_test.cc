// HTTP over TLS against another implementation of it, and the source `kubernetes` over both.
#include "lockstep/preempt/tls_exchange.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "lockstep/preempt/kubernetes_source.h"
#include "lockstep/testing/fake_http_server.h"
#include "lockstep/testing/running_source.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::DrippingServer;
using lockstep::testing::Running;
using lockstep::testing::SourceLog;
using lockstep::testing::TestDirectory;
using lockstep::testing::WriteFile;

constexpr const char* kToken = "S3CRET";

struct Certificate {
  EVP_PKEY* key = nullptr;
  X509* x509 = nullptr;

  // Signed by itself, for that subject alternative name.
  explicit Certificate(const std::string& name)
      : key(::EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")), x509(::X509_new()) {
    ::X509_set_version(x509, 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(x509), 1);
    ::X509_gmtime_adj(::X509_getm_notBefore(x509), -3600);
    ::X509_gmtime_adj(::X509_getm_notAfter(x509), 3600);
    ::X509_set_pubkey(x509, key);
    X509_NAME* subject = ::X509_get_subject_name(x509);
    const std::string common = "fake";
    ::X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(common.c_str()), -1, -1, 0);
    ::X509_set_issuer_name(x509, subject);
    for (const auto& [nid, value] :
         {std::pair<int, std::string>{NID_subject_alt_name, name},
          std::pair<int, std::string>{NID_basic_constraints, "critical,CA:TRUE"}}) {
      X509_EXTENSION* extension = ::X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
      ::X509_add_ext(x509, extension, -1);
      ::X509_EXTENSION_free(extension);
    }
    ::X509_sign(x509, key, ::EVP_sha256());
  }
  ~Certificate() {
    ::X509_free(x509);
    ::EVP_PKEY_free(key);
  }
  void Write(const std::string& path) const {
    std::FILE* file = std::fopen(path.c_str(), "w");
    ::PEM_write_X509(file, x509);
    std::fclose(file);
  }
};

// An API server with one pod, which it shows to who says the token.
class TlsServer {
 public:
  explicit TlsServer(const Certificate& certificate) : server_(certificate.x509, certificate.key) {
    server_.Get("/api/v1/namespaces/ml/pods/train-3",
                [this](const httplib::Request& request, httplib::Response& response) {
                  Serve(request, response);
                });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~TlsServer() {
    server_.stop();
    thread_.join();
  }
  BaseUrl url() const { return *ParseBaseUrl(absl::StrCat("https://127.0.0.1:", port_)); }
  std::atomic<bool> deleted = false;
  std::atomic<int> served = 0;

 private:
  void Serve(const httplib::Request& request, httplib::Response& response) {
    ++served;
    if (request.get_header_value("Authorization") != absl::StrCat("Bearer ", kToken)) {
      response.status = 401;
      response.set_content(kToken, "text/plain");
      return;
    }
    response.set_content(
        absl::StrCat(R"({"metadata": {"uid": "u", "resourceVersion": "1")",
                     deleted ? R"(, "deletionTimestamp": "2100-01-01T00:00:00Z")" : "", "}}"),
        "application/json");
  }

  httplib::SSLServer server_;
  int port_ = 0;
  std::thread thread_;
};

class Tls : public ::testing::Test {
 protected:
  Tls() {
    certificate_.Write(directory_ / "ca.crt");
    WriteFile(directory_ / "token", absl::StrCat(kToken, "\n"));
  }
  absl::StatusOr<HttpMessage> Ask(const BaseUrl& url, const std::string& ca = "ca.crt",
                                  const std::string& token = "token") {
    return TlsExchange(url, {.ca_file = directory_ / ca, .token_file = directory_ / token})(
        {.target = "/api/v1/namespaces/ml/pods/train-3", .timeout = absl::Seconds(60)}, -1);
  }

  const TestDirectory directory_;
  const Certificate certificate_{"IP:127.0.0.1"};
};

TEST_F(Tls, SaysTheTokenToWhoHasTheRightCertificate) {
  TlsServer server(certificate_);
  const auto answer = Ask(server.url());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 200);
  // It is renewed in the file, and read from there each time.
  WriteFile(directory_ / "token", "other");
  EXPECT_EQ(Ask(server.url())->status, 401);
}

TEST_F(Tls, SaysNothingToOthers) {
  const Certificate of_another_host("DNS:example.org");
  of_another_host.Write(directory_ / "other.crt");
  const Certificate unknown("IP:127.0.0.1");
  {
    TlsServer server(of_another_host);
    EXPECT_EQ(Ask(server.url(), "other.crt").status().code(), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(server.served, 0);
  }
  TlsServer server(unknown);
  EXPECT_EQ(Ask(server.url()).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(server.served, 0);
}

TEST_F(Tls, WhatIsMissingIsNamed) {
  TlsServer server(certificate_);
  EXPECT_TRUE(absl::StrContains(Ask(server.url(), "none.crt").status().message(), "none.crt"));
  EXPECT_TRUE(absl::StrContains(Ask(server.url(), "ca.crt", "none").status().message(), "none"));
  WriteFile(directory_ / "token", absl::StrCat(kToken, "\r\nX: y"));
  const auto answer = Ask(server.url());
  EXPECT_FALSE(answer.ok());
  EXPECT_FALSE(absl::StrContains(answer.status().message(), kToken));
}

TEST_F(Tls, WhoSpeaksNoTlsIsUnavailable) {
  Running http("http");
  const std::string detail = http.set.health().at(0).detail;
  BaseUrl url = *ParseBaseUrl(detail.substr(0, detail.rfind('/')));
  url.tls = true;
  EXPECT_EQ(Ask(url).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(Tls, WhoDripsAHandshakeIsGivenUp) {
  // The beginning of a record that would be long.
  const DrippingServer server(std::string("\x16\x03\x03\x3f\xff", 5));
  const BaseUrl url = *ParseBaseUrl(absl::StrCat("https://127.0.0.1:", server.port()));
  const auto answer =
      TlsExchange(url, {.ca_file = directory_ / "ca.crt", .token_file = directory_ / "token"})(
          {.target = "/", .timeout = absl::Milliseconds(100)}, -1);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded) << answer.status();
}

TEST_F(Tls, ANameMustBeTheCertificatesToo) {
  const Certificate of_a_name("DNS:localhost");
  of_a_name.Write(directory_ / "name.crt");
  TlsServer server(of_a_name);
  BaseUrl url = server.url();
  EXPECT_EQ(Ask(url, "name.crt").status().code(), absl::StatusCode::kUnauthenticated);
  url.host = "localhost";
  const auto answer = Ask(url, "name.crt");
  EXPECT_TRUE(answer.ok()) << answer.status();
}

TEST_F(Tls, TheSourceFindsTheDeletionOfItsPod) {
  TlsServer server(certificate_);
  std::filesystem::create_directories(directory_ / "var/run/secrets/kubernetes.io/serviceaccount");
  const std::string account = directory_ / "var/run/secrets/kubernetes.io/serviceaccount/";
  certificate_.Write(account + "ca.crt");
  WriteFile(account + "token", kToken);
  WriteFile(account + "namespace", "ml");
  SourceRegistry registry;
  AddKubernetes(registry);
  auto sources =
      MakeSources({"kubernetes:interval=1ms,watch-node=no"}, registry,
                  {.environment = {{"KUBERNETES_SERVICE_HOST", "127.0.0.1"},
                                   {"KUBERNETES_SERVICE_PORT", absl::StrCat(server.url().port)},
                                   {"POD_NAME", "train-3"}},
                   .root = directory_ / ""});
  ASSERT_TRUE(sources.ok()) << sources.status();
  SourceLog log;
  SourceSet set(*std::move(sources), log.listener());
  ASSERT_TRUE(set.Start().ok());
  log.NextHealth(true);
  server.deleted = true;
  const SourceEvent event = log.Next();
  EXPECT_EQ(event.id, "pod-u");
  EXPECT_GT(event.left, absl::Hours(1));
  set.Stop();
  EXPECT_FALSE(absl::StrContains(log.text(), kToken));
}

}  // namespace
}  // namespace lockstep::preempt
