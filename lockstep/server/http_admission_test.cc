#include "lockstep/server/http_admission.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "lockstep/server/admission.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using wire::native::Role;

class HttpAdmissionTest : public testing::Test {
 protected:
  HttpAdmissionTest() {
    std::filesystem::create_directory(folder_);
    EXPECT_TRUE(runtime::WriteSecretFile(folder_ + "/token.key", key_).ok());
  }
  ~HttpAdmissionTest() override { std::filesystem::remove_all(folder_); }

  // The role of who is let in, or the reason why not.
  std::string Admit(HttpCaller caller, HttpAdmission::Options options) {
    auto admission =
        Admission::Load({.token_keys = options.has_keys ? folder_ + "/token.key" : std::string(),
                         .member_uri = *MemberUri::Parse("spiffe://a/{job}/{member}")},
                        [](const std::string&) {});
    EXPECT_TRUE(admission.ok()) << admission.status();
    const auto rights = HttpAdmission(*admission, options).Admit(caller);
    return rights.ok() ? auth::RoleName(rights->role) : wire::native::ReasonOf(rights.status());
  }

  const std::string folder_ =
      testing::TempDir() + "http_admission_test." + std::to_string(::getpid());
  const std::string key_ = *auth::TokenKeys::NewKey();
  const std::string token_ = *auth::TokenKeys::Read(key_)->Sign(
      {.role = Role::kTask, .job = "digits", .until = absl::Now() + absl::Hours(1), .key = {}});
};

TEST_F(HttpAdmissionTest, FromOtherHostsATokenOrACertificateIsNeeded) {
  const HttpAdmission::Options keys = {.has_keys = true};
  EXPECT_EQ(Admit({.secure = true}, keys), "token_required");
  EXPECT_EQ(Admit({.token = token_, .secure = true}, keys), "task");
  EXPECT_EQ(Admit({.token = "nonsense", .secure = true}, keys), "token_invalid");
  EXPECT_EQ(Admit({.secure = true, .certified = true}, keys), "observe");
  EXPECT_EQ(Admit({.token = token_, .secure = true, .certified = true}, keys), "task");
  EXPECT_EQ(Admit({.token = "nonsense", .secure = true, .certified = true}, keys), "token_invalid");
  EXPECT_EQ(Admit({.token = token_}, keys), "token_in_clear");
}

TEST_F(HttpAdmissionTest, WithoutKeysTokensMeanNothing) {
  EXPECT_EQ(Admit({.token = token_, .secure = true}, {}), "token_required");
  EXPECT_EQ(Admit({.token = token_, .secure = true, .certified = true}, {}), "observe");
}

TEST_F(HttpAdmissionTest, ACertificateThatNamesAMemberStandsForATokenOfATask) {
  for (const HttpAdmission::Options& options : {HttpAdmission::Options{.has_keys = true}, {}}) {
    const auto admit = [&](std::vector<std::string> uris) {
      return Admit({.secure = true, .certified = true, .uris = std::move(uris)}, options);
    };
    EXPECT_EQ(admit({"spiffe://a/digits/3"}), "task");
    EXPECT_EQ(admit({"spiffe://b/digits/3"}), "observe");
    EXPECT_EQ(admit({"spiffe://a/digits/three"}), "not_permitted");
    EXPECT_EQ(admit({"spiffe://a/digits/3", "spiffe://b/"}), "not_permitted");
  }
}

TEST_F(HttpAdmissionTest, UsersOfThisHostAndSafeNetworksSeeEverything) {
  EXPECT_EQ(Admit({.local = true}, {.has_keys = true}), "operator");
  EXPECT_EQ(Admit({.token = "nonsense", .local = true}, {.has_keys = true}), "operator");
  EXPECT_EQ(Admit({}, {.has_keys = true, .insecure_network = true}), "operator");
  // A token that came where others read along is known to them now.
  EXPECT_EQ(Admit({.token = token_}, {.has_keys = true, .insecure_network = true}),
            "token_in_clear");
  // By TLS it counts.
  EXPECT_EQ(Admit({.token = token_, .secure = true, .local = true}, {.has_keys = true}), "task");
}

}  // namespace
}  // namespace lockstep::server
