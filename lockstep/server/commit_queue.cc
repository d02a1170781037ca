#include "lockstep/server/commit_queue.h"

#include <utility>

#include "absl/time/time.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

constexpr absl::Duration kStall = absl::Seconds(1);
// What waits for an entry costs about so much beside it.
constexpr size_t kHeldBytes = 512;

}  // namespace

CommitQueue::CommitQueue(runtime::Loop& loop, runtime::MemoryAccount* memory)
    : loop_(loop), share_(memory, "the journal", "changes that wait for the disk"), stall_(loop) {}

CommitQueue::~CommitQueue() { Close().IgnoreError(); }

absl::Status CommitQueue::Keep(std::unique_ptr<journal::Journal> journal, Failed failed,
                               Snapshot snapshot) {
  journal_ = std::move(journal);
  failed_ = std::move(failed);
  snapshot_ = std::move(snapshot);
  return journal_->Start([this](uint64_t through) { Announce(through); },
                         [this](absl::Status reason) {
                           loop_.Post([this, reason = std::move(reason)] { Fail(reason); });
                         });
}

void CommitQueue::Commit(std::string entry, Release release) {
  if (!keeps() || !failure_.ok()) return release(failure_.ok());
  const size_t bytes = entry.size();
  Hold(journal_->Append(std::move(entry)), bytes, std::move(release));
}

void CommitQueue::Commit(std::vector<std::string> entries, Release release) {
  if (entries.size() == 1) return Commit(std::move(entries.front()), std::move(release));
  if (!keeps() || !failure_.ok()) return release(failure_.ok());
  size_t bytes = 0;
  for (const std::string& entry : entries) bytes += entry.size();
  Hold(journal_->AppendTogether(std::move(entries)), bytes, std::move(release));
}

void CommitQueue::Hold(uint64_t entry, size_t bytes, Release release) {
  last_entry_ = entry;
  held_.push_back({last_entry_, std::move(release), bytes});
  queued_bytes_ += bytes;
  share_.Set(queued_bytes_ + held_.size() * kHeldBytes);
  if (!watching_) WatchForStall();
}

void CommitQueue::Follow(Release release) {
  if (held_.empty()) return release(failure_.ok());
  held_.push_back({last_entry_, std::move(release)});
}

CommitQueue::Release CommitQueue::TakeHeld() {
  Release release = std::move(held_.front().release);
  queued_bytes_ -= held_.front().bytes;
  held_.pop_front();
  share_.Set(queued_bytes_ + held_.size() * kHeldBytes);
  return release;
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
  released_ = through;
  while (!held_.empty() && held_.front().entry <= through) {
    // Taken out first: it may hand in more.
    Release release = TakeHeld();
    release(true);
  }
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
  while (!held_.empty()) {
    Release release = TakeHeld();
    release(false);
  }
  failed_(failure_);
}

void CommitQueue::WatchForStall() {
  watching_ = true;
  stalled_at_ = released_;
  stall_.Arm(runtime::MonotonicNow() + kStall, [this] {
    watching_ = false;
    if (held_.empty()) return;
    if (released_ == stalled_at_) {
      spdlog::warn(
          "no disk write has finished for {}: {} changes ({} bytes) and their callers are waiting",
          absl::FormatDuration(kStall), held_.size(), journal_->queued_bytes());
    }
    WatchForStall();
  });
}

absl::Status CommitQueue::Close() {
  if (!keeps()) return absl::OkStatus();
  absl::Status status = journal_->Close();
  return failure_.ok() ? status : failure_;
}

}  // namespace lockstep::server
