// What a server writes down so that it can die: entries, appended in order, and snapshots in place
// of the oldest of them.
//
// An entry is some bytes that are kept whole or not at all. What is in it is its writer's business
// (lockstep/wire/store); the journal keeps the order, and finds out what is missing or changed.
// Kinds: MemoryJournal (tests; a server with --ephemeral has none), SqliteJournal (on disk),
// etcd::EtcdJournal (in etcd).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lockstep::journal {

// Of one entry, a message of the largest size and what stands around it: `entry_bytes_max`.
inline constexpr size_t kEntryBytesMax = size_t{512} << 20;

// An entry begins with room for its length, so that it is not copied to get one: make it with
// `NewEntry`, append to it, give it to `Append`.
inline constexpr size_t kEntryPrefixBytes = 4;
inline std::string NewEntry() { return std::string(kEntryPrefixBytes, '\0'); }

// The entries of a snapshot one after the other, each made by `NewEntry`; nothing at its end.
// Called on a thread of the journal's, so what it holds must be its own or immutable.
using SnapshotSource = absl::AnyInvocable<std::optional<std::string>()>;

// What was found when a journal was read.
struct Replayed {
  uint64_t snapshot_entries = 0;
  uint64_t entries = 0;  // behind the snapshot
  uint64_t bytes = 0;    // of both
  // What had been begun when the writer died, in words; empty: nothing. It had not been durable.
  std::string cut;
};

// Threads: all but the callbacks on the thread of its owner; nothing here waits for a disk after
// `Replay`, but for `Close`.
//
// Life: open, `Replay`, `Start`, then the rest; `Close` at last.
class Journal {
 public:
  // That all entries up to this one (counted from 1 since `Start`) are durable. Comes on a thread
  // of the journal's.
  using Durable = absl::AnyInvocable<void(uint64_t through)>;
  // That nothing will be durable any more, and why. Comes once, on a thread of the journal's;
  // nothing that was appended and not yet told as durable may be believed in. ABORTED: another
  // server writes in this one's place, and answers what this one leaves unanswered.
  using Failed = absl::AnyInvocable<void(absl::Status reason)>;

  virtual ~Journal() = default;

  // Gives the entries of the snapshot and those behind it to `apply`, in order. Once, first.
  // DATA_LOSS: something is missing or changed that had been durable: names file, place and what to
  // do. An error of `apply` ends it, and is returned with the entry's place before it.
  virtual absl::StatusOr<Replayed> Replay(
      absl::FunctionRef<absl::Status(std::string_view entry)> apply) = 0;

  // Gives the same entries once more. Between `Replay` and `Start`.
  virtual absl::Status ReadAgain(absl::FunctionRef<absl::Status(std::string_view entry)> apply) = 0;

  // From now on entries are taken.
  virtual absl::Status Start(Durable durable, Failed failed) = 0;

  // Queues the entry; returns which one it is, counted from 1.
  virtual uint64_t Append(std::string entry) = 0;

  // Queues entries that are kept together: after a crash all of them are there, or none. They count
  // as one.
  virtual uint64_t AppendTogether(std::vector<std::string> entries) = 0;

  // Which of its writers this one is; 0: there is only one. After `Replay`.
  virtual uint64_t epoch() const { return 0; }

  // Whether another server may write in this one's place without its noticing. Then what goes out
  // and depends on no entry has to wait for a confirmation.
  virtual bool confirms() const { return false; }

  // Counts as an entry, and is told as durable once the journal has been found, after this call, to
  // be this server's still. One serves all that were asked for before it began. Only with
  // `confirms`.
  virtual uint64_t Confirm() { return 0; }

  // Whether the entries behind the last snapshot are many enough for a new one.
  virtual bool WantsSnapshot() const = 0;

  // From now on `source` stands for everything appended before. It is read in pieces, between which
  // entries go on being written; when it was read to its end, what it stands for is deleted.
  virtual void BeginSnapshot(SnapshotSource source) = 0;

  // How much was appended and is not durable yet.
  virtual size_t queued_bytes() const = 0;

  // Waits until all that was appended is durable, and ends. After it only destruction. Returns why
  // it could not be made durable.
  virtual absl::Status Close() = 0;
};

}  // namespace lockstep::journal
