#include "lockstep/server/admission.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::native::Role;

// Where a caller may come from.
const link::Greeting kFar = {.secure = true};
const link::Greeting kFarInClear = {};
const link::Greeting kNear = {.local = true};

class AdmissionTest : public testing::Test {
 protected:
  AdmissionTest() { std::filesystem::create_directory(folder_); }
  ~AdmissionTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/token.key"; }
  void WriteKeys(const std::string& pem) {
    ASSERT_TRUE(runtime::ReplaceSecretFile(path(), pem).ok());
  }
  std::shared_ptr<Admission> Load(bool with_keys, bool insecure_network = false) {
    auto made = Admission::Load(
        {.token_keys = with_keys ? path() : std::string(), .insecure_network = insecure_network},
        [this](std::string text) { log_.push_back(std::move(text)); });
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  static std::string Token(const std::string& key, Role role, const std::string& job,
                           absl::Duration lasts = absl::Hours(1)) {
    return *auth::TokenKeys::Read(key)->Sign(
        {.role = role, .job = job, .until = absl::Now() + lasts, .key = {}});
  }
  static std::string ReasonOf(Admission& admission, link::Greeting greeting,
                              const std::string& token) {
    greeting.token = token;
    return wire::native::ReasonOf(admission.Admit(greeting).status());
  }

  const std::string folder_ = testing::TempDir() + "admission_test." + std::to_string(::getpid());
  std::vector<std::string> log_;
};

TEST_F(AdmissionTest, WithoutATokenOnlyThisHostMayDoEverything) {
  const std::string key = *auth::TokenKeys::NewKey();
  WriteKeys(key);
  for (const bool with_keys : {false, true}) {
    const auto admission = Load(with_keys);
    EXPECT_EQ(admission->Admit(kNear)->role, Role::kOperate);
    EXPECT_EQ(ReasonOf(*admission, kFar, ""), "token_required");
    EXPECT_EQ(ReasonOf(*admission, kFarInClear, ""), "token_required");
  }
}

TEST_F(AdmissionTest, ATokenGivesWhatItSays) {
  const std::string key = *auth::TokenKeys::NewKey();
  WriteKeys(key);
  const auto admission = Load(true);
  link::Greeting greeting = kFar;
  const std::string token = Token(key, Role::kTask, "digits");
  greeting.token = token;
  const auto rights = admission->Admit(greeting);
  ASSERT_TRUE(rights.ok()) << rights.status();
  EXPECT_EQ(rights->role, Role::kTask);
  EXPECT_EQ(rights->job, "digits");
  // Also for somebody of this host, who could do without.
  greeting.local = true;
  EXPECT_EQ(admission->Admit(greeting)->role, Role::kTask);
}

TEST_F(AdmissionTest, OthersAreRefused) {
  const std::string key = *auth::TokenKeys::NewKey();
  WriteKeys(key);
  const auto admission = Load(true);
  const std::string good = Token(key, Role::kTask, "digits");
  EXPECT_EQ(ReasonOf(*admission, kFarInClear, good), "token_in_clear");
  EXPECT_EQ(ReasonOf(*admission, kFar, good.substr(0, good.size() - 3)), "token_invalid");
  EXPECT_EQ(ReasonOf(*admission, kFar, Token(key, Role::kTask, "digits", -absl::Hours(1))),
            "token_expired");
  EXPECT_EQ(ReasonOf(*admission, kFar, Token(*auth::TokenKeys::NewKey(), Role::kOperate, "")),
            "token_unknown_key");
  EXPECT_EQ(ReasonOf(*admission, kNear, "nonsense"), "token_in_clear");
}

TEST_F(AdmissionTest, ASafeNetworkNeedsNone) {
  const std::string key = *auth::TokenKeys::NewKey();
  WriteKeys(key);
  const auto admission = Load(true, /*insecure_network=*/true);
  EXPECT_EQ(admission->Admit(kFarInClear)->role, Role::kOperate);
  EXPECT_EQ(Load(false, true)->Admit(kFarInClear)->role, Role::kOperate);
  // Whoever shows one is held to it.
  EXPECT_EQ(ReasonOf(*admission, kFar, "nonsense"), "token_invalid");
}

TEST_F(AdmissionTest, ACertificateThatNamesAMemberStandsForATokenOfIt) {
  const std::string key = *auth::TokenKeys::NewKey();
  WriteKeys(key);
  const auto pattern = MemberUri::Parse("spiffe://example.org/job/{job}/member/{member}");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  const auto admission = *Admission::Load({.token_keys = path(), .member_uri = *pattern}, nullptr);
  const auto with = [](const link::Greeting& from, std::vector<std::string> uris) {
    link::Greeting greeting = from;
    greeting.uris = std::move(uris);
    return greeting;
  };
  const std::string own = "spiffe://example.org/job/digits/member/3";
  // Also for somebody of this host, who could do without.
  for (const bool local : {false, true}) {
    link::Greeting greeting = with(kFar, {own});
    greeting.local = local;
    const auto rights = admission->Admit(greeting);
    ASSERT_TRUE(rights.ok()) << rights.status();
    EXPECT_EQ(rights->role, Role::kTask);
    EXPECT_EQ(rights->job, "digits");
    EXPECT_EQ(rights->member, MemberIndex(3));
  }
  EXPECT_EQ(ReasonOf(*admission, with(kFar, {}), ""), "token_required");
  EXPECT_EQ(ReasonOf(*admission, with(kFar, {"spiffe://other.org/job/digits/member/3"}), ""),
            "token_required");
  EXPECT_EQ(ReasonOf(*admission, with(kFar, {own, own}), ""), "not_permitted");
  EXPECT_EQ(ReasonOf(*admission, with(kFar, {own + "/"}), ""), "not_permitted");
  // Where there is a token, it decides.
  link::Greeting both = with(kFar, {own});
  const std::string token = Token(key, Role::kLaunch, "other");
  both.token = token;
  EXPECT_EQ(admission->Admit(both)->job, "other");
  EXPECT_EQ(admission->Admit(both)->member, std::nullopt);
  // Without the option a certificate names nobody.
  EXPECT_EQ(ReasonOf(*Load(true), with(kFar, {own}), ""), "token_required");
}

TEST_F(AdmissionTest, KeysAreReplacedUnderAServer) {
  const std::string first = *auth::TokenKeys::NewKey();
  const std::string second = *auth::TokenKeys::NewKey();
  WriteKeys(first);
  const auto admission = Load(true);
  const std::string old = Token(first, Role::kTask, "digits");
  WriteKeys(second + first);
  EXPECT_EQ(ReasonOf(*admission, kFar, Token(second, Role::kTask, "digits")), "ok");
  EXPECT_EQ(ReasonOf(*admission, kFar, old), "ok");
  EXPECT_THAT(log_, ElementsAre(HasSubstr("were read again")));
  WriteKeys(second);
  EXPECT_EQ(ReasonOf(*admission, kFar, old), "token_unknown_key");

  log_.clear();
  WriteKeys("nonsense");
  EXPECT_EQ(ReasonOf(*admission, kFar, Token(second, Role::kTask, "digits")), "ok");
  EXPECT_THAT(log_, ElementsAre(HasSubstr("the old ones remain in use")));
}

TEST_F(AdmissionTest, AFileOfKeysThatOthersCanReadIsRefused) {
  WriteKeys(*auth::TokenKeys::NewKey());
  ASSERT_EQ(::chmod(path().c_str(), 0644), 0);
  const auto made = Admission::Load({.token_keys = path()}, nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(made.status()));
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("chmod 600"));
}

// A launcher cannot prolong its own time by way of its processes.
TEST_F(AdmissionTest, TheTokenOfATaskLastsNoLongerThanTheLaunchers) {
  WriteKeys(*auth::TokenKeys::NewKey());
  const auto admission = Load(true);
  const absl::Time until = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()) + 600);
  const auto made = admission->MakeTaskToken("digits", until);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_LE(made->lasts, absl::Seconds(600));
  EXPECT_GT(made->lasts, absl::Seconds(500));
  link::Greeting greeting = kFar;
  greeting.token = made->token;
  const auto rights = admission->Admit(greeting);
  ASSERT_TRUE(rights.ok()) << rights.status();
  EXPECT_EQ(rights->role, Role::kTask);
  EXPECT_EQ(rights->until, until);

  EXPECT_EQ(admission->MakeTaskToken("digits", absl::InfiniteFuture())->lasts,
            Admission::kTaskTokenLasts);
  EXPECT_EQ(wire::native::ReasonOf(
                admission->MakeTaskToken("digits", absl::Now() - absl::Seconds(1)).status()),
            "token_expired");
  EXPECT_EQ(wire::native::ReasonOf(
                admission->MakeTaskToken("no\nsuch job", absl::InfiniteFuture()).status()),
            "invalid_argument");
  EXPECT_EQ(Load(false)->MakeTaskToken("digits", until)->token, "");
}

}  // namespace
}  // namespace lockstep::server
