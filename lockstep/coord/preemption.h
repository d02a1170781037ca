// A preemption as others are told of it: plain values. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"

namespace lockstep::coord {

// Where a preemption is between its first notice and its outcome.
enum class PreemptionPhase {
  kNone,     // there was none yet in this attempt
  kPending,  // those who die do so later than `preempt_window` from now
  kHolding,  // members are asked for the first step at which they can still act, and stop there
  kAgreed,   // the sync step is known
  kEnded,    // by its outcome; the next may open
};
absl::string_view PreemptionPhaseName(PreemptionPhase phase);

enum class PreemptionOutcome {
  kNone,              // it has not ended
  kSaved,             // everybody has said that it saved
  kSynced,            // everybody reached the sync step, but not all said that they saved
  kPartlySaved,       // some saved
  kNotSaved,          // nobody did
  kCannotSaveInTime,  // even the lowest step that all can reach is too late
  kNoCommonStep,      // strides that never meet
  kFinished,          // the work is over before a step that all can reach
  kCancelled,         // the notices were withdrawn before there was a sync step
  kNobodyAnswered,    // no member that listens has a step to offer
};
absl::string_view PreemptionOutcomeName(PreemptionOutcome outcome);

// What became of a member in the current preemption.
enum class SyncState {
  kAsked,      // has not answered yet
  kSilent,     // did not within preempt_sync_timeout: not waited for any longer
  kUnstarted,  // has not reported a first step
  kHeld,       // said from which step on it can act, and does not go beyond it unasked
  kPassed,     // was beyond the sync step when it learnt of it
  kReached,    // is at the sync step
  kSaved,
  kFailed,    // to save
  kFinished,  // will not reach the sync step: its work is done
  kGone,      // left or was lost
  kLate,      // came when the sync step was known already, and has not answered yet
};
absl::string_view SyncStateName(SyncState state);

// Somebody said that members will die.
struct PreemptionNotice {
  std::string source;                 // "gce", "signal", "operator": how it was learnt
  std::string event;                  // the source's own name of it; the same is the same notice
  std::vector<MemberIndex> subjects;  // who will die; empty: everybody
  Time death = Time::Infinite();      // when; infinite: it does not say
  std::string text;                   // for people
};

// What every member and every tool is told, the same to all.
struct PreemptionState {
  int64_t version = 0;  // goes up with every change of what follows
  int64_t attempt = 0;  // of the job
  int64_t id = 0;       // of the preemption in its attempt, from 1 up; 0: there was none
  PreemptionPhase phase = PreemptionPhase::kNone;
  // Who is asked again, after a restart of the server, is asked with another round.
  int64_t round = 0;
  // From kAgreed on, when there is one.
  std::optional<int64_t> sync_step;
  // The notices were withdrawn after the sync step was known: it is saved at, and nobody dies.
  bool withdrawn = false;
  PreemptionOutcome outcome = PreemptionOutcome::kNone;
  std::string text;  // of the outcome: one sentence
  std::vector<PreemptionNotice> notices;
  // The earliest that a notice gives; infinite: none gives one.
  Time death = Time::Infinite();
  Time since;  // when the phase began
};

// Whether there is one, and it has not ended.
inline bool IsOpen(const PreemptionState& state) {
  return state.phase != PreemptionPhase::kNone && state.phase != PreemptionPhase::kEnded;
}

// One member in the current preemption.
struct SyncMember {
  MemberIndex member;
  SyncState state = SyncState::kAsked;
  std::optional<int64_t> step;  // it offered, reached or saved
  std::string text;             // where it saved, or why it did not
};

}  // namespace lockstep::coord
