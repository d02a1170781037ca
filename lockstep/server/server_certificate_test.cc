#include "lockstep/server/server_certificate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/tls/certificates.h"

namespace lockstep::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

tls::CertificateOptions Options() {
  const absl::Time now = absl::Now();
  return {.name = "test",
          .holds_for = {"host1"},
          .from = now - absl::Hours(1),
          .until = now + absl::Hours(1)};
}

class ServerCertificateTest : public testing::Test {
 protected:
  ServerCertificateTest() { std::filesystem::create_directory(folder_); }
  ~ServerCertificateTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::remove(Path(name));
    ASSERT_TRUE(runtime::WriteSecretFile(Path(name), text).ok());
  }
  absl::StatusOr<std::shared_ptr<ServerCertificate>> Load(const CertificateFiles& files,
                                                          const std::string& state = "") {
    return ServerCertificate::Load(loop_, files, state,
                                   [this](std::string text) { log_.push_back(std::move(text)); });
  }

  const std::string folder_ =
      testing::TempDir() + "server_certificate_test." + std::to_string(::getpid());
  runtime::Loop loop_;
  std::vector<std::string> log_;
};

TEST_F(ServerCertificateTest, WithoutFilesItMakesOneThatLastsAsLongAsTheState) {
  const auto first = Load({}, folder_);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string fingerprint = (*first)->fingerprint();
  EXPECT_EQ((*Load({}, folder_))->fingerprint(), fingerprint);
  EXPECT_NE((*Load({}))->fingerprint(), fingerprint);
  EXPECT_NE((*Load({}))->fingerprint(), (*Load({}))->fingerprint());
}

TEST_F(ServerCertificateTest, ThatOneIsReadByNobodyElse) {
  ASSERT_TRUE(Load({}, folder_).ok());
  ASSERT_EQ(::chmod(Path("tls.pem").c_str(), 0644), 0);
  EXPECT_THAT(std::string(Load({}, folder_).status().message()), HasSubstr("chmod 600"));
}

TEST_F(ServerCertificateTest, ItsFingerprintIsTheAuthoritysAndOutlivesARenewal) {
  const tls::Identity authority = *tls::MakeAuthority(Options());
  const CertificateFiles files = {.certificates = Path("cert"), .key = Path("key")};
  const auto renew = [&](const tls::Identity& by) {
    const tls::Identity made = *tls::MakeSigned(Options(), tls::UsedBy::kServer, by);
    Write("cert", made.certificates);
    Write("key", made.key);
  };
  renew(authority);
  const auto certificate = Load(files);
  ASSERT_TRUE(certificate.ok()) << certificate.status();
  EXPECT_EQ((*certificate)->fingerprint(), *tls::FingerprintOf(authority.certificates));
  (*certificate)->LookAtFiles();
  EXPECT_THAT(log_, IsEmpty());

  renew(authority);
  (*certificate)->LookAtFiles();
  EXPECT_THAT(log_, ElementsAre(HasSubstr("was read again")));
  EXPECT_EQ((*certificate)->fingerprint(), *tls::FingerprintOf(authority.certificates));

  const tls::Identity other = *tls::MakeAuthority(Options());
  renew(other);
  log_.clear();
  (*certificate)->LookAtFiles();
  EXPECT_THAT(log_, ElementsAre(HasSubstr(*tls::FingerprintOf(other.certificates))));
}

TEST_F(ServerCertificateTest, OneThatCannotBeUsedIsNamedAndTheOldOneHolds) {
  const tls::Identity identity = *tls::MakeSelfSigned(Options());
  Write("both", identity.certificates + identity.key);
  const auto certificate = Load({.certificates = Path("both")});
  ASSERT_TRUE(certificate.ok()) << certificate.status();
  Write("both", "nonsense");
  (*certificate)->LookAtFiles();
  EXPECT_THAT(log_, ElementsAre(HasSubstr("the old one remains in use")));
  EXPECT_EQ((*certificate)->fingerprint(), *tls::FingerprintOf(identity.certificates));
  EXPECT_NE((*certificate)->Accept(), nullptr);
  EXPECT_NE((*certificate)->AcceptHttp(), nullptr);
}

TEST_F(ServerCertificateTest, SaysWhichFileIsWrong) {
  const tls::Identity identity = *tls::MakeSelfSigned(Options());
  Write("cert", identity.certificates);
  Write("key", identity.key);
  Write("empty", "");
  const auto error = [&](const CertificateFiles& files) {
    return std::string(Load(files).status().message());
  };
  EXPECT_THAT(error({.key = Path("key")}), HasSubstr("need --tls-cert"));
  EXPECT_THAT(error({.client_authorities = Path("cert")}), HasSubstr("need --tls-cert"));
  EXPECT_THAT(error({.certificates = Path("none"), .key = Path("key")}), HasSubstr(Path("none")));
  EXPECT_THAT(error({.certificates = Path("cert"), .key = Path("none")}), HasSubstr(Path("none")));
  EXPECT_THAT(error({.certificates = Path("cert")}), HasSubstr("no private key"));
  EXPECT_THAT(
      error(
          {.certificates = Path("cert"), .key = Path("key"), .client_authorities = Path("empty")}),
      HasSubstr("is empty"));
}

}  // namespace
}  // namespace lockstep::server
