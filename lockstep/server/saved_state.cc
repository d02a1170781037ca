#include "lockstep/server/saved_state.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "lockstep/platform/etcd/etcd_journal.h"
#include "lockstep/platform/etcd/location.h"
#include "lockstep/platform/journal/sqlite_journal.h"
#include "lockstep/server/standby_listener.h"
#include "lockstep/wire/store/data_entry.h"
#include "lockstep/wire/store/entry.h"
#include "lockstep/wire/store/torch_entry.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

namespace store = wire::store;

// The jobs one after the other; of each itself, then its records, those of its store for torch's
// clients, and its events. Then the data service, and what is of jobs that are set aside. Entries
// are as long as `entry_bytes_soft_max` allows.
class Snapshot {
 public:
  struct Job {
    store::Job job;
    std::vector<coord::TimedRecord> records;
    std::vector<tcpstore::Record> torch;
    std::vector<wire::native::JobEvent> events;
  };
  using Entries = std::shared_ptr<const std::vector<std::string>>;
  Snapshot(std::vector<Job> jobs, std::vector<dispatch::TimedRecord> data,
           std::vector<Entries> set_aside, store::Moment now)
      : jobs_(std::move(jobs)),
        data_(std::move(data)),
        set_aside_(std::move(set_aside)),
        now_(now) {}

  std::optional<std::string> Next() {
    if (at_ == jobs_.size()) return NextOfData();
    Job& job = jobs_[at_];
    std::string entry = journal::NewEntry();
    if (!std::exchange(job_written_, true)) {
      store::EncodeJob(job.job, now_.wall, entry);
    } else if (record_ < job.records.size()) {
      record_ += store::EncodeRecords(job.job.name, now_, RestOf(job.records, record_), entry);
    } else if (torch_record_ < job.torch.size()) {
      torch_record_ += store::EncodeTorchRecords(job.job.name, now_.wall,
                                                 RestOf(job.torch, torch_record_), entry);
    } else {
      store::EncodeRecords(job.job.name, now_.wall, {}, entry);
      store::AppendEvents(job.events, entry);
      job.events.clear();
    }
    if (record_ == job.records.size() && torch_record_ == job.torch.size() && job.events.empty()) {
      job = {};
      ++at_;
      record_ = torch_record_ = 0;
      job_written_ = false;
    }
    return entry;
  }

 private:
  template <class AnyRecord>
  static absl::Span<const AnyRecord> RestOf(const std::vector<AnyRecord>& all, size_t from) {
    return absl::MakeConstSpan(all).subspan(from);
  }

  std::optional<std::string> NextOfData() {
    if (record_ == data_.size()) return NextSetAside();
    std::string entry = journal::NewEntry();
    record_ += store::EncodeDataRecords(now_, RestOf(data_, record_), entry);
    return entry;
  }

  std::optional<std::string> NextSetAside() {
    while (!set_aside_.empty() && set_aside_entry_ == set_aside_.back()->size()) {
      set_aside_.pop_back();
      set_aside_entry_ = 0;
    }
    if (set_aside_.empty()) return std::nullopt;
    return (*set_aside_.back())[set_aside_entry_++];
  }

  std::vector<Job> jobs_;
  std::vector<dispatch::TimedRecord> data_;
  std::vector<Entries> set_aside_;
  const store::Moment now_;
  size_t at_ = 0;
  size_t record_ = 0;
  size_t torch_record_ = 0;
  bool job_written_ = false;
  size_t set_aside_entry_ = 0;
};

// Since nobody can tell what an entry is of that cannot be read, all of the data service is set
// aside with it, until somebody deletes that.
absl::Status RestoreData(const store::ReadEntry& entry, JobTable& jobs, DataHost& data) {
  if (jobs.set_aside().contains(kDataServiceName)) return absl::OkStatus();
  if (!entry.unfit.ok()) {
    const absl::string_view why = entry.unfit.message();
    jobs.SetAsideUnfit(std::string(kDataServiceName), {why.data(), why.size()});
    data.SetAside([&jobs] { return jobs.set_aside().Check(kDataServiceName); });
    return absl::OkStatus();
  }
  for (const store::ReadData& record : entry.data) data.Restore(record);
  return absl::OkStatus();
}

// One entry of the journal.
absl::Status Restore(std::string_view bytes, store::Moment now, JobTable& jobs, DataHost& data) {
  absl::StatusOr<store::ReadEntry> entry = store::DecodeEntry(bytes, now);
  if (!entry.ok()) return entry.status();
  if (entry->of_data) return RestoreData(*entry, jobs, data);
  // Somebody has ended what was set aside then, which this program may have been able to use.
  if (entry->deleted && entry->job == kDataServiceName) data.SetAside(/*refusal=*/nullptr);
  return jobs.Restore(*entry);
}

// `standby` is what answers clients while another server leads.
absl::StatusOr<std::unique_ptr<journal::Journal>> OpenJournal(
    const ServerOptions& options, std::unique_ptr<StandbyListener>& standby) {
  if (options.etcd) {
    etcd::EtcdOptions etcd = *options.etcd;
    auto journal = std::make_shared<const etcd::EtcdJournal*>(nullptr);
    etcd.stands_by = [&options, &standby, journal] {
      auto listener = StandbyListener::Listen(options, [journal] { return (*journal)->leader(); });
      if (listener.ok()) standby = *std::move(listener);
      return listener.status();
    };
    auto opened = etcd::EtcdJournal::Open(std::move(etcd));
    if (!opened.ok()) return opened.status();
    *journal = opened->get();
    return *std::move(opened);
  }
  if (options.state_directory.empty()) return nullptr;
  auto opened = journal::SqliteJournal::Open({.directory = options.state_directory});
  if (!opened.ok()) return opened.status();
  if (!(*opened)->warning().empty()) spdlog::warn("{}", (*opened)->warning());
  return *std::move(opened);
}

}  // namespace

std::string PlaceOf(const ServerOptions& options) {
  return options.etcd ? etcd::ToString(options.etcd->location) : options.state_directory;
}

absl::StatusOr<std::unique_ptr<journal::Journal>> OpenState(const ServerOptions& options,
                                                            JobTable& jobs, DataHost& data) {
  std::unique_ptr<StandbyListener> standby;
  auto opened = OpenJournal(options, standby);
  if (!opened.ok()) return opened.status();
  std::unique_ptr<journal::Journal> journal = *std::move(opened);
  if (journal == nullptr) return journal;
  const Time start = runtime::MonotonicNow();
  const store::Moment now = {.now = start, .wall = absl::Now()};
  // A server that stands by reads for as long as another one leads.
  absl::StatusOr<journal::Replayed> replayed = journal->Replay([&](std::string_view bytes) {
    return Restore(bytes, {.now = runtime::MonotonicNow(), .wall = absl::Now()}, jobs, data);
  });
  standby.reset();
  if (!replayed.ok()) return replayed.status();
  if (absl::Status status = jobs.TakeAddresses(); !status.ok()) return status;
  if (!jobs.set_aside().jobs().empty()) {
    absl::Status again = journal->ReadAgain([&](std::string_view bytes) -> absl::Status {
      absl::StatusOr<store::ReadEntry> entry = store::DecodeEntry(bytes, now);
      if (entry.ok()) jobs.set_aside().Keep(*entry, bytes);
      return entry.status();
    });
    if (!again.ok()) return again;
  }
  const std::string place = PlaceOf(options);
  if (!replayed->cut.empty()) spdlog::warn("state {}: cut {}", place, replayed->cut);
  spdlog::info(
      "state {}: jobs: {}, set aside: {}, entries: {} of a snapshot and {} behind it, bytes: {}, "
      "in {}",
      place, jobs.jobs().size(), jobs.set_aside().jobs().size(), replayed->snapshot_entries,
      replayed->entries, replayed->bytes, absl::FormatDuration(runtime::MonotonicNow() - start));
  return journal;
}

journal::SnapshotSource SnapshotOf(const JobTable& jobs, const DataHost& data) {
  std::vector<Snapshot::Job> all;
  for (const auto& [name, job] : jobs.jobs())
    all.push_back({job->saved(), job->coordinator().Snapshot(), job->stores().Snapshot(),
                   job->outlet().KeptEvents()});
  std::vector<Snapshot::Entries> set_aside;
  for (const auto& [name, job] : jobs.set_aside().jobs()) set_aside.push_back(job.entries);
  return [snapshot = Snapshot(std::move(all), data.Snapshot(), std::move(set_aside),
                              {runtime::MonotonicNow(), absl::Now()})]() mutable {
    return snapshot.Next();
  };
}

}  // namespace lockstep::server
