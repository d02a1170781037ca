// Every cloud's source against a fake of it, whole exchanges over real sockets.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/preempt/kubernetes_source.h"
#include "lockstep/preempt/registry.h"
#include "lockstep/preempt/source_set.h"
#include "lockstep/testing/fake_clouds.h"
#include "lockstep/testing/source_log.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::FakeAws;
using lockstep::testing::FakeAzure;
using lockstep::testing::FakeCloud;
using lockstep::testing::FakeGce;
using lockstep::testing::FakeHttpServer;
using lockstep::testing::FakeKubernetes;
using lockstep::testing::kSecret;
using lockstep::testing::SourceLog;
using lockstep::testing::WireAnswer;

std::unique_ptr<FakeCloud> MakeFake(const std::string& name) {
  if (name == "gce") return std::make_unique<FakeGce>();
  if (name == "aws") return std::make_unique<FakeAws>();
  if (name == "azure") return std::make_unique<FakeAzure>();
  return std::make_unique<FakeKubernetes>();
}

std::vector<std::unique_ptr<Source>> Make(const std::string& spec) {
  SourceRegistry registry = BuiltinSources();
  AddKubernetes(registry);
  // What a proxy's variables say must change nothing.
  auto sources = MakeSources({spec}, registry, {.environment = {{"http_proxy", "http://h:1"}}});
  EXPECT_TRUE(sources.ok()) << sources.status();
  return sources.ok() ? *std::move(sources) : std::vector<std::unique_ptr<Source>>{};
}

void ExpectDeathInHalfAMinute(const SourceEvent& event) {
  EXPECT_EQ(event.kind, NoticeKind::kPreempt);
  EXPECT_FALSE(event.withdrawn);
  ASSERT_TRUE(event.left);
  EXPECT_LE(*event.left, absl::Seconds(31));
}

class Clouds : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<FakeCloud> fake_ = MakeFake(GetParam());
  SourceLog log_;
  SourceSet set_{Make(fake_->spec()), log_.listener()};
};

INSTANTIATE_TEST_SUITE_P(All, Clouds, ::testing::Values("gce", "aws", "azure", "kubernetes"),
                         [](const auto& each) { return each.param; });

TEST_P(Clouds, TheNoticeAndItsWithdrawalAreFound) {
  ASSERT_TRUE(set_.Start().ok());
  log_.NextHealth(true);
  fake_->Give();
  const SourceEvent given = log_.Next();
  EXPECT_EQ(given.source, GetParam());
  ExpectDeathInHalfAMinute(given);
  EXPECT_EQ(set_.health().at(0).notices, 1);

  fake_->Withdraw();
  const SourceEvent withdrawn = log_.Next();
  EXPECT_TRUE(withdrawn.withdrawn);
  EXPECT_EQ(withdrawn.id, given.id);

  set_.Stop();
  EXPECT_FALSE(absl::StrContains(log_.text(), kSecret));
}

TEST_P(Clouds, ANoticeFromBeforeTheStartIsFound) {
  fake_->Give();
  ASSERT_TRUE(set_.Start().ok());
  ExpectDeathInHalfAMinute(log_.Next());
}

TEST_P(Clouds, FaultsAreToldAndOutlivedAndWhatStoodStands) {
  ASSERT_TRUE(set_.Start().ok());
  log_.NextHealth(true);
  fake_->Give();
  log_.Next();
  const std::string secret = kSecret;
  const std::string trap = absl::StrCat(fake_->server().url(), "/trap?", secret);
  const std::string faults[] = {
      WireAnswer(500, secret),
      WireAnswer(302, secret, {{"Location", trap}}),
      WireAnswer(307, secret, {{"Location", trap}}),
      "",  // the connection is dropped
      secret + " is no HTTP\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + secret,
      WireAnswer(200, "<html>" + secret, {{"Metadata-Flavor", "Google"}}),
      WireAnswer(200, "{\"" + secret + "\": 1}", {{"Metadata-Flavor", "Google"}}),
      WireAnswer(200, std::string(8 << 20, 'x'), {{"Metadata-Flavor", "Google"}}),
  };
  for (const std::string& fault : faults) {
    fake_->server().SetFault(fault);
    const SourceHealth health = log_.NextHealth(false);
    EXPECT_FALSE(health.last_error.empty());
    EXPECT_EQ(health.notices, 1) << health.last_error;
    fake_->server().SetFault(std::nullopt);
    log_.NextHealth(true);
  }
  EXPECT_EQ(log_.size(), 1);
  fake_->Withdraw();
  EXPECT_TRUE(log_.Next().withdrawn);

  set_.Stop();
  for (const std::string& request : fake_->server().requests()) {
    EXPECT_FALSE(absl::StrContains(request, "trap"));
  }
  EXPECT_FALSE(absl::StrContains(log_.text(), kSecret)) << log_.text();
}

TEST_P(Clouds, AServerThatNeverAnswersDoesNotHoldUpTheStop) {
  fake_->server().SetFault(FakeHttpServer::kHold);
  ASSERT_TRUE(set_.Start().ok());
  while (fake_->server().requests().empty()) std::this_thread::yield();
  set_.Stop();
  EXPECT_EQ(log_.size(), 0);
}

TEST_P(Clouds, NobodyThereIsUnhealthy) {
  // The port was free a moment ago, and is nobody's.
  const std::string spec = MakeFake(GetParam())->spec();
  SourceLog log;
  SourceSet set(Make(spec), log.listener());
  ASSERT_TRUE(set.Start().ok());
  EXPECT_FALSE(log.NextHealth(false).last_error.empty());
}

TEST(Gce, MaintenanceOfEachKeyIsFoundWhileOthersAreWaitedFor) {
  FakeGce fake;
  SourceLog log;
  SourceSet set(Make(fake.spec() + ",maintenance-lead=1h"), log.listener());
  ASSERT_TRUE(set.Start().ok());
  log.NextHealth(true);
  fake.Set("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE");
  const SourceEvent event = log.Next();
  EXPECT_EQ(event.kind, NoticeKind::kMaintenance);
  EXPECT_GT(event.left, absl::Minutes(59));
  fake.Set("upcoming-maintenance",
           R"({"type": "SCHEDULED", "maintenanceStatus": "PENDING",
               "windowStartTime": "2100-01-01T00:00:00Z"})");
  EXPECT_GT(log.Next().left, absl::Hours(24));
  fake.Set("maintenance-event", "NONE");
  EXPECT_TRUE(log.Next().withdrawn);
}

TEST(Gce, AServerThatIsSlowIsGivenUpAndAskedAgain) {
  FakeGce fake;
  fake.server().SetFault(FakeHttpServer::kHold);
  SourceLog log;
  SourceSet set(Make(fake.spec()), log.listener());
  ASSERT_TRUE(set.Start().ok());
  EXPECT_TRUE(absl::StrContains(log.NextHealth(false).last_error, "no whole answer came in time"));
  fake.server().SetFault(std::nullopt);
  fake.Give();
  ExpectDeathInHalfAMinute(log.Next());
}

TEST(Aws, TokensThatExpireAreRenewedWithoutAFailure) {
  FakeAws fake;
  SourceLog log;
  SourceSet set(Make(fake.spec()), log.listener());
  ASSERT_TRUE(set.Start().ok());
  log.NextHealth(true);
  fake.ExpireTokens();
  fake.Give();
  ExpectDeathInHalfAMinute(log.Next());
  set.Stop();
  EXPECT_GE(fake.tokens_given(), 2);
  EXPECT_EQ(set.health().at(0).failures, 0);
  EXPECT_FALSE(absl::StrContains(log.text(), kSecret));
}

TEST(Aws, MachinesWithoutTokensAreAskedAsVersion1) {
  FakeAws fake;
  fake.ForgetTokens();
  fake.Give();
  SourceLog log;
  SourceSet set(Make(fake.spec()), log.listener());
  ASSERT_TRUE(set.Start().ok());
  ExpectDeathInHalfAMinute(log.Next());
}

TEST(Aws, RebalanceAndScheduledEventsAreFound) {
  FakeAws fake;
  SourceLog log;
  SourceSet set(Make(fake.spec()), log.listener());
  ASSERT_TRUE(set.Start().ok());
  fake.Set("events/recommendations/rebalance", R"({"noticeTime": "2026-03-01T12:00:00Z"})");
  EXPECT_EQ(log.Next().kind, NoticeKind::kRebalance);
  fake.Set("events/maintenance/scheduled",
           R"([{"NotBefore": "21 Mar 2100 09:00:43 GMT", "Code": "system-reboot",
                "EventId": "event-1", "State": "active", "Description": "reboot"}])");
  const SourceEvent event = log.Next();
  EXPECT_EQ(event.id, "event-1");
  EXPECT_GT(event.left, absl::Hours(24));
}

TEST(Azure, AnAcknowledgedEventStarts) {
  FakeAzure fake;
  SourceLog log;
  SourceSet set(Make(fake.spec()), log.listener());
  ASSERT_TRUE(set.Start().ok());
  fake.Give();
  const SourceEvent given = log.Next();
  set.Acknowledge("azure", given.id);
  const SourceEvent started = log.Next();
  EXPECT_EQ(started.id, given.id);
  EXPECT_EQ(started.left, absl::ZeroDuration());
  EXPECT_EQ(fake.started(), std::vector<std::string>{"E-1"});
}

TEST(Kubernetes, TheNodesTaintsAreFound) {
  FakeKubernetes fake;
  SourceLog log;
  SourceSet set(Make(fake.spec()), log.listener());
  ASSERT_TRUE(set.Start().ok());
  log.NextHealth(true);
  fake.Taint("karpenter.sh/disrupted");
  EXPECT_EQ(log.Next().id, "taint-karpenter.sh/disrupted");
}

TEST(Kubernetes, WithoutTheRightToReadNodesThePodIsEnough) {
  FakeKubernetes fake;
  fake.ForbidNodes();
  SourceLog log;
  SourceSet set(Make(fake.spec()), log.listener());
  ASSERT_TRUE(set.Start().ok());
  log.NextHealth(true);
  fake.ForgetVersions();
  fake.Give();
  ExpectDeathInHalfAMinute(log.Next());
  set.Stop();
  EXPECT_FALSE(absl::StrContains(log.text(), kSecret));
}

}  // namespace
}  // namespace lockstep::preempt
