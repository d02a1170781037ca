// The options of each source, and what it is made of.
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/ip/address.hpp"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/preempt/aws_machine.h"
#include "lockstep/preempt/azure_machine.h"
#include "lockstep/preempt/gce_machine.h"
#include "lockstep/preempt/http_watch.h"
#include "lockstep/preempt/local_watches.h"
#include "lockstep/preempt/registry.h"
#include "lockstep/preempt/signal_watch.h"
#include "lockstep/preempt/watched_source.h"
#include "lockstep/preempt/webhook_watch.h"

namespace lockstep::preempt {
namespace {

using Watches = std::vector<std::unique_ptr<Watch>>;
using Made = absl::StatusOr<std::unique_ptr<Source>>;

// A poll must not become a load, and tests must not wait.
constexpr absl::Duration kShortest = absl::Milliseconds(1);

std::unique_ptr<Source> SourceOf(const OptionReader& options, std::unique_ptr<Watch> watch) {
  Watches watches;
  watches.push_back(std::move(watch));
  return MakeWatchedSource(options.source(), std::move(watches));
}

BaseUrl UrlOption(OptionReader& options, const std::string& otherwise) {
  absl::StatusOr<BaseUrl> url = ParseBaseUrl(options.Text("url", otherwise));
  if (!url.ok()) {
    options.Refuse("url", std::string(url.status().message()));
    return {};
  }
  if (url->tls) options.Refuse("url", "is an http:// one here");
  return *std::move(url);
}

Made MakeSignal(OptionReader& options, const Host&) {
  return SourceOf(options, MakeSignalWatch(ReadSignalOptions(options)));
}

Made MakeFile(OptionReader& options, const Host&) {
  FileOptions made;
  made.path = options.Text("path", "");
  if (made.path.empty()) options.Refuse("path", "is needed: the file whose existence is a notice");
  made.interval = options.Length("interval", made.interval, kShortest);
  return SourceOf(options, MakeFileWatch(std::move(made)));
}

Made MakeCommand(OptionReader& options, const Host&) {
  CommandOptions made;
  made.command = options.Text("command", "");
  if (made.command.empty()) options.Refuse("command", "is needed: a line for /bin/sh");
  made.interval = options.Length("interval", made.interval, kShortest);
  made.time_limit = options.Length("time-limit", made.time_limit, kShortest);
  return SourceOf(options, MakeCommandWatch(std::move(made)));
}

Made MakeHttp(OptionReader& options, const Host&) {
  WebhookOptions made;
  const std::string listen = options.Text("listen", "127.0.0.1:0");
  const absl::StatusOr<runtime::Address> address = runtime::ParseAddress(listen);
  // Only a number says so before it is looked up.
  asio::error_code is_name;
  if (!address.ok() || !asio::ip::make_address(address->host, is_name).is_loopback()) {
    options.Refuse("listen", "is a loopback address: 127.0.0.1:8477, [::1]:0");
  } else {
    made.at = *address;
  }
  const std::string file = options.Text("token-file", "");
  if (!file.empty()) {
    made.token = ReadSmallFile(file, 4096);
    if (made.token.empty()) options.Refuse("token-file", "cannot be read, or is empty");
  }
  return SourceOf(options, MakeWebhookWatch(std::move(made)));
}

// GCE_METADATA_HOST is what Google's own libraries heed.
std::string GceUrl(const Host& host) {
  for (const char* name : {"GCE_METADATA_HOST", "GCE_METADATA_IP"}) {
    if (const std::string at = host.Variable(name); !at.empty()) return absl::StrCat("http://", at);
  }
  return "http://169.254.169.254";
}

Made MakeGce(OptionReader& options, const Host& host) {
  const BaseUrl url = UrlOption(options, GceUrl(host));
  GceOptions made;
  made.long_poll = options.Length("long-poll", made.long_poll, absl::Seconds(1));
  made.retry = options.Length("retry", made.retry, kShortest);
  made.absent_retry = options.Length("absent-retry", made.absent_retry, kShortest);
  made.preempt_lead = options.Length("preempt-lead", made.preempt_lead);
  made.maintenance_lead = options.Length("maintenance-lead", made.maintenance_lead);
  made.migration_is_notice = options.Switch("migration", made.migration_is_notice);
  Watches watches;
  using Key = GceMachine::Key;
  for (const auto& [key, name] : {std::pair{Key::kPreempted, "preempted"},
                                  std::pair{Key::kMaintenanceEvent, "maintenance-event"},
                                  std::pair{Key::kUpcomingMaintenance, "upcoming-maintenance"}}) {
    watches.push_back(std::make_unique<HttpWatch>(absl::StrCat(url.text(), " ", name),
                                                  std::make_unique<GceMachine>(key, made),
                                                  PlainExchange(url)));
  }
  return MakeWatchedSource(options.source(), std::move(watches));
}

Made MakeAws(OptionReader& options, const Host&) {
  const BaseUrl url = UrlOption(options, "http://169.254.169.254");
  AwsOptions made;
  made.interval = options.Length("interval", made.interval, kShortest);
  made.slow_interval = options.Length("slow-interval", made.slow_interval, kShortest);
  made.token_ttl = options.Length("token-ttl", made.token_ttl, absl::Seconds(1));
  if (made.token_ttl > absl::Hours(6)) options.Refuse("token-ttl", "is 6h at most");
  made.version_1_allowed = options.Switch("v1", made.version_1_allowed);
  return SourceOf(options, std::make_unique<HttpWatch>(
                               url.text(), std::make_unique<AwsMachine>(made), PlainExchange(url)));
}

Made MakeAzure(OptionReader& options, const Host&) {
  const BaseUrl url = UrlOption(options, "http://169.254.169.254");
  AzureOptions made;
  made.interval = options.Length("interval", made.interval, kShortest);
  made.machine = options.Text("machine", "");
  made.acknowledge = options.Switch("acknowledge", made.acknowledge);
  made.freeze_is_notice = options.Switch("freeze", made.freeze_is_notice);
  return SourceOf(options,
                  std::make_unique<HttpWatch>(url.text(), std::make_unique<AzureMachine>(made),
                                              PlainExchange(url)));
}

Made MakeSlurm(OptionReader& options, const Host& host) {
  SlurmOptions made;
  made.margin = options.Length("margin", absl::ZeroDuration());
  return SourceOf(options, MakeSlurmWatch(made, host.environment));
}

}  // namespace

SignalOptions ReadSignalOptions(OptionReader& options) {
  SignalOptions made;
  absl::StatusOr<std::vector<int>> signals = ParseSignals(options.Text("signals", "TERM"));
  if (signals.ok()) {
    made.signals = *std::move(signals);
  } else {
    options.Refuse("signals", std::string(signals.status().message()));
  }
  // Not given: no signal says how long there is left.
  const absl::Duration lead = options.Length("lead", absl::InfiniteDuration());
  if (lead != absl::InfiniteDuration()) made.lead = lead;
  made.chain = options.Switch("chain", true);
  made.interval = options.Length("interval", made.interval, kShortest);
  return made;
}

SourceRegistry BuiltinSources() {
  SourceRegistry registry;
  registry.Add("signal", MakeSignal);
  registry.Add("file", MakeFile);
  registry.Add("command", MakeCommand);
  registry.Add("http", MakeHttp);
  registry.Add("gce", MakeGce);
  registry.Add("aws", MakeAws);
  registry.Add("azure", MakeAzure);
  registry.Add("slurm", MakeSlurm);
  return registry;
}

}  // namespace lockstep::preempt
