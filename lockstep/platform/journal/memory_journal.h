// A journal without a disk, for tests: what was not synced is forgotten with the process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/platform/journal/journal.h"

namespace lockstep::journal {

// What outlives the writer: give it to the next one.
struct MemoryDisk {
  std::vector<std::string> snapshot;  // entries, with the room for their lengths
  std::vector<std::string> entries;
};

// Entries become durable when `Sync` is called, or at once. Threads: one; the callbacks come on it.
class MemoryJournal : public Journal {
 public:
  enum class Syncs { kAtOnce, kWhenTold };
  explicit MemoryJournal(std::shared_ptr<MemoryDisk> disk, Syncs syncs = Syncs::kAtOnce);

  // All that was appended is durable from here on.
  void Sync();
  // The next `Sync`, and each after it, fails for this reason.
  void FailWith(absl::Status reason) { failure_ = std::move(reason); }
  // From now on it is one that another server may write, too.
  void ShareWithOthers() { shared_ = true; }
  // A snapshot is wanted as soon as there are so many entries.
  void WantSnapshotAt(size_t entries) { snapshot_at_ = entries; }

  absl::StatusOr<Replayed> Replay(
      absl::FunctionRef<absl::Status(std::string_view entry)> apply) override;
  // As `Replay`: nothing is changed by reading.
  absl::Status ReadAgain(absl::FunctionRef<absl::Status(std::string_view entry)> apply) override {
    return Replay(apply).status();
  }
  absl::Status Start(Durable durable, Failed failed) override;
  uint64_t Append(std::string entry) override;
  uint64_t AppendTogether(std::vector<std::string> entries) override;
  bool confirms() const override { return shared_; }
  uint64_t Confirm() override { return ++appended_; }
  // From `WantSnapshotAt` on.
  bool WantsSnapshot() const override;
  void BeginSnapshot(SnapshotSource source) override;
  size_t queued_bytes() const override { return queued_bytes_; }
  absl::Status Close() override;

 private:
  const std::shared_ptr<MemoryDisk> disk_;
  const Syncs syncs_;
  bool shared_ = false;
  Durable durable_;
  Failed failed_;
  absl::Status failure_;
  size_t snapshot_at_ = 0;
  uint64_t appended_ = 0;
  std::vector<std::string> queued_;
  size_t queued_bytes_ = 0;
};

}  // namespace lockstep::journal
