// The notices of preemptions: which ones are new, and what each does to the state. Pure.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/preemption.h"

namespace lockstep::coord {

// "preemption 2": how texts call it.
std::string NameOfPreemption(const PreemptionState& state);
// Who will die by its notices: names, or "everybody".
std::string NameSubjects(const JobRecord& job, const PreemptionState& state);

// What a notice changes, and what people are told of it.
struct NoticeChange {
  PreemptionState next;
  Severity severity = Severity::kInfo;
  std::string told;
  bool cancels = false;  // nobody dies, and there is no sync step yet: the preemption ends
};

// Several sources tell of the same death: a notice that was seen, or tells of what the last
// preemption was about, opens nothing anew. It keeps only what it needs for that; the notices
// themselves are in the state.
//
// Threads: thread-compatible. Bounds: preempt_notices_max open notices, label_bytes_max a text;
// kRecentEvents are remembered.
class PreemptionNotices {
 public:
  // As many notices of ended preemptions are told from new ones.
  static constexpr size_t kRecentEvents = 256;

  // `job` must outlive it.
  explicit PreemptionNotices(const JobRecord& job) : job_(job) {}

  // Null when the request is lawful in this state. RESOURCE_EXHAUSTED (limit_exceeded): a text is
  // too long, or there are too many notices. INVALID_ARGUMENT (invalid_argument): it does not say
  // its source; (unknown_member): a subject is not of the job. NOT_FOUND (no_preemption): there is
  // none to extend or to withdraw. PERMISSION_DENIED (not_permitted): a task speaks of others than
  // itself and the members on its host, or as an operator.
  ErrorPtr Check(const NotifyPreemption& request, const PreemptionState& state) const;

  // The request as a notice; nothing when it says what is known, or what is over.
  std::optional<PreemptionNotice> Note(Time now, const NotifyPreemption& request,
                                       const PreemptionState& state);

  // `next` is a copy of the state with the next version. The first notice of a preemption, and one
  // more of it.
  NoticeChange Begin(Time now, PreemptionState next, PreemptionNotice notice) const;
  NoticeChange Add(PreemptionState next, PreemptionNotice notice) const;
  // Nothing when no notice is concerned, or none changes.
  std::optional<NoticeChange> Extend(Time now, PreemptionState next,
                                     const NotifyPreemption& request) const;
  std::optional<NoticeChange> Withdraw(PreemptionState next, const NotifyPreemption& request);

  // A state from a record: its notices have been seen.
  void Restore(const PreemptionState& state);

 private:
  // Null when the task may speak of all whom the request concerns.
  ErrorPtr CheckTask(const NotifyPreemption& request, const PreemptionState& state) const;
  void Remember(std::string event);
  bool Seen(const std::string& event) const;
  NoticeChange Changed(PreemptionState next, Severity severity, const std::string& what) const;

  const JobRecord& job_;
  std::deque<std::string> recent_;  // events of the last notices, of ended preemptions too
};

}  // namespace lockstep::coord
