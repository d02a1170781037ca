#include "lockstep/server/saved_state.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "lockstep/journal/sqlite_journal.h"
#include "lockstep/wire/store/data_entry.h"
#include "lockstep/wire/store/entry.h"
#include "lockstep/wire/store/torch_entry.h"
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

size_t ValueBytes(const tcpstore::Record& record) {
  if (const auto* set = std::get_if<tcpstore::record::KeySet>(&record)) return set->value->size();
  const auto* pushed = std::get_if<tcpstore::record::QueuePushed>(&record);
  return pushed == nullptr ? 0 : pushed->value->size();
}

size_t ValueBytes(const dispatch::Record& record) {
  if (const auto* made = std::get_if<dispatch::record::DatasetRegistered>(&record)) {
    return made->definition.size();
  }
  const auto* resolved = std::get_if<dispatch::record::DatasetResolved>(&record);
  return resolved == nullptr ? 0 : resolved->manifest.size();
}

template <class TimedRecord>
size_t ValueBytes(const TimedRecord& record) {
  return ValueBytes(record.record);
}

// How many of the records, from the first on, go into one entry.
template <class AnyRecord>
size_t CountForEntry(absl::Span<const AnyRecord> records) {
  size_t count = 0;
  size_t bytes = 0;
  while (count < records.size() && count < kRecordsInEntry && bytes < kValueBytesInEntry) {
    bytes += ValueBytes(records[count]);
    ++count;
  }
  return count;
}

// The jobs one after the other; of each itself, then its records, then those of its store for
// torch's clients. Then the data service.
class Snapshot {
 public:
  struct Job {
    store::Job job;
    std::vector<coord::TimedRecord> records;
    std::vector<tcpstore::Record> torch;
  };
  Snapshot(std::vector<Job> jobs, std::vector<dispatch::TimedRecord> data, store::Moment now)
      : jobs_(std::move(jobs)), data_(std::move(data)), now_(now) {}

  std::optional<std::string> Next() {
    if (at_ == jobs_.size()) return NextOfData();
    Job& job = jobs_[at_];
    std::string entry = journal::NewEntry();
    if (!std::exchange(job_written_, true)) {
      store::EncodeJob(job.job, now_.wall, entry);
    } else if (record_ < job.records.size()) {
      const auto records = NextOf(job.records, record_);
      store::EncodeRecords(job.job.name, now_, records, entry);
      record_ += records.size();
    } else {
      const auto records = NextOf(job.torch, torch_record_);
      store::EncodeTorchRecords(job.job.name, now_.wall, records, entry);
      torch_record_ += records.size();
    }
    if (record_ == job.records.size() && torch_record_ == job.torch.size()) {
      job = {};
      ++at_;
      record_ = torch_record_ = 0;
      job_written_ = false;
    }
    return entry;
  }

 private:
  template <class AnyRecord>
  static absl::Span<const AnyRecord> NextOf(const std::vector<AnyRecord>& all, size_t from) {
    const auto left = absl::MakeConstSpan(all).subspan(from);
    return left.first(CountForEntry(left));
  }

  std::optional<std::string> NextOfData() {
    const auto left = absl::MakeConstSpan(data_).subspan(record_);
    if (left.empty()) return std::nullopt;
    const auto records = left.first(CountForEntry(left));
    std::string entry = journal::NewEntry();
    store::EncodeDataRecords(now_, records, entry);
    record_ += records.size();
    return entry;
  }

  std::vector<Job> jobs_;
  std::vector<dispatch::TimedRecord> data_;
  const store::Moment now_;
  size_t at_ = 0;
  size_t record_ = 0;
  size_t torch_record_ = 0;
  bool job_written_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<journal::Journal>> OpenState(const std::string& directory,
                                                            JobTable& jobs, DataHost& data) {
  const Time start = runtime::MonotonicNow();
  const store::Moment now = {.now = start, .wall = absl::Now()};
  auto opened = journal::SqliteJournal::Open({.directory = directory});
  if (!opened.ok()) return opened.status();
  std::unique_ptr<journal::Journal> journal = *std::move(opened);
  absl::StatusOr<journal::Replayed> replayed =
      journal->Replay([&](std::string_view bytes) -> absl::Status {
        absl::StatusOr<store::ReadEntry> entry = store::DecodeEntry(bytes, now);
        if (!entry.ok()) return entry.status();
        for (const dispatch::TimedRecord& record : entry->data) {
          absl::Status status = data.Apply(record);
          if (!status.ok()) {
            return absl::Status(status.code(),
                                absl::StrCat("the data service: ", std::string(status.message())));
          }
        }
        return entry->data.empty() ? jobs.Restore(*entry) : absl::OkStatus();
      });
  if (!replayed.ok()) return replayed.status();
  if (!replayed->cut.empty()) spdlog::warn("state {}: cut {}", directory, replayed->cut);
  spdlog::info("state {}: jobs: {}, entries: {} of a snapshot and {} behind it, bytes: {}, in {}",
               directory, jobs.jobs().size(), replayed->snapshot_entries, replayed->entries,
               replayed->bytes, absl::FormatDuration(runtime::MonotonicNow() - start));
  return journal;
}

journal::SnapshotSource SnapshotOf(const JobTable& jobs, const DataHost& data) {
  std::vector<Snapshot::Job> all;
  for (const auto& [name, job] : jobs.jobs())
    all.push_back({job->saved(), job->Snapshot(), job->TorchSnapshot()});
  return [snapshot = Snapshot(std::move(all), data.Snapshot(),
                              {runtime::MonotonicNow(), absl::Now()})]() mutable {
    return snapshot.Next();
  };
}

}  // namespace lockstep::server
