// `lockstep bundle JOB`: all that is known of a job now, in one archive, for whoever looks later.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "lockstep/cli/data_waits.h"
#include "lockstep/cli/gather_stacks.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/cli/tar.h"
#include "lockstep/observe/status_text.h"
#include "lockstep/observe/tables.h"
#include "lockstep/observe/why.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::cli {
namespace {

struct BundleArguments {
  std::string job;
  std::string file;
};

// The archive while it grows; each file's name begins with the folder that it unpacks into.
class Bundle {
 public:
  Bundle(std::string folder, absl::Time at)
      : folder_(std::move(folder)), seconds_(absl::ToUnixSeconds(at)) {}

  void Add(const std::string& name, const std::string& content) {
    AppendTarFile(absl::StrCat(folder_, "/", name), content, seconds_, archive_);
    names_.push_back(name);
  }
  // What could not be had.
  void Miss(const std::string& name, const absl::Status& why) {
    Add(absl::StrCat(name, ".missing"), absl::StrCat(std::string(why.message()), "\n"));
  }
  std::string Finish() {
    FinishTar(archive_);
    return std::move(archive_);
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  const std::string folder_;
  const int64_t seconds_;
  std::string archive_;
  std::vector<std::string> names_;
};

void AddEvents(ServerCommand& self, const std::string& job, Bundle& bundle) {
  const auto client = self.Connect();
  if (!client.ok()) return bundle.Miss("events.jsonl", client.status());
  wire::native::WatchEvents request{.job = job};
  std::string lines;
  const int64_t now_us = absl::ToUnixMicros(absl::Now());
  for (;;) {
    const auto reply = (*client)->Call(request, self.timeout());
    if (!reply.ok()) return bundle.Miss("events.jsonl", reply.status());
    for (const wire::native::JobEvent& event : reply->events) {
      lines += observe::EventJsonLine(event, job, now_us);
    }
    request.log = reply->log;
    if (reply->events.empty() || reply->next_after == request.after) break;
    request.after = reply->next_after;
  }
  bundle.Add("events.jsonl", lines);
}

constexpr char kWhereOutputIs[] =
    "The processes' output is in that of their `lockstep run`, and below its --log-dir if it has "
    "one";

// Only launchers know stacks and last lines, and only as long as they run.
absl::Status NobodyAnswered(const ServerCommand& self, const std::string& job) {
  return absl::UnavailableError(absl::StrCat(
      "no launcher of job '", job, "' answered within ", absl::FormatDuration(self.timeout()),
      " (--timeout): they have ended, or cannot reach the server. So there are no stacks and no "
      "last lines of its processes. ",
      kWhereOutputIs));
}

void AddLastLines(const GatheredStacks& gathered, Bundle& bundle) {
  bool any = false;
  for (const launch::ProcessStacks& process : gathered.processes) {
    if (process.last_lines.empty()) continue;
    any = true;
    bundle.Add(absl::StrCat("output/", process.member, ".txt"),
               absl::StrCat(absl::StrJoin(process.last_lines, "\n"), "\n"));
  }
  if (!gathered.silent.empty()) {
    bundle.Miss("output", absl::UnavailableError(absl::StrCat(
                              "no launcher has reported the last lines of ",
                              absl::StrJoin(gathered.silent, ", "), ". ", kWhereOutputIs)));
  } else if (!any) {
    bundle.Miss("output", absl::NotFoundError(absl::StrCat(
                              "the launchers have no last lines: the processes have written "
                              "nothing yet, or only to files (--redirects). ",
                              kWhereOutputIs)));
  }
}

void AddStacks(ServerCommand& self, const wire::native::JobStatus& job, Bundle& bundle) {
  const auto gathered = GatherStacks(self.coordinator(), job, {}, {}, self.timeout());
  if (!gathered.ok() || gathered->processes.empty()) {
    const absl::Status why = gathered.ok() ? NobodyAnswered(self, job.job) : gathered.status();
    bundle.Miss("stacks.txt", why);
    bundle.Miss("output", why);
    return;
  }
  std::string text = launch::StacksText(gathered->processes);
  if (!gathered->silent.empty()) {
    absl::StrAppend(&text, "\nno launcher has reported on ", absl::StrJoin(gathered->silent, ", "),
                    "\n");
  }
  bundle.Add("stacks.txt", text);
  bundle.Add("stacks.json", absl::StrCat(launch::EncodeStacks(gathered->processes), "\n"));
  AddLastLines(*gathered, bundle);
}

absl::Status Write(const std::string& file, const std::string& archive) {
  // What processes printed may hold secrets: for the owner alone, also where the file was there.
  const runtime::UniqueFd out(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
  struct stat is = {};
  bool ok = out.get() >= 0 && ::fstat(out.get(), &is) == 0 &&
            (!S_ISREG(is.st_mode) || ::fchmod(out.get(), S_IRUSR | S_IWUSR) == 0);
  for (size_t at = 0; ok && at < archive.size();) {
    const ssize_t wrote = ::write(out.get(), archive.data() + at, archive.size() - at);
    if (wrote > 0) at += static_cast<size_t>(wrote);
    ok = wrote > 0 || (wrote < 0 && errno == EINTR);
  }
  if (!ok) {
    return absl::UnknownError(absl::StrCat("cannot write ", file, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

int MakeBundle(ServerCommand& self, const BundleArguments& given) {
  const auto reply = self.Status(given.job);
  if (!reply.ok()) return self.Fail(reply.status());
  if (reply->jobs.size() != 1) {
    return self.Fail(absl::InternalError("the server answered about another job"));
  }
  const wire::native::JobStatus& job = reply->jobs.front();
  const absl::Time now = absl::Now();
  const std::string name = absl::StrCat(
      "lockstep-", job.job, "-", absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone()));
  Bundle bundle(name, now);
  bundle.Add("status.json", observe::StatusJson(*reply));
  bundle.Add("status.txt", observe::StatusTable(*reply));
  bundle.Add("why.txt",
             observe::WhyText(job, TakeSnapshots(self.coordinator(), job, self.timeout()).all,
                              DataWaitsAt(self.coordinator(), job, self.timeout())));
  AddEvents(self, job.job, bundle);
  AddStacks(self, job, bundle);
  const std::vector<std::string> names = bundle.names();
  const std::string file = given.file.empty() ? absl::StrCat(name, ".tar") : given.file;
  if (absl::Status status = Write(file, bundle.Finish()); !status.ok()) return self.Fail(status);
  self.out() << absl::StrCat(file, ": ", absl::StrJoin(names, ", "), "\n");
  return kExitOk;
}

}  // namespace

void AddBundle(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "bundle", "Save everything known about a job to an archive, for later analysis");
  auto given = std::make_shared<BundleArguments>();
  command->add_option("job", given->job, "Job")->type_name("JOB")->required();
  command->add_option("--to", given->file, "Archive to write. Default: lockstep-JOB-TIME.tar")
      ->type_name("FILE");
  AddServerCommand(*command, invocation, "bundle",
                   [given](ServerCommand& self) { return MakeBundle(self, *given); });
}

}  // namespace lockstep::cli
