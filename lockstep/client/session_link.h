// A session's way to its server: the session's id, the state of the link, and when to dial again.
// Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/client/session_call.h"
#include "lockstep/wire/native/coordination_messages.h"

namespace lockstep::client {

// "12s", "1.234s": seconds from ten seconds on, else milliseconds.
std::string WaitText(absl::Duration duration);

//   Down --RedialDue--> Dialing --Ready--> Opening --Opened--> Open
//     ^                    |                  |                  |
//     '--------------------'------Lost--------'------------------'
//   any --End--> Ended
//
// The first dial after a loss comes at once; the pauses between the next ones double, and half of
// each is drawn, so that the clients of a server that died do not come back together.
//
// Threads: thread-compatible. Bounds: none grows.
class SessionLink {
 public:
  struct Options {
    std::string server;    // HOST:PORT, for texts; of several: "h:1, i:2", or their file
    absl::Duration grace;  // from the loss of the server until it is given up
    absl::Duration backoff_first;
    absl::Duration backoff_last;
    uint64_t seed = 0;  // of the jitter
    // Of the ids, each half its own. Whoever knows the id of a session can speak for it, so in
    // production these are as many random bits as an id has.
    std::array<uint64_t, 2> id_seeds = {};
  };

  explicit SessionLink(Options options);

  // Under the id that it has now.
  bool opened_once() const { return opened_once_; }
  // Since when the server is out of reach; only when it was reached once, and is not now.
  Time down_since() const { return down_since_; }
  // Requests go over the link only now.
  bool open() const { return std::holds_alternative<Open>(state_); }
  // For good: it is not dialled again.
  bool ended() const { return std::holds_alternative<Ended>(state_); }
  // There is a link, or one is being dialled.
  bool up() const { return !ended() && !std::holds_alternative<Down>(state_); }
  // `request` asked to open the session, and has no answer yet.
  bool opens_with(RequestNumber request) const;
  // The server's answer to the opening; null unless the session is open.
  const std::string* opened() const;
  // OK until the session has ended.
  absl::Status why_ended() const;

  // The shell is to dial now, as after `Lost` and `RedialDue` when they return true.
  void Start(Time now);
  // The link is ready: what opens the session on it, under this number. The caller adds the job.
  wire::native::OpenSession Ready(RequestNumber request);
  // The server has opened the session, with this reply. Only while `opens_with` was true.
  void Opened(Time now, std::string reply);
  // The server has forgotten the session, and may be asked for a new one: the next opening has a
  // new id.
  void Renew();
  // False: `NextDeadline` says when to dial.
  bool Lost(Time now, const absl::Status& why);
  // From any state, for good; `why` is not OK.
  void End(absl::Status why);

  // True, once: the pause is over, and the shell is to dial now.
  bool RedialDue(Time now);
  // Whether a server that was never reached will not be by dialling again, as `why` says.
  bool IsHopeless(const absl::Status& why) const;
  // OK, or UNAVAILABLE (server_lost): it has been away for the whole grace.
  absl::Status GraceOver(Time now) const;
  // When to ask `RedialDue` and `GraceOver`; infinite: nothing will be due.
  Time NextDeadline() const;

  // "connected to the server at h:1", "the server at h:1 has been away for 5s (broken)", "the
  // servers at h:1, i:2 have been away for 5s (broken)".
  std::string Describe(Time now) const;

 private:
  struct Down {
    Time redial_at = Time::Infinite();
  };
  struct Dialing {};
  struct Opening {
    RequestNumber request = 0;
  };
  struct Open {
    Time since;
    std::string reply;
  };
  struct Ended {
    absl::Status why;
  };

  void DrawId();
  Time GraceEnd() const;

  const Options options_;
  uint64_t random_;
  std::array<uint64_t, 2> random_ids_;
  std::string id_;  // 16 bytes
  std::variant<Down, Dialing, Opening, Open, Ended> state_;
  bool opened_once_ = false;  // under this id
  Time down_since_;
  int attempts_ = 0;  // to connect, since the loss
  absl::Status last_failure_;
};

}  // namespace lockstep::client
