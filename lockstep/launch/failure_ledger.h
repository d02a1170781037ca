// The first failure of an attempt: what is said of it, and whose it is. Pure.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/launch/ask_once.h"
#include "lockstep/launch/process_table.h"
#include "lockstep/launch/supervisor_events.h"

namespace lockstep::launch {

// Only the first failure counts: the others mostly follow from it. Where several processes failed,
// the first to end need not be the first to fail, since others may be quicker to end over an error
// than the one who had it; so the coordinator is asked.
//
// Invariants: a culprit is known only of a failure. Threads: thread-compatible.
class FailureLedger {
 public:
  // A process of ours; or what came first where that was none, for people; or not known, as of a
  // start that failed or of processes that were told to end.
  using Culprit = std::variant<std::monostate, MemberIndex, std::string>;
  struct Failure {
    int exit_code = 1;            // that it gives the attempt
    std::optional<Time> at = {};  // absent: it was known before anything ran, or comes last
    std::string text = {};        // the sentence on it
    Culprit culprit = {};
  };

  // False: it was not the first, and is ignored.
  bool Note(Failure failure);
  // It counts instead of what was noted, if anything was.
  void Replace(Failure failure) { first_ = std::move(failure); }

  bool any() const { return first_.has_value(); }
  // Nothing where there was no failure, as the next four.
  std::optional<int> exit_code() const;
  // The process that is the culprit. Nothing also where it is none of ours.
  std::optional<MemberIndex> member() const;
  // What came first where that was no process of ours. Empty also where it was one.
  std::string cause() const;
  std::string text() const { return first_ ? first_->text : ""; }
  // How it reads without who and when: to compare it with others.
  std::string Comparable(const ProcessTable& processes) const;
  // True also of a failure without a time.
  bool HappenedBefore(Time time) const;

  // The process whose failure it is has ended, with an exit code of its own.
  void SetExitCode(int exit_code) { first_->exit_code = exit_code; }
  // Another node is the cause, and ours failed by that.
  void BlameOthers(std::string cause) { first_->culprit = std::move(cause); }

  // Whether the coordinator's word on whose failure came first is waited for; sets `ask` once. It
  // is asked where there is a choice, or where its word decides (`decides`) on another attempt.
  bool AwaitsRootCause(Time now, const ProcessTable& processes, bool decides,
                       absl::Duration timeout, bool& ask);
  // A process counts that failed by itself, or left while the others still needed it.
  void TakeRootCause(const RootCauseTold& told, const ProcessTable& processes);
  Time deadline() const { return root_cause_.deadline(); }
  // Nobody had come into the job's attempt, as the coordinator says.
  bool nobody_joined() const { return joined_ == false; }

 private:
  std::optional<Failure> first_;
  AskOnce root_cause_;
  std::optional<bool> joined_;
};

}  // namespace lockstep::launch
