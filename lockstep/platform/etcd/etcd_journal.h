// A journal in etcd: the leader of several servers writes it, and another one goes on from it.
//
// A thread of the journal's takes all that is queued, makes a row of it (more when it is much), and
// writes each by one transaction, one after the other: so etcd is waited for once for all of them.
// What has no answer is sent again, until etcd says what became of it, or the lease of this server
// may have ended. From then on nothing is told as durable any more.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/etcd/client.h"
#include "lockstep/platform/etcd/fenced_log.h"
#include "lockstep/platform/etcd/leader_probe.h"
#include "lockstep/platform/etcd/leadership.h"
#include "lockstep/platform/etcd/location.h"
#include "lockstep/platform/etcd/state_reader.h"
#include "lockstep/platform/journal/journal.h"
#include "lockstep/platform/journal/journal_queue.h"

namespace lockstep::etcd {

struct EtcdOptions {
  Location location;
  Access access;
  // What others read about this server while it leads: its address.
  std::string identity;
  // Of the lease of who leads: how long a server that is gone without a word goes on leading.
  absl::Duration ttl = absl::Seconds(3);
  // A prefix without a state is refused, since etcd may have lost it; unless this says that there
  // is none yet.
  bool make_state = false;
  // Versions of etcd that are known to lose data are refused, unless this is set.
  bool any_version = false;
  // What was deleted stays in etcd's history until it is compacted. That is for all of etcd:
  // whoever shares it with others may want to do it otherwise.
  bool compacts = true;
  // Of one transaction: what etcd takes by default is 1.5 MiB.
  size_t row_bytes_max = 1 << 20;
  // A snapshot is wanted when the rows are larger than this, and than `snapshot_factor` times the
  // last snapshot.
  uint64_t snapshot_bytes_min = 64 << 20;
  uint64_t snapshot_factor = 2;
  // Waiting to be written. An etcd that is so far behind counts as broken.
  size_t queued_bytes_max = size_t{1} << 30;
  // Called when another server leads, before this one waits for that to end; an error ends it. On
  // the thread of `Replay`.
  std::function<absl::Status()> stands_by = nullptr;
  // What an operator should know, and whether it is something to worry about. On any thread.
  std::function<void(bool warns, std::string text)> say = nullptr;
};

// Bounds: EtcdOptions; in etcd about three times the snapshot and twice `snapshot_bytes_min`,
// beside etcd's history.
class EtcdJournal : public journal::Journal {
 public:
  // From now on this server wants to lead. FAILED_PRECONDITION: there is no state, or one of a
  // newer format, or an etcd that is known to lose data.
  static absl::StatusOr<std::unique_ptr<EtcdJournal>> Open(EtcdOptions options);
  ~EtcdJournal() override;

  // Of this server's leadership; 0: it has not led yet.
  uint64_t epoch() const override { return static_cast<uint64_t>(leadership_->view().epoch); }
  // The address of who leads, as far as this server knows; empty: of nobody. Thread-safe.
  std::string leader() const;

  // Stands by, and gives what the leader writes to `apply` as it comes, until this server leads and
  // has read it all. ABORTED, as from `ReadAgain`: it has fallen behind, or leads no more, and has
  // to be opened anew.
  absl::StatusOr<journal::Replayed> Replay(
      absl::FunctionRef<absl::Status(std::string_view entry)> apply) override;
  absl::Status ReadAgain(absl::FunctionRef<absl::Status(std::string_view entry)> apply) override;
  absl::Status Start(Durable durable, Failed failed) override;
  uint64_t Append(std::string entry) override;
  uint64_t AppendTogether(std::vector<std::string> entries) override;
  bool confirms() const override { return true; }
  uint64_t Confirm() override { return queue_.Confirm(); }
  bool WantsSnapshot() const override { return queue_.WantsSnapshot(); }
  void BeginSnapshot(journal::SnapshotSource source) override {
    queue_.BeginSnapshot(std::move(source));
  }
  size_t queued_bytes() const override { return queue_.bytes(); }
  // Resigns, so that another server leads at once.
  absl::Status Close() override;

 private:
  class Writer;

  explicit EtcdJournal(EtcdOptions options);
  absl::Status MakeState();
  absl::Status CheckVersions();
  absl::Status Campaign();
  absl::Status StandBy(StateReader& reader,
                       absl::FunctionRef<absl::Status(std::string_view entry)> apply);
  absl::StatusOr<TransactionResult> Ask(const Transaction& transaction);
  absl::Status Anew(const absl::Status& status) const;
  void Say(std::string text) const;
  void Warn(std::string text) const;

  const EtcdOptions options_;
  const Layout layout_;
  Client client_;
  std::unique_ptr<Leadership> leadership_;
  std::unique_ptr<LeaderProbe> probe_;  // while this server stands by
  std::unique_ptr<FencedLog> log_;      // the writer's once it runs
  journal::JournalQueue queue_;
  std::unique_ptr<Writer> writer_;
};

}  // namespace lockstep::etcd
