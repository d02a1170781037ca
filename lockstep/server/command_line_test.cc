#include "lockstep/server/command_line.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/platform/config/reference_testing.h"
#include "lockstep/server/option_declarations.h"
#include "nlohmann/json.hpp"

namespace lockstep::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::variant<ParsedOptions, EndNow> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "lockstep-server");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

ParsedOptions Good(std::vector<const char*> arguments) {
  auto parsed = Parse(std::move(arguments));
  if (auto* end = std::get_if<EndNow>(&parsed)) {
    ADD_FAILURE() << end->text;
    return {};
  }
  return std::get<ParsedOptions>(parsed);
}

// The complaint; empty when there is none.
std::string Complaint(std::vector<const char*> arguments) {
  auto parsed = Parse(std::move(arguments));
  auto* end = std::get_if<EndNow>(&parsed);
  if (end == nullptr) return "";
  EXPECT_EQ(end->exit_code, 2);
  EXPECT_THAT(end->text, ::testing::StartsWith("lockstep-server: "));
  return end->text;
}

TEST(CommandLine, DefaultsAreThoseOfTheCoordinator) {
  ServerOptions options = Good({"--job", "digits=4"}).options;
  EXPECT_EQ(runtime::ToString(options.listen), "127.0.0.1:7070");
  EXPECT_EQ(options.coordinator.register_timeout, absl::Minutes(60));
  EXPECT_EQ(options.coordinator.heartbeat_timeout, absl::Seconds(100));
  EXPECT_EQ(options.coordinator.shutdown_timeout, absl::Minutes(5));
  EXPECT_EQ(options.coordinator.connection_grace, absl::Milliseconds(200));
  EXPECT_FALSE(options.insecure_network);
  ASSERT_EQ(options.jobs.size(), 1u);
  EXPECT_EQ(options.jobs[0].name, "digits");
  EXPECT_EQ(options.jobs[0].size, 4);
  EXPECT_EQ(options.jobs[0].address, std::nullopt);
}

TEST(CommandLine, EverythingCanBeSaid) {
  ParsedOptions parsed = Good({"--listen",
                               "[::1]:0",
                               "--job",
                               "a=1",
                               "--job",
                               "b=131072@localhost:81",
                               "--register-timeout",
                               "90s",
                               "--heartbeat-timeout",
                               "2m",
                               "--shutdown-timeout",
                               "0s",
                               "--connection-grace",
                               "1h30m",
                               "--recoverable",
                               "b",
                               "--ephemeral",
                               "--ready-file",
                               "/run/ready",
                               "--insecure-network",
                               "-v"});
  const ServerOptions& options = parsed.options;
  EXPECT_EQ(options.listen, (runtime::Address{.host = "::1", .port = 0}));
  ASSERT_EQ(options.jobs.size(), 2u);
  EXPECT_FALSE(options.jobs[0].recoverable);
  EXPECT_EQ(options.jobs[1].size, 131072);
  EXPECT_EQ(options.jobs[1].address, (runtime::Address{.host = "localhost", .port = 81}));
  EXPECT_TRUE(options.jobs[1].recoverable);
  EXPECT_EQ(options.coordinator.register_timeout, absl::Seconds(90));
  EXPECT_EQ(options.coordinator.heartbeat_timeout, absl::Minutes(2));
  EXPECT_EQ(options.coordinator.shutdown_timeout, absl::ZeroDuration());
  EXPECT_EQ(options.coordinator.connection_grace, absl::Minutes(90));
  EXPECT_EQ(options.ready_file, "/run/ready");
  EXPECT_TRUE(options.insecure_network);
  EXPECT_TRUE(options.verbose);
  EXPECT_THAT(parsed.warnings, IsEmpty());
}

TEST(CommandLine, AServerMayBeginWithoutJobs) { EXPECT_THAT(Good({}).options.jobs, IsEmpty()); }

TEST(CommandLine, StateMayBeInEtcd) {
  const auto parse = [](std::vector<const char*> more) {
    std::vector<const char*> arguments = {"--state", "etcd://h1:2379,h2:2379/prod"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const ParsedOptions good =
      Good(parse({"--listen", "10.0.0.5:7070", "--leader-timeout", "5s", "--new-state"}));
  ASSERT_TRUE(good.options.etcd.has_value());
  EXPECT_THAT(good.options.etcd->location.endpoints, ElementsAre("h1:2379", "h2:2379"));
  EXPECT_EQ(good.options.etcd->location.prefix, "prod");
  EXPECT_EQ(good.options.etcd->identity, "10.0.0.5:7070");
  EXPECT_EQ(good.options.etcd->ttl, absl::Seconds(5));
  EXPECT_TRUE(good.options.etcd->make_state);
  EXPECT_TRUE(good.options.state_directory.empty());
  EXPECT_TRUE(KeepsState(good.options));
  EXPECT_EQ(Good(parse({"--advertise", "h9:1"})).options.etcd->identity, "h9:1");
  EXPECT_FALSE(Good({"--state", "/tmp/x"}).options.etcd.has_value());

  EXPECT_THAT(Complaint({"--state", "etcd://h1:2379"}), HasSubstr("it names no prefix"));
  EXPECT_THAT(Complaint(parse({"--leader-timeout", "1500ms"})), HasSubstr("whole seconds"));
  EXPECT_THAT(Complaint(parse({"--leader-timeout", "1s"})), HasSubstr("at least 2s"));
  EXPECT_THAT(Complaint(parse({"--etcd-cert", "x.pem"})), HasSubstr("give both, or neither"));
  EXPECT_THAT(Complaint(parse({"--etcd-cert", "x", "--etcd-key", "x"})), HasSubstr("--etcd-ca"));
  EXPECT_THAT(Complaint(parse({"--etcd-ca", "/nowhere/ca.pem"})), HasSubstr("/nowhere/ca.pem"));
  EXPECT_THAT(Complaint(parse({"--etcd-password-file", "x"})), HasSubstr("USER@"));
  EXPECT_THAT(Complaint(parse({"--listen", "127.0.0.1:0"})), HasSubstr("--advertise"));
  EXPECT_THAT(Complaint(parse({"--advertise", "nonsense"})), HasSubstr("--advertise"));
  EXPECT_THAT(Complaint(parse({"--ephemeral"})), HasSubstr("only one of them"));
}

TEST(CommandLine, StateIsOnDiskUnlessSaidOtherwise) {
  const auto parse = [](std::vector<const char*> arguments, const char* state, const char* home) {
    arguments.insert(arguments.begin(), "lockstep-server");
    auto parsed = ParseCommandLine(
        static_cast<int>(arguments.size()), arguments.data(),
        [&](const std::string& name) -> const char* {
          return name == "HOME" ? home : name == "XDG_STATE_HOME" ? state : nullptr;
        });
    if (auto* end = std::get_if<EndNow>(&parsed)) return end->text;
    return std::get<ParsedOptions>(parsed).options.state_directory;
  };
  EXPECT_EQ(parse({}, nullptr, "/home/ada"), "/home/ada/.local/state/lockstep");
  EXPECT_EQ(parse({}, "/state", "/home/ada"), "/state/lockstep");
  EXPECT_EQ(parse({}, "not/absolute", "/home/ada"), "/home/ada/.local/state/lockstep");
  EXPECT_EQ(parse({"--state", "/var/lib/x"}, "/state", nullptr), "/var/lib/x");
  EXPECT_EQ(parse({"--ephemeral"}, "/state", "/home/ada"), "");
  EXPECT_THAT(parse({}, nullptr, nullptr), HasSubstr("--ephemeral"));
  EXPECT_THAT(parse({"--state", "/x", "--ephemeral"}, nullptr, nullptr),
              HasSubstr("give only one of them"));
}

TEST(CommandLine, LimitsAreOptions) {
  const ServerOptions options =
      Good({"--keys-max", "5", "--value-bytes-max", "1MiB", "--links-max", "7", "--calls-max", "8",
            "--http", "127.0.0.1:0", "--log-format", "json"})
          .options;
  EXPECT_EQ(options.coordinator.keys_max, 5u);
  EXPECT_EQ(options.coordinator.value_bytes_max, 1u << 20);
  EXPECT_EQ(options.links_max, 7u);
  EXPECT_EQ(options.listener.calls_max, 8u);
  EXPECT_EQ(options.http, (runtime::Address{.host = "127.0.0.1", .port = 0}));
  EXPECT_EQ(options.log_format, LogFormat::kJson);
}

TEST(CommandLine, ShowsWhereValuesCameFrom) {
  auto parsed = Parse({"--job", "a=1", "--show-config"});
  auto* end = std::get_if<EndNow>(&parsed);
  ASSERT_NE(end, nullptr);
  EXPECT_EQ(end->exit_code, 0);
  EXPECT_THAT(end->text, HasSubstr("a=1"));
  EXPECT_THAT(end->text, HasSubstr("flag --job"));
  parsed = Parse({"--show-config", "json", "--keys-max", "5"});
  end = std::get_if<EndNow>(&parsed);
  ASSERT_NE(end, nullptr);
  const auto json = nlohmann::json::parse(end->text);
  EXPECT_EQ(json["server"]["keys_max"]["origin"], "flag");
  EXPECT_FALSE(json["server"].contains("values_max"));
}

// The reference in docs/cli.md is this table; LOCKSTEP_UPDATE_GOLDEN=1 writes it there.
TEST(CommandLine, TheReferenceHasEveryOption) {
  DeclaredOptions declared;
  CLI::App app;
  declared.table.AddTo(app);
  config::ExpectReference(LOCKSTEP_CLI_DOCUMENT, declared.table);
}

TEST(CommandLine, AHeartbeatTimeoutThatKillsStockClientsWithoutAPollIsWarnedAbout) {
  EXPECT_THAT(Good({"--job", "a=1", "--heartbeat-timeout", "99s"}).warnings,
              ElementsAre(HasSubstr("every 50s")));
  EXPECT_THAT(Good({"--job", "a=1", "--heartbeat-timeout", "100s"}).warnings, IsEmpty());
}

TEST(CommandLine, KubernetesAccountsNeedAnApiServer) {
  const std::vector<const char*> account = {"--kubernetes-account", "ml/train=launch:digits"};
  const auto with = [&](std::vector<const char*> more) {
    more.insert(more.begin(), account.begin(), account.end());
    return more;
  };
  EXPECT_THAT(Complaint(with({})), HasSubstr("needs --kubernetes-api URL outside pods"));
  EXPECT_THAT(Complaint(with({"--kubernetes-api", "http://k:1"})), HasSubstr("https://"));
  for (const char* audience : {"", "a b", "\xff", "\n"}) {
    EXPECT_THAT(
        Complaint(with({"--kubernetes-api", "https://k:1", "--kubernetes-audience", audience})),
        HasSubstr("--kubernetes-audience: must be printable ASCII"));
  }
  EXPECT_THAT(Complaint({"--kubernetes-account", "ml/train=launch"}), HasSubstr("requires a job"));
  EXPECT_THAT(Complaint(with({"--kubernetes-api", "https://k:1", "--insecure-network"})),
              HasSubstr("give only one of them"));
  const KubernetesOptions options =
      Good(with({"--kubernetes-api", "https://k:1"})).options.kubernetes;
  EXPECT_EQ(options.api, "https://k:1");
  EXPECT_EQ(options.ca_file, "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt");
  EXPECT_EQ(options.token_file, "/var/run/secrets/kubernetes.io/serviceaccount/token");
  EXPECT_EQ(options.audience, "lockstep");
  EXPECT_EQ(options.accounts.size(), 1u);
}

TEST(CommandLine, WrongOptionsAreNamed) {
  EXPECT_THAT(Complaint({"--job", "a=1", "--nonsense"}), HasSubstr("--nonsense"));
  EXPECT_THAT(Complaint({"--job"}), HasSubstr("--job"));
  EXPECT_THAT(Complaint({"--job", "a=1", "--job", "a=2"}), HasSubstr("'a' is named twice"));
  EXPECT_THAT(Complaint({"--job", "a=1", "--recoverable", "b"}), HasSubstr("no job is called 'b'"));
  EXPECT_THAT(Complaint({"--job", "a=1", "--listen", "7070"}), HasSubstr("--listen"));
  EXPECT_THAT(Complaint({"--job", "a=1", "--register-timeout", "0s"}),
              HasSubstr("--register-timeout"));
}

TEST(CommandLine, CertificatesNameMembersOfThosePatterns) {
  const std::string pattern = "spiffe://example.org/job/{job}/member/{member}";
  EXPECT_EQ(Good({"--tls-cert", "s.pem", "--client-ca", "ca.pem", "--member-uri", pattern.c_str()})
                .options.member_uri->pattern(),
            pattern);
  EXPECT_FALSE(Good({"--job", "a=1"}).options.member_uri);
  EXPECT_THAT(Complaint({"--tls-cert", "s.pem", "--member-uri", pattern.c_str()}),
              HasSubstr("--member-uri needs --client-ca"));
  EXPECT_THAT(Complaint({"--client-ca", "ca.pem", "--member-uri", "spiffe://a/{job}"}),
              HasSubstr("--member-uri 'spiffe://a/{job}': {job} and {member}"));
}

TEST(CommandLine, WrongDurationsAreNamed) {
  for (const char* wrong : {"90", "-1s", "inf", "soon", ""}) {
    EXPECT_THAT(Complaint({"--job", "a=1", "--heartbeat-timeout", wrong}),
                HasSubstr("--heartbeat-timeout"))
        << wrong;
  }
}

TEST(CommandLine, AJobMayHaveRoles) {
  const absl::StatusOr<JobOptions> job = ParseJob("mnist=worker:4,ps:1@localhost:81");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->size, 5);
  ASSERT_EQ(job->roles.size(), 2u);
  EXPECT_EQ(job->roles[0].name, "worker");
  EXPECT_EQ(job->roles[0].size, 4);
  EXPECT_EQ(job->roles[1].name, "ps");
  EXPECT_EQ(job->address, (runtime::Address{.host = "localhost", .port = 81}));
  for (const char* wrong : {"a=worker:", "a=:1", "a=w:1,w:2", "a=w:1,4", "a=w:70000,p:70000"}) {
    EXPECT_FALSE(ParseJob(wrong).ok()) << wrong;
  }
}

TEST(CommandLine, WrongJobsAreNamed) {
  for (const char* wrong : {"a", "=4", "a=", "a=0", "a=-1", "a=131073", "a=4x", "a b=4", "a=4@",
                            "a=4@host", "a=4@host:99999", "a=99999999999"}) {
    absl::StatusOr<JobOptions> job = ParseJob(wrong);
    ASSERT_FALSE(job.ok()) << wrong;
    EXPECT_THAT(std::string(job.status().message()), HasSubstr(std::string("'") + wrong + "'"));
  }
  EXPECT_FALSE(ParseJob(std::string(1000, 'a') + "=4").ok());
}

TEST(CommandLine, MoreJobsThanTheLimitAreRefusedByItsName) {
  std::vector<std::string> jobs;
  for (size_t i = 0; i <= ServerOptions().jobs_max; ++i)
    jobs.push_back("--job=j" + std::to_string(i) + "=1");
  std::vector<const char*> arguments;
  for (const std::string& job : jobs) arguments.push_back(job.c_str());
  EXPECT_THAT(Complaint(arguments), HasSubstr("jobs_max"));
}

TEST(CommandLine, AJobHasRolesAndAnAddress) {
  const auto job = ParseJob("digits=worker:2,ps:1@localhost:81");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name, "digits");
  EXPECT_EQ(job->size, 3);
  ASSERT_EQ(job->roles.size(), 2u);
  EXPECT_EQ(job->roles[0].name, "worker");
  EXPECT_EQ(job->roles[0].size, 2);
  EXPECT_EQ(job->roles[1].name, "ps");
  EXPECT_EQ(job->roles[1].size, 1);
  EXPECT_EQ(job->address->port, 81);
  EXPECT_TRUE(ParseJob("digits=4")->roles.empty());
  for (const char* wrong : {"digits=worker:0", "digits=worker:2,", "digits=:2", "digits=a:1,a:1",
                            "digits=a:70000,b:70000", "digits=a b:1", "digits=worker:x"}) {
    EXPECT_FALSE(ParseJob(wrong).ok()) << wrong;
  }
}

TEST(CommandLine, HelpAndVersionEndWell) {
  for (const char* option : {"--help", "--version"}) {
    auto parsed = Parse({option});
    auto* end = std::get_if<EndNow>(&parsed);
    ASSERT_NE(end, nullptr);
    EXPECT_EQ(end->exit_code, 0);
    EXPECT_THAT(end->text, HasSubstr("lockstep-server"));
  }
}

}  // namespace
}  // namespace lockstep::server
