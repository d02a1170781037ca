// Saving at one step before hosts die. Public.
//
//   auto preemption = lockstep::Preemption::Open(*me);
//   for (int64_t step = 0; step < steps; ++step) {
//     Train(step);
//     if (preemption->Reached(step)) {
//       preemption->Saved(step, Save(step));
//       if (!preemption->notice().withdrawn) break;
//     }
//   }
//
// Somebody learns that a host will die (a signal, the cloud, `lockstep preempt`) and tells the
// server, which picks one step that all members can still reach. `Reached` is true for that step at
// each of them, and for no other. Until there is a notice it costs a few nanoseconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/client/call.h"

namespace lockstep {

class Member;

struct PreemptionOptions {
  // Steps between two polls: 10 when every tenth step is polled. 0: learnt from what is polled.
  int64_t stride = 0;
  // The last step that will be polled, when that is known: who could be asked to save behind it is
  // told to finish instead.
  std::optional<int64_t> last_step;
  // How long a save takes. Zero: learnt from the one before.
  absl::Duration save_estimate;
  // How long `Reached` waits at most for a sync step while the server is away.
  absl::Duration wait_max = absl::Seconds(30);
};

// What is known of the current preemption, or of the last one.
struct PreemptionNotice {
  int64_t id = 0;                      // from 1 up in each attempt; 0: there was none
  bool open = false;                   // it has not ended
  std::string phase;                   // "none", "pending", "holding", "agreed", "ended"
  std::string outcome;                 // "none" until it ended: docs/preemption.md
  std::string text;                    // of the outcome, for people
  std::optional<int64_t> step;         // the sync step, once it is known
  bool withdrawn = false;              // nobody dies after all; save, and go on
  std::vector<std::string> sources;    // who said so: "gce", "signal", "operator"
  std::vector<int32_t> subjects;       // who dies, by member; empty: everybody
  bool concerns_me = false;            // this member dies
  std::optional<absl::Duration> left;  // until the first of them dies; as of this call
  int64_t attempt = 0;                 // of the job, which `id` counts in
};

// A member's view of the preemptions of its job, from `Open` until it is destroyed.
//
// Threads: thread-safe; any number may poll. Ownership: independent of the Member's lifetime; when
// that is gone, nothing is reached any more.
class Preemption {
 public:
  // One of each member at a time.
  static std::unique_ptr<Preemption> Open(Member& member, PreemptionOptions options = {});
  // As `Finish`.
  ~Preemption();
  Preemption(const Preemption&) = delete;
  Preemption& operator=(const Preemption&) = delete;

  // Whether to save at this step, which is done. True at the first poll at or after the sync step,
  // once in each preemption, and again when asked again for that step. Steps count up; an older one
  // than before is answered, and forgotten. Waits only while the members agree, for some network
  // round trips.
  bool Reached(int64_t step) { return Reached(step, nullptr); }
  // The same; a wait is ended, with false, when `interrupted` is not OK.
  bool Reached(int64_t step, const Interrupted& interrupted) {
    return !Passes(step) && ReachedSlowly(step, interrupted);
  }
  // The part of `Reached` that never waits: true when its answer is false for sure. For those who
  // have to let go of something (Python's lock) before they wait.
  bool Passes(int64_t step) {
    int64_t newest = shared_->step.load(std::memory_order_relaxed);
    while (newest < step &&
           !shared_->step.compare_exchange_weak(newest, step, std::memory_order_seq_cst)) {
    }
    return step < shared_->hold.load(std::memory_order_seq_cst);
  }

  // This member has saved at that step; `path` says where, for people and for those who resume.
  void Saved(int64_t step, std::string path = {});
  // Instead of `Saved`: this member has no checkpoint of that step, and `why` is for people.
  void FailedToSave(int64_t step, std::string why);
  // No step will be polled any more: the others do not wait for this member. Nothing is reached
  // after it.
  void Finish();

  // The newest that this member knows of; never asks the server.
  PreemptionNotice notice() const;
  // Called on a thread of the library with every change of the notice. Replaces the one before.
  void OnNotice(std::function<void(const PreemptionNotice&)> callback);

  // Gives a notice in the name of `source`: this member dies in `left` (absent: soon). `event` is
  // the source's own name of it; said again, it is the same notice.
  absl::Status Notify(std::string_view source, std::string event,
                      std::optional<absl::Duration> left, std::string text = {},
                      CallOptions options = {});
  // The notice of that source and event holds no more. Errors as of `Notify`.
  absl::Status Withdraw(std::string_view source, std::string event, CallOptions options = {});

 private:
  // What pollers touch; alone in its cache line.
  struct alignas(64) Shared {
    std::atomic<int64_t> step = -1;
    std::atomic<int64_t> hold;
  };
  class Impl;
  explicit Preemption(std::shared_ptr<Impl> impl);
  bool ReachedSlowly(int64_t step, const Interrupted& interrupted);

  std::shared_ptr<Impl> impl_;
  Shared* const shared_;
};

}  // namespace lockstep
