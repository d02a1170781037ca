#include "lockstep/server/commit_queue.h"

#include <utility>

#include "absl/time/time.h"
#include "lockstep/base/check.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {

CommitQueue::CommitQueue(runtime::Loop& loop, runtime::MemoryAccount* memory)
    : loop_(loop), held_(memory), stall_(loop, [this] {
        return StallWatch::Progress{
            .durable = released_, .waiting = held_.size(), .bytes = journal_->queued_bytes()};
      }) {}

CommitQueue::~CommitQueue() { Close().IgnoreError(); }

absl::Status CommitQueue::Keep(std::unique_ptr<journal::Journal> journal, Failed failed,
                               Snapshot snapshot) {
  LOCKSTEP_DCHECK(journal_ == nullptr && journal != nullptr);
  journal_ = std::move(journal);
  failed_ = std::move(failed);
  snapshot_ = std::move(snapshot);
  return journal_->Start([this](uint64_t through) { Announce(through); },
                         [this](absl::Status reason) {
                           loop_.Post([this, reason = std::move(reason)] { Fail(reason); });
                         });
}

void CommitQueue::Commit(std::string entry, Release release) {
  if (!failure_.ok()) return Refuse(std::move(release));
  if (!keeps()) return release(true);
  const size_t bytes = entry.size();
  Hold(journal_->Append(std::move(entry)), bytes, std::move(release));
}

void CommitQueue::Commit(std::vector<std::string> entries, Release release) {
  LOCKSTEP_DCHECK(!entries.empty());  // `release` would wait for what comes after it
  if (entries.size() == 1) return Commit(std::move(entries.front()), std::move(release));
  if (!failure_.ok()) return Refuse(std::move(release));
  if (!keeps()) return release(true);
  size_t bytes = 0;
  for (const std::string& entry : entries) bytes += entry.size();
  Hold(journal_->AppendTogether(std::move(entries)), bytes, std::move(release));
}

void CommitQueue::Hold(uint64_t entry, size_t bytes, Release release) {
  LOCKSTEP_DCHECK(entry > last_entry_);
  last_entry_ = entry;
  held_.Push(entry, bytes, std::move(release));
  stall_.Begin();
}

void CommitQueue::Refuse(Release release) {
  if (!absl::IsAborted(failure_)) release(false);
}

void CommitQueue::Follow(Release release) {
  if (!failure_.ok()) return Refuse(std::move(release));
  // What was handed in before may have been written before this is asked for.
  if (confirms()) return Hold(journal_->Confirm(), 0, std::move(release));
  if (held_.empty()) return release(true);
  held_.Push(last_entry_, 0, std::move(release));
}

void CommitQueue::Announce(uint64_t through) {
  durable_.store(through, std::memory_order_release);
  // One function on the loop for all that became durable until it runs.
  if (announced_.exchange(true)) return;
  loop_.Post([this] {
    announced_.store(false);
    ReleaseThrough(durable_.load(std::memory_order_acquire));
  });
}

void CommitQueue::ReleaseThrough(uint64_t through) {
  if (!failure_.ok()) return;
  LOCKSTEP_DCHECK(through >= released_ && through <= last_entry_);
  released_ = through;
  // Each is out of the queue before it runs: it may hand in more.
  while (held_.MayGo(through)) held_.Pop()(true);
  BeginSnapshotIfDue();
}

void CommitQueue::BeginSnapshotIfDue() {
  if (!journal_->WantsSnapshot()) return;
  const Time start = runtime::MonotonicNow();
  journal_->BeginSnapshot(snapshot_());
  spdlog::debug("state snapshot taken in {}; writing it in the background",
                absl::FormatDuration(runtime::MonotonicNow() - start));
}

void CommitQueue::Fail(absl::Status reason) {
  failure_ = std::move(reason);
  // What another server answers is not answered here.
  if (absl::IsAborted(failure_)) return failed_(failure_);
  while (!held_.empty()) held_.Pop()(false);
  failed_(failure_);
}

absl::Status CommitQueue::Close() {
  if (!keeps()) return absl::OkStatus();
  absl::Status status = journal_->Close();
  return failure_.ok() ? status : failure_;
}

}  // namespace lockstep::server
