#include "lockstep/coord/preemption.h"

#include "lockstep/base/check.h"

namespace lockstep::coord {

absl::string_view PreemptionPhaseName(PreemptionPhase phase) {
  switch (phase) {
    case PreemptionPhase::kNone:
      return "none";
    case PreemptionPhase::kPending:
      return "pending";
    case PreemptionPhase::kHolding:
      return "holding";
    case PreemptionPhase::kAgreed:
      return "agreed";
    case PreemptionPhase::kEnded:
      return "ended";
  }
  LOCKSTEP_CHECK(false);
}

absl::string_view PreemptionOutcomeName(PreemptionOutcome outcome) {
  switch (outcome) {
    case PreemptionOutcome::kNone:
      return "none";
    case PreemptionOutcome::kSaved:
      return "saved";
    case PreemptionOutcome::kSynced:
      return "synced";
    case PreemptionOutcome::kPartlySaved:
      return "partly_saved";
    case PreemptionOutcome::kNotSaved:
      return "not_saved";
    case PreemptionOutcome::kCannotSaveInTime:
      return "cannot_save_in_time";
    case PreemptionOutcome::kNoCommonStep:
      return "no_common_step";
    case PreemptionOutcome::kFinished:
      return "finished";
    case PreemptionOutcome::kCancelled:
      return "cancelled";
    case PreemptionOutcome::kNobodyAnswered:
      return "nobody_answered";
  }
  LOCKSTEP_CHECK(false);
}

absl::string_view SyncStateName(SyncState state) {
  switch (state) {
    case SyncState::kAsked:
      return "asked";
    case SyncState::kSilent:
      return "silent";
    case SyncState::kUnstarted:
      return "unstarted";
    case SyncState::kHeld:
      return "held";
    case SyncState::kPassed:
      return "passed";
    case SyncState::kReached:
      return "reached";
    case SyncState::kSaved:
      return "saved";
    case SyncState::kFailed:
      return "failed";
    case SyncState::kFinished:
      return "finished";
    case SyncState::kGone:
      return "gone";
    case SyncState::kLate:
      return "late";
  }
  LOCKSTEP_CHECK(false);
}

}  // namespace lockstep::coord
