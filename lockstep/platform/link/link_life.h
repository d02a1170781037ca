// When one end of a link speaks, waits and gives up. Pure.
#pragma once

#include "absl/status/status.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/link/options.h"

namespace lockstep::link {

// The states of one end, and its deadlines. It is asked at `NextDue` what has come due; what to do
// then is the caller's business.
//
//   kGreeting --Open--> kOpen --BeginClosing--> kClosing --End--> kClosed
//
// A step may be left out, and none is taken twice.
//
// Threads: thread-compatible. Bounds: LinkOptions, which outlive it; kClosing lasts a second.
class LinkLife {
 public:
  enum class State { kGreeting, kOpen, kClosing, kClosed };

  // `options` outlive it. It greets from `now` on, for `hello_timeout`.
  LinkLife(const LinkOptions& options, Time now);

  State state() const { return state_; }
  // Messages are taken and sent.
  bool converses() const { return state_ == State::kGreeting || state_ == State::kOpen; }
  // Why it ends; OK before kClosing.
  const absl::Status& why() const { return why_; }

  // The handshake is over: only of a link that greets.
  void Open(Time now);
  // The last message is on its way: only of a link that converses. `why` is not OK.
  void BeginClosing(Time now, absl::Status why);
  // Not of a link that is closed. A link that was closing keeps the reason of that.
  void End(absl::Status why);

  // Bytes came, whatever they say: the silence begins anew.
  void Heard(Time now) { last_heard_ = now; }
  // Bytes went out: a ping is not due before another `ping_interval`.
  void Sent(Time now) { last_sent_ = now; }
  // A write begins, from which `IsWriteLate` counts.
  void BeganWriting(Time now) { writing_since_ = now; }

  // When to look what has come due; infinite: nothing will.
  Time NextDue() const;

  // --- Of an open link ---

  // It looks at `now`, and meant to at `due`. An end that slept itself (stopped, swapped out) has
  // not listened, and cannot say who was silent: its deadlines begin anew.
  void Woke(Time now, Time due);
  // What is being written has not been taken for `write_timeout`.
  bool IsWriteLate(Time now) const { return now >= writing_since_ + options_.write_timeout; }
  // Unfinished messages are to be looked at: twice in a `message_timeout`. Says so once.
  bool TakeLook(Time now);
  // Nothing has been heard for `silence_timeout`: the link is to end.
  bool IsSilent(Time now) const { return now >= last_heard_ + options_.silence_timeout; }
  // Nothing was sent for `ping_interval`, by which the other end could tell that we are here.
  bool IsPingDue(Time now) const { return now >= last_sent_ + options_.ping_interval; }

 private:
  const LinkOptions& options_;
  State state_ = State::kGreeting;
  absl::Status why_;
  Time state_since_;
  Time last_heard_;
  Time last_sent_;
  Time writing_since_;  // of what is being written
  Time look_at_;        // when unfinished messages are looked at again
};

}  // namespace lockstep::link
