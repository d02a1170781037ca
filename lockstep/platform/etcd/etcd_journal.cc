#include "lockstep/platform/etcd/etcd_journal.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/etcd/log_writer.h"
#include "lockstep/platform/etcd/version.h"
#include "lockstep/platform/journal/framing.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/signals_blocked.h"
#include "lockstep/platform/runtime/work_thread.h"

namespace lockstep::etcd {
namespace {

// Of one try to write; then it is sent again, perhaps to another member.
constexpr absl::Duration kWriteTimeout = absl::Seconds(1);
// Of a question while nobody waits for this server yet.
constexpr absl::Duration kReadTimeout = absl::Seconds(10);
constexpr absl::Duration kResignTimeout = absl::Seconds(1);
// After what had no answer, when that came quickly.
constexpr absl::Duration kPause = absl::Milliseconds(20);
// A server that stands by asks so often what the leader has written.
constexpr absl::Duration kFollowInterval = absl::Milliseconds(100);
// Of a leader's address.
constexpr size_t kAddressBytesMax = 320;
// While etcd does not answer, that is said so often.
constexpr absl::Duration kSayInterval = absl::Seconds(30);

// Whoever can write to etcd can write anything there.
std::string AddressOf(const KeyValue& leader) { return leader.value.substr(0, kAddressBytesMax); }

}  // namespace

// The thread that writes.
class EtcdJournal::Writer {
 public:
  Writer(EtcdJournal& journal, Durable durable, Failed failed)
      : journal_(journal), failed_(std::move(failed)), durable_(std::move(durable)) {
    const runtime::AllSignalsBlocked blocked;
    thread_ = std::thread([this] { Run(); });
  }
  // Once the queue was closed.
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  ~Writer() { Join(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

 private:
  void Run() {
    LogWriter log(*journal_.log_, journal_.queue_, journal_.options_.row_bytes_max,
                  {.send = [this](const Transaction& transaction) { return Send(transaction); },
                   .durable = [this](uint64_t through) { durable_(through); }});
    Revision compacted = journal_.log_->log().snapshot_set;
    while (true) {
      journal::JournalQueue::Work work = journal_.queue_.Take(!log.has_work_beside());
      const bool closing = work.closing;
      absl::Status status = Check(work);
      if (status.ok() && !work.queued.empty()) status = log.Write(std::move(work));
      if (status.ok() && log.has_work_beside() && !closing) status = log.WorkBeside();
      if (!status.ok()) return Fail(std::move(status));
      if (closing) return;
      // What a snapshot of ours has replaced is deleted.
      const Revision snapshot = journal_.log_->log().snapshot_set;
      if (!log.has_work_beside() && std::exchange(compacted, snapshot) != snapshot) Compact();
    }
  }

  absl::Status Check(const journal::JournalQueue::Work& work) const {
    if (!work.broken.ok()) return work.broken;
    const size_t most = journal_.options_.queued_bytes_max;
    if (journal_.queue_.bytes() <= most) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrFormat(
        "etcd cannot keep up: more than %d bytes are queued for it (queued_bytes_max)", most));
  }

  absl::StatusOr<TransactionResult> Send(const Transaction& transaction) {
    while (true) {
      const Time begun = runtime::MonotonicNow();
      auto answer = journal_.client_.Commit(transaction, kWriteTimeout);
      if (answer.ok() || !IsUndecided(answer.status())) return answer;
      if (absl::Status status = journal_.leadership_->Check(); !status.ok()) return status;
      if (runtime::MonotonicNow() - begun < kPause) absl::SleepFor(kPause);
    }
  }

  // Etcd may take its time, so rows do not wait for it. What fails comes again with the next
  // snapshot.
  void Compact() {
    if (!journal_.options_.compacts) return;
    compactor_.Push([this, revision = journal_.log_->revision()] {
      const absl::Status status = journal_.client_.Compact(revision, kReadTimeout);
      if (status.ok() || absl::IsOutOfRange(status) || absl::IsCancelled(status)) return;
      journal_.Warn(absl::StrCat("cannot compact etcd: ", std::string(status.message())));
    });
  }

  void Fail(absl::Status reason) {
    const std::string why(reason.message());
    if (absl::IsFailedPrecondition(reason)) {
      reason = absl::AbortedError(why);
    } else {
      reason = absl::Status(
          absl::IsResourceExhausted(reason) ? reason.code() : absl::StatusCode::kInternal,
          absl::StrCat("cannot write the journal, so the server answers nothing more: ", why));
    }
    journal_.queue_.Fail(reason);
    failed_(std::move(reason));
  }

  EtcdJournal& journal_;
  Failed failed_;
  Durable durable_;
  runtime::WorkThread compactor_;  // outlives the thread that gives it work
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<EtcdJournal>> EtcdJournal::Open(EtcdOptions options) {
  std::unique_ptr<EtcdJournal> journal(new EtcdJournal(std::move(options)));
  absl::Status status = journal->CheckVersions();
  if (status.ok() && journal->options_.make_state) status = journal->MakeState();
  if (status.ok()) status = journal->Campaign();
  if (!status.ok()) return status;
  return journal;
}

EtcdJournal::EtcdJournal(EtcdOptions options)
    : options_(std::move(options)),
      layout_(options_.location.prefix),
      client_(options_.location, options_.access),
      queue_(journal::SnapshotPolicy(options_.snapshot_bytes_min, options_.snapshot_factor)) {}

EtcdJournal::~EtcdJournal() { Close().IgnoreError(); }

void EtcdJournal::Warn(std::string text) const {
  if (options_.say) options_.say(true, std::move(text));
}

void EtcdJournal::Say(std::string text) const {
  if (options_.say) options_.say(false, std::move(text));
}

// For as long as it takes: nothing is served meanwhile.
absl::StatusOr<TransactionResult> EtcdJournal::Ask(const Transaction& transaction) {
  Time say_at;
  while (true) {
    auto answer = client_.Commit(transaction, kReadTimeout);
    if (answer.ok() || !IsUndecided(answer.status())) return answer;
    if (leadership_ != nullptr) {
      if (absl::Status status = leadership_->Check(); !status.ok()) return status;
    }
    if (const Time now = runtime::MonotonicNow(); now >= say_at) {
      Warn(absl::StrCat(std::string(answer.status().message()), "; trying again"));
      say_at = now + kSayInterval;
    }
    absl::SleepFor(kPause);
  }
}

absl::Status EtcdJournal::CheckVersions() {
  if (options_.any_version) return absl::OkStatus();
  const std::vector<absl::StatusOr<MemberStatus>> members = client_.StatusOfMembers(kWriteTimeout);
  for (size_t i = 0; i < members.size(); ++i) {
    if (!members[i].ok()) continue;  // it may be down; its turn comes
    const std::string why = WhyNot(members[i]->version);
    if (why.empty()) continue;
    return absl::FailedPreconditionError(absl::StrCat("etcd at ", client_.endpoints()[i], ": ", why,
                                                      "; --etcd-any-version uses it all the same"));
  }
  return absl::OkStatus();
}

absl::Status EtcdJournal::MakeState() {
  const std::string id =
      absl::StrFormat("%016x%016x", runtime::RandomNumber(), runtime::RandomNumber());
  const Transaction transaction = {
      .compare = {{.what = Compare::What::kCreated, .key = layout_.lineage(), .revision = 0}},
      .then = {Put{.key = layout_.lineage(), .value = Encode({.id = id})}}};
  return Ask(transaction).status();
}

absl::Status EtcdJournal::Campaign() {
  // A state that is not there is not waited for.
  StateReader reader(layout_);
  const auto ask = [this](const Transaction& transaction) { return Ask(transaction); };
  absl::Status status = reader.ReadHead(ask);
  if (absl::IsNotFound(status)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "etcd has no state at ", layout_.prefix(),
        ". If this is a new one, start one server once with --new-state. If there was one, etcd "
        "has lost it: restore etcd from a backup"));
  }
  if (!status.ok()) return status;
  leadership_ = std::make_unique<Leadership>(
      client_,
      Election::Options{.layout = layout_,
                        .identity = options_.identity,
                        .first_lease = static_cast<int64_t>(runtime::RandomNumber() >> 2 | 1),
                        .ttl = options_.ttl},
      Leadership::Callbacks{.lost = [this](absl::Status why) { queue_.Break(std::move(why)); },
                            .trouble =
                                [this](std::string why) {
                                  why.empty() ? Say("etcd answers again")
                                              : Warn(absl::StrCat("etcd is in trouble: ", why));
                                }});
  probe_ = std::make_unique<LeaderProbe>([this, said = Revision{0}](Revision leader) mutable {
    if (std::exchange(said, leader) != leader) {
      Say("the leader's process has gone; its host refuses connections to it");
    }
    leadership_->Died(leader);
  });
  return absl::OkStatus();
}

std::string EtcdJournal::leader() const {
  if (leadership_ == nullptr) return "";
  const auto leader = leadership_->view().leader;
  return leader ? AddressOf(*leader) : "";
}

absl::Status EtcdJournal::StandBy(StateReader& reader,
                                  absl::FunctionRef<absl::Status(std::string_view entry)> apply) {
  const auto ask = [this](const Transaction& transaction) { return Ask(transaction); };
  Revision said = 0;
  std::function<absl::Status()> stands_by = options_.stands_by;
  while (true) {
    const absl::Status status = leadership_->AwaitLead(kFollowInterval);
    if (!absl::IsDeadlineExceeded(status)) return status;
    const auto leader = leadership_->view().leader;
    if (stands_by) {
      if (absl::Status begun = std::exchange(stands_by, nullptr)(); !begun.ok()) return begun;
    }
    if (leader && leader->modified != said) {
      Say(absl::StrCat("standing by: the server at ", AddressOf(*leader), " leads"));
      said = leader->modified;
    }
    probe_->Watch(leader ? AddressOf(*leader) : "", leader ? leader->modified : 0);
    if (absl::Status read = reader.Follow(ask, apply); !read.ok()) return read;
  }
}

absl::StatusOr<journal::Replayed> EtcdJournal::Replay(
    absl::FunctionRef<absl::Status(std::string_view entry)> apply) {
  StateReader reader(layout_);
  const auto ask = [this](const Transaction& transaction) { return Ask(transaction); };
  absl::Status status = reader.Read(ask, apply);
  if (status.ok()) status = StandBy(reader, apply);
  probe_->Watch("", 0);
  // Nobody else writes since this server leads.
  if (status.ok()) status = reader.Follow(ask, apply);
  if (!status.ok()) return Anew(status);
  log_ = std::make_unique<FencedLog>(layout_, leadership_->view().epoch, reader.log());
  queue_.Found(reader.log().row_bytes, reader.log().snapshot_bytes);
  Say(absl::StrCat("this server leads, with epoch ", log_->epoch()));
  return reader.replayed();
}

absl::Status EtcdJournal::ReadAgain(absl::FunctionRef<absl::Status(std::string_view entry)> apply) {
  StateReader reader(layout_);
  return Anew(
      reader.Read([this](const Transaction& transaction) { return Ask(transaction); }, apply));
}

// What another try may mend: etcd has forgotten what was being read, or another server leads.
absl::Status EtcdJournal::Anew(const absl::Status& status) const {
  if (absl::IsOutOfRange(status)) return absl::AbortedError(status.message());
  const absl::Status why = leadership_->Check();
  return why.ok() ? status : absl::AbortedError(why.message());
}

absl::Status EtcdJournal::Start(Durable durable, Failed failed) {
  LOCKSTEP_CHECK(log_ != nullptr && writer_ == nullptr);
  writer_ = std::make_unique<Writer>(*this, std::move(durable), std::move(failed));
  return absl::OkStatus();
}

uint64_t EtcdJournal::Append(std::string entry) {
  absl::Status sealed = journal::SealEntry(entry);
  std::vector<std::string> rows;
  rows.push_back(std::move(entry));
  return queue_.Append(std::move(rows), std::move(sealed));
}

uint64_t EtcdJournal::AppendTogether(std::vector<std::string> entries) {
  absl::Status sealed;
  for (std::string& entry : entries) sealed.Update(journal::SealEntry(entry));
  return queue_.Append(std::move(entries), std::move(sealed));
}

absl::Status EtcdJournal::Close() {
  if (writer_ != nullptr) {
    queue_.Close();
    writer_->Join();
  }
  probe_.reset();
  if (leadership_ != nullptr) {
    leadership_->Resign(kResignTimeout);
    leadership_.reset();
  }
  return queue_.failure();
}

}  // namespace lockstep::etcd
