#include "lockstep/preempt/registry.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lockstep/testing/running_source.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::MakeOne;
using lockstep::testing::Running;
using lockstep::testing::SourceLog;
using lockstep::testing::TestDirectory;
using lockstep::testing::WriteFile;

absl::Status MakeFails(const std::string& spec) {
  return MakeSources({spec}, BuiltinSources(), {}).status();
}

// A host whose firmware says so.
Host WithFirmware(const TestDirectory& directory, const std::map<std::string, std::string>& dmi) {
  std::filesystem::create_directories(directory / "sys/class/dmi/id");
  for (const auto& [name, text] : dmi)
    WriteFile(directory / "sys/class/dmi/id/" + name, text + "\n");
  return {.root = directory / ""};
}

std::vector<std::string> Found(const Host& host) {
  std::vector<std::string> names;
  for (const Detected& one : DetectSources(host)) names.push_back(one.name);
  return names;
}

TEST(SourceRegistry, PreemptionRow19_AnUnknownNameIsAnsweredWithThoseThatAreKnown) {
  EXPECT_EQ(MakeFails("gcp").message(),
            "there is no source of notices 'gcp'; there are auto, aws, azure, command, file, gce, "
            "http, signal, slurm");
}

TEST(SourceRegistry, WhatIsWrongWithAnOptionIsSaid) {
  EXPECT_TRUE(absl::StrContains(MakeFails("file").message(), "path is needed"));
  EXPECT_TRUE(absl::StrContains(MakeFails("file:path=/x,intervall=1s").message(),
                                "no option 'intervall'; it has path, interval"));
  EXPECT_TRUE(absl::StrContains(MakeFails("aws:token-ttl=7h").message(), "6h at most"));
  EXPECT_TRUE(absl::StrContains(MakeFails("gce:url=https://h").message(), "http://"));
  EXPECT_TRUE(absl::StrContains(MakeFails("signal:signals=KILL").message(), "names signals"));
  EXPECT_TRUE(absl::StrContains(MakeFails("auto:x=y").message(), "has no options"));
  EXPECT_FALSE(absl::StrContains(MakeFails("gce:url=http://u:S3CRET@h").message(), "S3CRET"));
}

TEST(DetectSources, FirmwareTellsTheCloud) {
  const std::pair<std::map<std::string, std::string>, std::vector<std::string>> rows[] = {
      {{{"sys_vendor", "Google"}, {"product_name", "Google Compute Engine"}}, {"gce"}},
      {{{"sys_vendor", "Amazon EC2"}, {"product_name", "p5.48xlarge"}}, {"aws"}},
      {{{"sys_vendor", "Xen"}, {"bios_version", "4.11.amazon"}}, {"aws"}},
      {{{"sys_vendor", "Microsoft Corporation"},
        {"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"}},
       {"azure"}},
      {{{"sys_vendor", "Microsoft Corporation"}, {"product_name", "Virtual Machine"}}, {}},
      {{{"sys_vendor", "Dell Inc."}}, {}},
  };
  for (const auto& [dmi, names] : rows) {
    const TestDirectory directory;
    EXPECT_EQ(Found(WithFirmware(directory, dmi)), names);
  }
}

TEST(DetectSources, TheEnvironmentTellsTheScheduler) {
  const TestDirectory empty;
  EXPECT_EQ(
      Found({.environment = {{"SLURM_JOB_END_TIME", "1"}, {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}},
             .root = empty / ""}),
      (std::vector<std::string>{"kubernetes", "slurm"}));
}

TEST(MakeSources, AutoIsWhatFitsAndIsNotMadeTwice) {
  const TestDirectory directory;
  Host host = WithFirmware(directory, {{"sys_vendor", "Google"}});
  // Not among the built-in ones.
  host.environment["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
  auto sources = MakeSources({"auto", "gce:url=http://127.0.0.1:1"}, BuiltinSources(), host);
  ASSERT_TRUE(sources.ok());
  ASSERT_EQ(sources->size(), 1);
  EXPECT_TRUE(absl::StrContains((*sources)[0]->health().detail, "127.0.0.1:1"));
  const TestDirectory nothing;
  EXPECT_TRUE(MakeSources({"auto"}, BuiltinSources(), {.root = nothing / ""})->empty());
}

TEST(SlurmSource, TheLimitOfWallTimeIsANotice) {
  const int64_t end = absl::ToUnixSeconds(absl::Now() + absl::Hours(2));
  Running slurm("slurm:margin=30m", {.environment = {{"SLURM_JOB_END_TIME", absl::StrCat(end)},
                                                     {"SLURM_JOB_ID", "4711"}}});
  const SourceEvent event = slurm.log.Next();
  EXPECT_EQ(event.id, absl::StrCat("job-4711-end-", end));
  EXPECT_EQ(event.kind, NoticeKind::kTimeLimit);
  EXPECT_LE(event.left, absl::Minutes(90));
  EXPECT_GT(event.left, absl::Minutes(80));
}

TEST(SlurmSource, OutsideOfSlurmItDoesNotStart) {
  SourceSet set(MakeOne("slurm"), {});
  EXPECT_TRUE(absl::StrContains(set.Start().message(), "SLURM_JOB_END_TIME is not set"));
}

TEST(SourceSet, OneThatCannotStartIsToldOfAndDoesNotStopTheOthers) {
  const TestDirectory directory;
  WriteFile(directory / "drain", "");
  auto sources =
      MakeSources({"slurm", absl::StrCat("file:path=", directory / "drain")}, BuiltinSources(), {});
  ASSERT_TRUE(sources.ok());
  SourceLog log;
  SourceSet set(*std::move(sources), log.listener());
  EXPECT_TRUE(absl::StrContains(set.Start().message(), "SLURM_JOB_END_TIME is not set"));
  EXPECT_EQ(log.Next().source, "file");
}

TEST(SourceSet, ShowsTheHealthOfEach) {
  const TestDirectory directory;
  WriteFile(directory / "drain", "");
  Running file("file:path=" + directory / "drain");
  file.log.Next();
  const auto health = file.set.health();
  ASSERT_EQ(health.size(), 1);
  EXPECT_EQ(health[0].source, "file");
  EXPECT_EQ(health[0].detail, directory / "drain");
  EXPECT_TRUE(health[0].healthy);
  EXPECT_TRUE(health[0].last_success);
  EXPECT_EQ(health[0].notices, 1);
}

}  // namespace
}  // namespace lockstep::preempt
