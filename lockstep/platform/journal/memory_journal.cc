#include "lockstep/platform/journal/memory_journal.h"

#include <utility>

namespace lockstep::journal {

MemoryJournal::MemoryJournal(std::shared_ptr<MemoryDisk> disk, Syncs syncs)
    : disk_(std::move(disk)), syncs_(syncs) {}

absl::StatusOr<Replayed> MemoryJournal::Replay(
    absl::FunctionRef<absl::Status(std::string_view entry)> apply) {
  Replayed replayed;
  for (const std::vector<std::string>* part : {&disk_->snapshot, &disk_->entries}) {
    for (const std::string& entry : *part) {
      ++(part == &disk_->snapshot ? replayed.snapshot_entries : replayed.entries);
      replayed.bytes += entry.size();
      absl::Status status = apply(std::string_view(entry).substr(kEntryPrefixBytes));
      if (!status.ok()) return status;
    }
  }
  return replayed;
}

absl::Status MemoryJournal::Start(Durable durable, Failed failed) {
  durable_ = std::move(durable);
  failed_ = std::move(failed);
  return absl::OkStatus();
}

uint64_t MemoryJournal::Append(std::string entry) {
  ++appended_;
  queued_bytes_ += entry.size();
  queued_.push_back(std::move(entry));
  if (syncs_ == Syncs::kAtOnce) Sync();
  return appended_;
}

uint64_t MemoryJournal::AppendTogether(std::vector<std::string> entries) {
  ++appended_;
  for (std::string& entry : entries) {
    queued_bytes_ += entry.size();
    queued_.push_back(std::move(entry));
  }
  if (syncs_ == Syncs::kAtOnce) Sync();
  return appended_;
}

void MemoryJournal::Sync() {
  if (!failure_.ok()) {
    if (failed_) std::exchange(failed_, nullptr)(failure_);
    return;
  }
  for (std::string& entry : queued_) disk_->entries.push_back(std::move(entry));
  queued_.clear();
  queued_bytes_ = 0;
  if (durable_) durable_(appended_);
}

bool MemoryJournal::WantsSnapshot() const {
  return snapshot_at_ > 0 && disk_->entries.size() + queued_.size() >= snapshot_at_;
}

void MemoryJournal::BeginSnapshot(SnapshotSource source) {
  Sync();
  if (!failure_.ok()) return;
  std::vector<std::string> snapshot;
  while (std::optional<std::string> entry = source()) snapshot.push_back(*std::move(entry));
  disk_->snapshot = std::move(snapshot);
  disk_->entries.clear();
}

absl::Status MemoryJournal::Close() {
  Sync();
  durable_ = nullptr;
  return failure_;
}

}  // namespace lockstep::journal
