// What was heard of a member, and how long it may be silent by that. Pure.
#pragma once

#include <array>
#include <optional>

#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::coord {

// Of what a member may be silent for before it is lost; stock clients send a heartbeat every half
// of their own time-out, so that by then one is overdue.
inline constexpr double kSilentIsSuspect = 0.6;

// A stock client's time-out is not on the wire, and sets the period of its heartbeats: from 0.5 s
// up. As long as its error poll stands, it may be silent for so many periods as were seen of it...
inline constexpr double kSilentPeriods = 2.5;
// ...the longest of the last so many, since one may be cut by a retry, or stretched by a pause...
inline constexpr int kPeriodsKept = 3;
// ...taken for this before the first (of a client with a time-out of 20 minutes)...
inline constexpr absl::Duration kUnseenPeriod = absl::Minutes(10);
// ...and for no more than this, so that nobody earns itself a life without heartbeats.
inline constexpr absl::Duration kPeriodMax = absl::Hours(1);
// What follows another within this is the same heartbeat, sent again.
inline constexpr absl::Duration kHeartbeatAgain = absl::Milliseconds(400);

// The periods between the heartbeats of one life of a stock member.
class Heartbeats {
 public:
  // The member began to send them then, the first after a period. Absent: the first tells nothing.
  explicit Heartbeats(std::optional<Time> since = std::nullopt) : last_(since) {}

  void Note(Time now);
  // The period that it has; none seen yet: kUnseenPeriod.
  bool seen() const { return seen_; }
  absl::Duration period() const;

 private:
  std::optional<Time> last_;
  std::array<absl::Duration, kPeriodsKept> periods_;  // zero where there is none yet
  int next_ = 0;
  bool seen_ = false;
};

// The signs of life of one member. A native member and one without a poll may be silent for the
// `usual` time, heartbeat_timeout; a stock member whose poll stands for as long as its heartbeats
// say, if that is longer. A poll is a sign of life as long as it stands.
class SignsOfLife {
 public:
  // The member calls in, maybe in another kind of session than before.
  void Begin(Time now, bool native);
  // The member is in: its heartbeats begin.
  void Connected(Time now);
  // The member is not in any more.
  void Disconnected() { polls_ = false; }
  // The server was restarted: nothing is known of the periods of before.
  void ServerRestarted(Time now);

  void Heard(Time now) { last_heard_ = now; }
  // A heartbeat of the member's own.
  void HeardHeartbeat(Time now);
  // The member's error poll stands, or does not any more.
  void SetPolls(Time now, bool polls);

  bool native() const { return native_; }
  Time last_heard() const { return last_heard_; }
  // For how long the member may be silent.
  absl::Duration Patience(absl::Duration usual) const;
  // When the member is suspect, and when it is lost, if nothing more is heard of it.
  Time SuspectAt(absl::Duration usual) const;
  Time LostAt(absl::Duration usual) const { return SilentSince() + Patience(usual); }

 private:
  Time SilentSince() const;

  bool native_ = false;
  Time last_heard_;
  bool polls_ = false;  // its error poll stands
  Time polled_;         // its poll stood until then
  Heartbeats heartbeats_;
};

}  // namespace lockstep::coord
