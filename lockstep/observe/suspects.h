// Whom `lockstep why` names: rules over the status of a job, and over where its processes are in
// their code. They name nobody when nothing tells. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

// From when on somebody who waits is taken to wait in vain: `suspect_patience`. What is younger is
// the ordinary course of a training.
inline constexpr int64_t kSuspectPatienceUs = 2'000'000;

// Of failures and time-outs that are as close together one is the other's cause:
// `suspect_cause_window`.
inline constexpr int64_t kSuspectCauseWindowUs = 60'000'000;

// Where a process is in its code, as its launcher told.
struct ProcessLocation {
  enum class Doing { kWaits, kRuns, kStopped, kEnded };

  int32_t member = 0;
  std::string name;  // "task/2"
  std::string host;
  int64_t pid = 0;
  Doing doing = Doing::kWaits;
  // Its stack says that it waits for other processes.
  bool for_others = false;
  std::string place;  // "load, loader.py:31": those at one place have the same
  std::string one;    // what is said of one that is there: "runs load, loader.py:31"
  std::string many;   // of several: "run load, loader.py:31"
  // For so long its main thread has not run; absent: not known.
  std::optional<int64_t> still_us;

  friend bool operator==(const ProcessLocation&, const ProcessLocation&) = default;
};

// All processes that somebody told of, at about one moment.
struct StackSnapshot {
  std::vector<ProcessLocation> processes;
  // Taken by itself when this happened: "barrier 'x' timed out"; empty: just now.
  std::string because;
  int64_t ago_us = 0;
  std::vector<int32_t> awaited;  // whom others waited for then, when that is known
  // Of whom no launcher told, though one had said that their processes run.
  std::vector<int32_t> silent;
};

struct Suspect {
  int32_t member = 0;
  std::string name;
  std::string host;
  int64_t pid = 0;  // 0: not known
  std::optional<int64_t> since_ago_us;
  std::string evidence;
  std::string stack_place;  // "runs load, loader.py:31"; empty: nobody told

  friend bool operator==(const Suspect&, const Suspect&) = default;
};

// Who is most likely the reason that the job does not go on. The first of these that tells: whose
// process failed or was stopped first, or whom the first error is about, but who was awaited then,
// or had ended, when others failed by that; whom others wait for at torch's store and at barriers;
// who was never started; who is not where the others wait in their code. `snapshots`: the newest
// first; two of one moment count only as far as they agree.
std::vector<Suspect> FindSuspects(const wire::native::JobStatus& job,
                                  const std::vector<StackSnapshot>& snapshots);

// "task/2 (pid 17 on host-b), for 41s: runs load, loader.py:31, while 3 of 4 wait in ...".
std::string SuspectText(const Suspect& suspect);

// "3 of 4 waited in all_reduce, train.py:88; task/2 (pid 17 on host-b) runs load, loader.py:31".
std::string SnapshotText(const StackSnapshot& snapshot);

}  // namespace lockstep::observe
