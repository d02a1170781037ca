// Tokens of Kubernetes ServiceAccounts against an API server that may do anything: at the reviewer,
// and at a whole server over TLS.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/auth/token_keys.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/platform/tls/certificates.h"
#include "lockstep/server/secure_server_testing.h"
#include "lockstep/server/server.h"
#include "lockstep/server/token_reviewer.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/native/status_messages.h"
#include "nlohmann/json.hpp"

namespace lockstep::server {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using wire::native::ReasonOf;
using wire::native::Role;
using Json = nlohmann::json;

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr char kTarget[] = "/apis/authentication.k8s.io/v1/tokenreviews";
constexpr char kOwnToken[] = "of-the-server";

std::string Jwt(const std::string& account, absl::Duration lasts = absl::Hours(1)) {
  const Json claims = {{"sub", "system:serviceaccount:" + account},
                       {"exp", absl::ToUnixSeconds(absl::Now() + lasts)}};
  return absl::StrCat("eyJhbGciOiJSUzI1NiJ9.", absl::WebSafeBase64Escape(claims.dump()), ".c2ln");
}

// An API server that believes what tokens say of themselves.
class FakeApi {
 public:
  using Handler = std::function<void(const httplib::Request&, httplib::Response&)>;

  FakeApi(const std::string& certificate, const std::string& key)
      : server_(certificate.c_str(), key.c_str()) {
    server_.Post(kTarget, [this](const auto& request, auto& response) {
      ++reviews;
      instead ? instead(request, response) : Answer(request, response);
    });
    server_.Post("/elsewhere", [this](const auto&, auto&) { ++elsewhere; });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~FakeApi() {
    server_.stop();
    thread_.join();
  }
  std::string url() const { return absl::StrCat("https://127.0.0.1:", port_); }

  Handler instead;  // of the right answer; set while nobody asks
  std::atomic<int> reviews = 0;
  std::atomic<int> elsewhere = 0;

 private:
  static void Answer(const httplib::Request& request, httplib::Response& response) {
    if (request.get_header_value("Authorization") != absl::StrCat("Bearer ", kOwnToken)) {
      response.status = 401;
      return;
    }
    const Json asked = Json::parse(request.body);
    const auto token = asked["spec"]["token"].get<std::string>();
    const size_t begin = token.find('.') + 1;
    std::string claims;
    absl::WebSafeBase64Unescape(token.substr(begin, token.rfind('.') - begin), &claims);
    const Json answer = {{"kind", "TokenReview"},
                         {"status",
                          {{"authenticated", true},
                           {"audiences", asked["spec"]["audiences"]},
                           {"user", {{"username", Json::parse(claims)["sub"]}}}}}};
    response.status = 201;
    response.set_content(answer.dump(), "application/json");
  }

  httplib::SSLServer server_;
  int port_ = 0;
  std::thread thread_;
};

class KubernetesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { CallByTls(); }
  KubernetesTest() {
    std::filesystem::create_directory(folder_);
    const absl::Time now = absl::Now();
    const tls::CertificateOptions named = {.name = "test",
                                           .holds_for = {"127.0.0.1"},
                                           .from = now - absl::Hours(1),
                                           .until = now + absl::Hours(1)};
    const tls::Identity authority = *tls::MakeAuthority(named);
    const tls::Identity own = *tls::MakeSigned(named, tls::UsedBy::kServer, authority);
    Write("ca.crt", authority.certificates);
    Write("api.pem", own.certificates);
    Write("api.key", own.key);
    Write("own.token", absl::StrCat(kOwnToken, "\n"));
    api_ = std::make_unique<FakeApi>(folder_ + "/api.pem", folder_ + "/api.key");
  }
  ~KubernetesTest() override {
    ::unsetenv("LOCKSTEP_TOKEN_FILE");
    if (server_ != nullptr) server_->Stop();
    reviewer_ = nullptr;
    api_ = nullptr;
    std::filesystem::remove_all(folder_);
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(runtime::ReplaceSecretFile(folder_ + "/" + name, text).ok());
  }

  KubernetesOptions Options() const {
    return {.accounts = {*ParseKubernetesAccount("ml/train=launch:digits"),
                         *ParseKubernetesAccount("ops/look=observe")},
            .api = api_->url(),
            .ca_file = folder_ + "/ca.crt",
            .token_file = folder_ + "/own.token"};
  }

  // --- The reviewer alone ---

  void Start(absl::Duration timeout = kPatience) { Start(Options(), timeout); }
  void Start(KubernetesOptions options, absl::Duration timeout = kPatience,
             const TokenReviews::Limits& limits = {}) {
    auto made = TokenReviewer::Start({.kubernetes = std::move(options),
                                      .timeout = timeout,
                                      .limits = limits,
                                      .log = [this](std::string text) {
                                        const MutexLock lock(mutex_);
                                        log_.push_back(std::move(text));
                                      }});
    ASSERT_TRUE(made.ok()) << made.status();
    reviewer_ = *std::move(made);
  }
  TokenReviews::Caller Caller() { return {.id = ++last_caller_, .host = "h"}; }
  TokenReviewer::Verdict Ask(const std::string& token) {
    auto later = std::make_shared<std::promise<TokenReviewer::Verdict>>();
    auto now = reviewer_->Ask(token, Caller(), [later](TokenReviewer::Verdict verdict) {
      later->set_value(std::move(verdict));
    });
    return now ? *std::move(now) : later->get_future().get();
  }
  std::string Reason(const std::string& token = Jwt("ml:train")) {
    const auto verdict = Ask(token);
    return verdict.ok() ? "ok" : ReasonOf(verdict.status());
  }
  std::vector<std::string> log() {
    const MutexLock lock(mutex_);
    return log_;
  }

  // --- A whole server ---

  void Serve(bool with_keys = false) {
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = {{.name = "digits", .size = 1}};
    options.kubernetes = Options();
    if (with_keys) {
      Write("token.key", key_);
      options.token_keys = folder_ + "/token.key";
    }
    auto server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    for (const std::string& line : server_->AddressLines()) {
      if (absl::StartsWith(line, "join string: ")) {
        join_string_ = std::string(absl::StripPrefix(line, "join string: "));
      }
    }
  }
  absl::StatusOr<std::unique_ptr<link::Client>> Connect(const std::string& token) {
    Write("token", token);
    ::setenv("LOCKSTEP_TOKEN_FILE", (folder_ + "/token").c_str(), 1);
    return link::Client::Connect(join_string_, kPatience, {});
  }

  const std::string folder_ = testing::TempDir() + "kubernetes_test." + std::to_string(::getpid());
  const std::string key_ = *auth::TokenKeys::NewKey();
  std::unique_ptr<FakeApi> api_;
  std::unique_ptr<Server> server_;
  std::string join_string_;
  uint64_t last_caller_ = 0;
  Mutex mutex_;
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<TokenReviewer> reviewer_;
};

TEST_F(KubernetesTest, AsksOnceAboutATokenAndRemembers) {
  Start();
  const std::string token = Jwt("ml:train");
  for (int i = 0; i < 3; ++i) {
    const auto verdict = Ask(token);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(verdict->role, Role::kLaunch);
    EXPECT_EQ(verdict->job, "digits");
    EXPECT_LT(verdict->until, absl::Now() + absl::Hours(2));
  }
  EXPECT_EQ(api_->reviews, 1);
  EXPECT_EQ(Ask(Jwt("ops:look"))->role, Role::kObserve);
  EXPECT_EQ(Reason(Jwt("ml:other")), "token_account_unknown");
  EXPECT_EQ(api_->reviews, 3);
  EXPECT_THAT(log(), testing::IsEmpty());
}

TEST_F(KubernetesTest, ManyTokensWaitForTheirTurn) {
  Start();
  constexpr int kCallers = 10 * TokenReviewer::kReviewsMax;
  std::promise<void> all;
  std::atomic<int> accepted = 0;
  std::atomic<int> left = kCallers;
  for (int i = 0; i < kCallers; ++i) {
    const auto now = reviewer_->Ask(Jwt("ml:train", absl::Hours(1 + i)), Caller(),
                                    [&](const TokenReviewer::Verdict& verdict) {
                                      if (verdict.ok()) ++accepted;
                                      if (--left == 0) all.set_value();
                                    });
    EXPECT_FALSE(now.has_value());
  }
  all.get_future().wait();
  EXPECT_EQ(accepted, kCallers);
  EXPECT_EQ(api_->reviews, kCallers);
}

TEST_F(KubernetesTest, OneMoreThanMayWaitIsRefusedAndLogged) {
  std::promise<void> end;
  const auto ended = end.get_future().share();
  api_->instead = [ended](const httplib::Request&, httplib::Response&) { ended.wait(); };
  Start(Options(), kPatience, {.waiting_max = 1});
  reviewer_->Ask(Jwt("ml:train"), Caller(), [](const TokenReviewer::Verdict&) {});
  EXPECT_EQ(Reason(Jwt("ops:look")), "token_reviews_full");
  EXPECT_THAT(log(), Contains(HasSubstr("too many tokens wait")));
  end.set_value();
}

TEST_F(KubernetesTest, AsksNobodyAboutATokenThatHasExpired) {
  Start();
  EXPECT_EQ(Reason(Jwt("ml:train", -absl::Hours(1))), "token_expired");
  EXPECT_EQ(api_->reviews, 0);
}

TEST_F(KubernetesTest, AnApiServerThatMisbehavesIsNoVerdict) {
  Start();
  const auto answer = [&](int status, const std::string& body) {
    api_->instead = [=](const httplib::Request&, httplib::Response& response) {
      response.status = status;
      response.set_header("Location", "/elsewhere");
      response.set_content(body, "application/json");
    };
    return Reason();
  };
  EXPECT_EQ(answer(201, "garbage {"), "token_review_failed");
  EXPECT_EQ(answer(201, std::string(4 << 20, ' ')), "token_review_failed");
  EXPECT_EQ(answer(201, std::string(60'000, '[')), "token_review_failed");
  EXPECT_EQ(answer(307, ""), "token_review_failed");
  EXPECT_EQ(answer(403, ""), "token_review_failed");
  EXPECT_EQ(api_->elsewhere, 0) << "a redirect is not followed";
  EXPECT_EQ(answer(201, R"({"kind": "TokenReview", "status": {"authenticated": false}})"),
            "token_invalid");
  for (const std::string& line : log()) {
    EXPECT_THAT(line, HasSubstr(api_->url()));
    EXPECT_THAT(line, Not(HasSubstr("eyJ")));
    EXPECT_THAT(line, Not(HasSubstr(kOwnToken)));
  }
}

TEST_F(KubernetesTest, ReadsItsOwnTokenAnewForEachQuestion) {
  Write("own.token", "old");
  Start();
  EXPECT_EQ(Reason(), "token_review_failed");
  EXPECT_THAT(log(), Contains(HasSubstr("HTTP status 401")));
  Write("own.token", kOwnToken);
  EXPECT_EQ(Reason(), "ok");
}

TEST_F(KubernetesTest, AsksOnlyTheServerThatTheAuthorityNames) {
  const absl::Time now = absl::Now();
  Write("ca.crt", tls::MakeAuthority({.name = "other",
                                      .holds_for = {},
                                      .from = now - absl::Hours(1),
                                      .until = now + absl::Hours(1)})
                      ->certificates);
  Start();
  EXPECT_EQ(Reason(), "token_review_failed");
  EXPECT_EQ(api_->reviews, 0);
}

TEST_F(KubernetesTest, AnApiServerThatIsSlowOrGoneIsWaitedForOnlySoLong) {
  std::promise<void> end;
  const auto ended = end.get_future().share();
  api_->instead = [ended](const httplib::Request&, httplib::Response&) { ended.wait(); };
  Start(absl::Milliseconds(100));
  EXPECT_EQ(Reason(), "token_review_failed");
  // What still waits is broken off.
  Start(kPatience);
  reviewer_->Ask(Jwt("ml:train"), Caller(), [](const TokenReviewer::Verdict&) { FAIL(); });
  while (api_->reviews < 2) std::this_thread::yield();
  const absl::Time began = absl::Now();
  reviewer_ = nullptr;
  EXPECT_LT(absl::Now() - began, kPatience / 2);
  end.set_value();
  KubernetesOptions gone = Options();
  gone.api = "https://127.0.0.1:1";
  Start(gone);
  EXPECT_EQ(Reason(), "token_review_failed");
}

TEST_F(KubernetesTest, TakesUrlsOfHttpsOnly) {
  KubernetesOptions plain = Options();
  for (const char* url : {"http://127.0.0.1:80", "nonsense", ""}) {
    plain.api = url;
    EXPECT_TRUE(absl::IsInvalidArgument(TokenReviewer::Start({.kubernetes = plain}).status()));
  }
}

TEST_F(KubernetesTest, AServerGivesAnAccountItsRights) {
  Serve();
  const auto client = Connect(Jwt("ops:look"));
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Call(wire::native::StatusRequest{}, kPatience).ok());
  EXPECT_EQ(ReasonOf((*client)->Call(wire::native::DeleteJob{.job = "digits"}, kPatience).status()),
            "not_permitted");
  EXPECT_EQ(ReasonOf(Connect(Jwt("ml:other")).status()), "token_account_unknown");
  EXPECT_EQ(ReasonOf(Connect("lst1.nonsense.nonsense").status()), "token_invalid");
}

TEST_F(KubernetesTest, AServerWithKeysTakesItsOwnTokensToo) {
  Serve(/*with_keys=*/true);
  EXPECT_TRUE(Connect(Jwt("ml:train")).ok());
  const std::string own = *auth::TokenKeys::Read(key_)->Sign(
      {.role = Role::kObserve, .job = "", .until = absl::Now() + absl::Hours(1), .key = {}});
  EXPECT_TRUE(Connect(own).ok());
  EXPECT_EQ(api_->reviews, 1);
}

TEST_F(KubernetesTest, AClientIsToldThatTheApiServerFailed) {
  Serve();
  api_->instead = [](const httplib::Request&, httplib::Response& response) {
    response.status = 500;
  };
  const absl::Status failed = Connect(Jwt("ml:train")).status();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << "`lockstep run` tries again";
  EXPECT_EQ(ReasonOf(failed), "token_review_failed");
  api_->instead = nullptr;
  EXPECT_TRUE(Connect(Jwt("ml:train")).ok()) << "that is not remembered";
}

TEST_F(KubernetesTest, ManyClientsOfOneTokenCostOneQuestion) {
  Serve();
  Write("token", Jwt("ml:train"));
  ::setenv("LOCKSTEP_TOKEN_FILE", (folder_ + "/token").c_str(), 1);
  std::atomic<int> connected = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&] {
      if (link::Client::Connect(join_string_, kPatience, {}).ok()) ++connected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(connected, 32);
  EXPECT_EQ(api_->reviews, 1);
}

}  // namespace
}  // namespace lockstep::server
