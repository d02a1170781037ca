#include "lockstep/server/saved_state.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "lockstep/journal/sqlite_journal.h"
#include "lockstep/wire/store/entry.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

namespace store = wire::store;

// Of an entry of a snapshot: so many records, and so much in their values.
constexpr size_t kRecordsInEntry = 128;
constexpr size_t kValueBytesInEntry = 1 << 20;

size_t ValueBytes(const coord::Record& record) {
  if (const auto* set = std::get_if<coord::record::KeySet>(&record)) {
    return set->value == nullptr ? 0 : set->value->size();
  }
  const auto* ended = std::get_if<coord::record::BarrierEnded>(&record);
  if (ended == nullptr || ended->values == nullptr) return 0;
  size_t bytes = 0;
  for (const coord::MemberValue& value : *ended->values) bytes += value.value.size();
  return bytes;
}

// The jobs one after the other; of each itself, then its records.
class Snapshot {
 public:
  struct Job {
    store::Job job;
    std::vector<coord::TimedRecord> records;
  };
  Snapshot(std::vector<Job> jobs, store::Moment now) : jobs_(std::move(jobs)), now_(now) {}

  std::optional<std::string> Next() {
    if (at_ == jobs_.size()) return std::nullopt;
    Job& job = jobs_[at_];
    std::string entry = journal::NewEntry();
    if (!std::exchange(job_written_, true)) {
      store::EncodeJob(job.job, now_.wall, entry);
    } else {
      const absl::Span<const coord::TimedRecord> records = NextRecords(job);
      store::EncodeRecords(job.job.name, now_, records, entry);
      record_ += records.size();
    }
    if (record_ == job.records.size()) {
      job = {};
      ++at_;
      record_ = 0;
      job_written_ = false;
    }
    return entry;
  }

 private:
  absl::Span<const coord::TimedRecord> NextRecords(const Job& job) const {
    size_t count = 0;
    size_t bytes = 0;
    while (record_ + count < job.records.size() && count < kRecordsInEntry &&
           bytes < kValueBytesInEntry) {
      bytes += ValueBytes(job.records[record_ + count].record);
      ++count;
    }
    return absl::MakeConstSpan(job.records).subspan(record_, count);
  }

  std::vector<Job> jobs_;
  const store::Moment now_;
  size_t at_ = 0;
  size_t record_ = 0;
  bool job_written_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<journal::Journal>> OpenState(const std::string& directory,
                                                            JobTable& jobs) {
  const Time start = runtime::MonotonicNow();
  const store::Moment now = {.now = start, .wall = absl::Now()};
  auto opened = journal::SqliteJournal::Open({.directory = directory});
  if (!opened.ok()) return opened.status();
  std::unique_ptr<journal::Journal> journal = *std::move(opened);
  absl::StatusOr<journal::Replayed> replayed =
      journal->Replay([&](std::string_view bytes) -> absl::Status {
        absl::StatusOr<store::ReadEntry> entry = store::DecodeEntry(bytes, now);
        return entry.ok() ? jobs.Restore(*entry) : entry.status();
      });
  if (!replayed.ok()) return replayed.status();
  if (!replayed->cut.empty()) spdlog::warn("state {}: cut {}", directory, replayed->cut);
  spdlog::info("state {}: jobs: {}, entries: {} of a snapshot and {} behind it, bytes: {}, in {}",
               directory, jobs.jobs().size(), replayed->snapshot_entries, replayed->entries,
               replayed->bytes, absl::FormatDuration(runtime::MonotonicNow() - start));
  return journal;
}

journal::SnapshotSource SnapshotOf(const JobTable& jobs) {
  std::vector<Snapshot::Job> all;
  for (const auto& [name, job] : jobs.jobs()) all.push_back({job->saved(), job->Snapshot()});
  return [snapshot = Snapshot(std::move(all), {runtime::MonotonicNow(), absl::Now()})]() mutable {
    return snapshot.Next();
  };
}

}  // namespace lockstep::server
