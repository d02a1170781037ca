#include "lockstep/platform/journal/journal_queue.h"

#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::journal {

void JournalQueue::Found(uint64_t log_bytes, uint64_t snapshot_bytes) {
  const MutexLock lock(mutex_);
  snapshots_.Found(log_bytes, snapshot_bytes);
}

uint64_t JournalQueue::Append(std::vector<std::string> rows, absl::Status sealed) {
  const MutexLock lock(mutex_);
  LOCKSTEP_DCHECK(!rows.empty());  // its number would never become durable
  ++appended_;
  broken_.Update(sealed);
  // It has a number all the same, by which its caller hears that it is not durable.
  if (!failure_.ok()) return appended_;
  for (size_t i = 0; i < rows.size(); ++i) {
    bytes_ += rows[i].size();
    snapshots_.Grew(rows[i].size());
    queue_.push_back({.bytes = std::move(rows[i]), .more = i + 1 < rows.size()});
  }
  changed_.NotifyOne();
  return appended_;
}

uint64_t JournalQueue::Confirm() {
  const MutexLock lock(mutex_);
  ++appended_;
  if (!failure_.ok()) return appended_;
  queue_.push_back({});
  changed_.NotifyOne();
  return appended_;
}

bool JournalQueue::WantsSnapshot() const {
  const MutexLock lock(mutex_);
  return failure_.ok() && snapshots_.Wants();
}

void JournalQueue::BeginSnapshot(SnapshotSource source) {
  const MutexLock lock(mutex_);
  if (!failure_.ok() || !snapshots_.Begin()) return;
  queue_.push_back({.bytes = {}, .snapshot = std::move(source)});
  changed_.NotifyOne();
}

size_t JournalQueue::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

void JournalQueue::Close() {
  const MutexLock lock(mutex_);
  closing_ = true;
  changed_.NotifyOne();
}

void JournalQueue::Break(absl::Status why) {
  const MutexLock lock(mutex_);
  broken_.Update(why);
  changed_.NotifyOne();
}

absl::Status JournalQueue::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

JournalQueue::Work JournalQueue::Take(bool wait) {
  Work work;
  {
    const MutexLock lock(mutex_);
    while (wait && !closing_ && queue_.empty() && broken_.ok()) changed_.Wait(mutex_);
    work.queued.swap(queue_);
    work.closing = closing_;
    work.broken = broken_;
  }
  for (const Queued& each : work.queued) {
    work.bytes += each.bytes.size();
    if (each.snapshot == nullptr && !each.more) ++work.entries;
  }
  return work;
}

void JournalQueue::Written(size_t bytes) {
  const MutexLock lock(mutex_);
  LOCKSTEP_DCHECK(bytes <= bytes_);
  bytes_ -= bytes;
}

void JournalQueue::EndSnapshot(uint64_t snapshot_bytes) {
  const MutexLock lock(mutex_);
  snapshots_.End(snapshot_bytes);
}

void JournalQueue::Fail(absl::Status why) {
  const MutexLock lock(mutex_);
  failure_ = std::move(why);
  queue_.clear();
  bytes_ = 0;
}

}  // namespace lockstep::journal
