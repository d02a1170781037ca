// The members in a preemption: what each has said, and what follows from that. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/preemption.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// Nothing more is expected of a member in such a state.
bool IsFinal(SyncState state);

// Which members can be asked for steps. It outlives the preemptions of an attempt.
//
// Threads: thread-compatible. Bounds: one entry a member.
class SyncListeners {
 public:
  // The member watches, with a new part of its program when `begins`: a watch that goes on may come
  // behind the word that its program has finished. Returns whether it listens then.
  bool Watches(MemberIndex member, bool begins) {
    if (begins) done_.erase(member);
    if (done_.contains(member)) return false;
    listening_.insert(member);
    return true;
  }
  // It finished, or asks to leave.
  void Finished(MemberIndex member) {
    listening_.erase(member);
    done_.insert(member);
  }
  void Gone(MemberIndex member) {
    listening_.erase(member);
    done_.erase(member);
  }

  bool Listens(MemberIndex member) const { return listening_.contains(member); }
  bool IsDone(MemberIndex member) const { return done_.contains(member); }
  bool empty() const { return listening_.empty(); }

 private:
  absl::flat_hash_set<MemberIndex> listening_;  // watch, or did and will again
  absl::flat_hash_set<MemberIndex> done_;       // not asked for steps
};

// The members of the current preemption. It decides which step they can all save at, and what the
// outcome is; it knows no phase and asks nobody.
//
// Invariants: (1) every change of what people are shown is in a record.
//
// Threads: thread-compatible. Bounds: one entry a member.
class SyncMembers {
 public:
  struct Entry {
    SyncState state = SyncState::kAsked;
    std::optional<int64_t> step;
    std::string text;
    bool left = false;  // in kReached: it left as it should, and will not say that it saved
    int64_t stride = 1;
    std::optional<int64_t> last_step;
    absl::Duration step_time;
    absl::Duration save_time;
  };
  // How a preemption ends.
  struct Ending {
    PreemptionOutcome outcome = PreemptionOutcome::kNone;
    std::string text;
  };

  // `job` must outlive it.
  explicit SyncMembers(const JobRecord& job) : job_(job) {}

  // Null when the member is not in it. Valid until the member changes.
  const Entry* Find(MemberIndex member) const;
  void Set(MemberIndex member, Entry entry, Effects& out);
  void Clear() { members_.clear(); }
  bool empty() const { return members_.empty(); }
  size_t size() const { return members_.size(); }
  std::vector<MemberIndex> In(SyncState state) const;
  // In the order of their indices.
  std::vector<SyncMember> View() const;

  // Whether some have not answered yet; `all`: those without a first step count as well.
  bool AwaitsAnswers(bool all) const;
  // Whether some may still come to the sync step, or are there and may say that they saved.
  bool AwaitsSaves() const;
  // Whether there are any, and nothing more is expected of them.
  bool AllFinal() const;
  // The highest step that a member offered.
  std::optional<int64_t> HighestOffer() const;

  // The step at which all who offered one can save before they die, or why there is none. Some
  // have offered one.
  std::variant<int64_t, Ending> Decide(Time now, Time death) const;
  // What came of it, from what each member did. `why`: it ends before all are done; may be empty.
  // `apart`: who took no part.
  Ending SumUp(std::optional<int64_t> sync_step, absl::string_view why,
               const std::vector<MemberIndex>& apart) const;

  // INVALID_ARGUMENT: the member is not of the job.
  absl::Status Apply(const record::SyncMemberChanged& record);
  void Snapshot(std::vector<TimedRecord>& out) const;

 private:
  // Nothing when the members can save at that step before they die; otherwise who cannot, and why.
  std::optional<std::string> TooLate(absl::Duration left, int64_t step) const;
  PreemptionOutcome OutcomeOf(bool agreed) const;

  const JobRecord& job_;
  std::map<MemberIndex, Entry> members_;
};

}  // namespace lockstep::coord
