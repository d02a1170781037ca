// Whether the loss of the coordinator's server explains that a process fails. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/launch/exit_status.h"

namespace lockstep::launch {

// A server of our own ends and never comes back. The link to somebody else's breaks, and may be
// made again.
//
// Threads: thread-compatible.
class ServerLoss {
 public:
  // `explains`: what fails so soon after the loss follows from it. `survived`: who lives so long
  // after the server was found again does not die of its absence.
  ServerLoss(absl::Duration explains, absl::Duration survived)
      : explains_(explains), survived_(survived) {}

  // The server of this run, or what stands between it and the processes, has ended and will not
  // come back.
  void End(Time now, const std::string& what, const ExitStatus& ending);
  // Since it ended, others may take the place of the processes here. After `End`.
  void CutOff() { cut_off_ = true; }
  // The link broke. Means nothing once the server has ended, as the next.
  void Lose(Time now, const std::string& why);
  // There is a link again: to the same server, or to its successor.
  void Find(Time now);
  // Another attempt may find a server again whose link broke.
  void BeginAttempt();

  // A process fails now, and says `error` of itself (empty: nothing). What it says is its own
  // cause, unless it speaks of a connection: the server is blamed for no bug. A process that keeps
  // silent may have died of the server, until it has outlived that.
  bool Explains(Time now, std::string_view error) const;
  // Nothing can be started again without it.
  bool ended() const { return ended_; }
  // Nothing may go on here: others may have taken its place.
  bool cut_off() const { return cut_off_; }
  // How it was lost.
  const std::string& text() const { return text_; }

 private:
  struct Loss {
    Time at;
    std::optional<Time> found;  // again, since then
  };

  const absl::Duration explains_;
  const absl::Duration survived_;
  std::optional<Loss> loss_;
  bool ended_ = false;
  bool cut_off_ = false;
  std::string text_;
};

}  // namespace lockstep::launch
