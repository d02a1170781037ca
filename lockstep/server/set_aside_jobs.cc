#include "lockstep/server/set_aside_jobs.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using wire::native::WithReason;

std::string Described(std::string_view name) {
  return name == kDataServiceName ? "the data service"
                                  : absl::StrCat("job '", std::string(name), "'");
}

}  // namespace

SetAsideJobs::SetAsideJobs(CommitQueue& commits, EventFeed& feed, runtime::MemoryAccount& memory)
    : commits_(commits), feed_(feed), share_(&memory, "jobs that are set aside", "their records") {}

absl::Status SetAsideJobs::Check(std::string_view name) const {
  const auto found = jobs_.find(std::string(name));
  if (found == jobs_.end()) return absl::OkStatus();
  const bool of_data = name == kDataServiceName;
  absl::Status status = absl::FailedPreconditionError(absl::StrFormat(
      "%s has been set aside since the server started: %s. Its records (%d bytes) are kept; start "
      "a server that can serve it, or delete %s (`lockstep job delete %s`)",
      Described(name), found->second.why, found->second.bytes,
      of_data ? "all that it had" : "the job", std::string(name)));
  return of_data ? WithReason(std::move(status), "data_set_aside")
                 : WithReason(std::move(status), "job_set_aside");
}

void SetAsideJobs::Add(std::string_view name, std::string why) {
  jobs_[std::string(name)].why = std::move(why);
}

void SetAsideJobs::Keep(const wire::store::ReadEntry& entry, std::string_view bytes) {
  const auto found = jobs_.find(entry.of_data ? std::string(kDataServiceName) : entry.job);
  if (found == jobs_.end()) return;
  SetAsideJob& job = found->second;
  if (entry.deleted) {  // one of the same name
    share_.Add(-static_cast<int64_t>(job.bytes));
    job.entries->clear();
    job.bytes = 0;
    return;
  }
  job.bytes += bytes.size();
  share_.Add(static_cast<int64_t>(bytes.size()));
  job.entries->push_back(journal::NewEntry().append(bytes));
}

void SetAsideJobs::Tell() const {
  for (const auto& [name, job] : jobs_) {
    feed_.Tell(wire::native::EventKind::kNotice, std::string(Check(name).message()),
               wire::native::EventSeverity::kError);
  }
}

void SetAsideJobs::Delete(const std::string& name) {
  const auto job = jobs_.find(name);
  LOCKSTEP_CHECK(job != jobs_.end());
  share_.Add(-static_cast<int64_t>(job->second.bytes));
  jobs_.erase(job);
  std::string entry = journal::NewEntry();
  wire::store::EncodeJobDeleted(name, absl::Now(), entry);
  commits_.Commit(std::move(entry), [this, name](bool /*durable*/) {
    feed_.Tell(wire::native::EventKind::kJobDeleted,
               absl::StrCat(Described(name), ", which had been set aside, was deleted on request"));
  });
}

}  // namespace lockstep::server
