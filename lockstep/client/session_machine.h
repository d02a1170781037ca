// What a client says in its session, and when. Pure. The shell is engine.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/client/effect_acks.h"
#include "lockstep/client/progress_reporter.h"
#include "lockstep/client/request_window.h"
#include "lockstep/client/session_call.h"
#include "lockstep/client/session_calls.h"
#include "lockstep/client/session_link.h"
#include "lockstep/client/session_membership.h"
#include "lockstep/client/shared_answers.h"
#include "lockstep/platform/link/frame.h"
#include "lockstep/platform/link/kinds.h"

namespace lockstep::client {

// The conversation of one session with a server, over as many links as it takes. It feeds what
// comes to its parts, and says what they want in the order in which the server must hear it: the
// link (SessionLink), the calls (SessionCalls) and how many of them are on it (RequestWindow), what
// the server may forget (EffectAcks), the part in the job (SessionMembership) and the heartbeats
// (ProgressReporter).
//
// Invariants: (1) every call is completed exactly once; (2) requests are sent in the order of their
// tickets, and again in that order on every new link, under the same numbers; (3) nothing is sent
// twice on one link; (4) a request that takes effect is not reported as answered before it is. The
// first three are kept and checked by SessionCalls, the last one by EffectAcks.
//
// Threads: thread-compatible. Bounds: Options.
class SessionMachine {
 public:
  struct Options {
    std::string job;
    std::string server;  // as SessionLink::Options
    int32_t create_size = 0;
    uint16_t fan_out_port = 0;  // OpenSession.fan_out_port
    // From the loss of the server until it is given up.
    absl::Duration grace = absl::Minutes(1);
    // Between attempts to connect: the first follows a loss at once; then doubled, half of it
    // drawn.
    absl::Duration backoff_first = absl::Milliseconds(10);
    absl::Duration backoff_last = absl::Seconds(1);
    absl::Duration heartbeat_interval = absl::Seconds(1);
    absl::Duration progress_interval = absl::Milliseconds(100);  // between reports, at least
    // The server is told which answers have come after so many, or so much time.
    size_t answered_batch = 64;
    absl::Duration answered_interval = absl::Seconds(1);
    // Calls that have not been completed, and the bytes of their requests.
    size_t client_calls_max = 100'000;
    size_t client_call_bytes_max = size_t{512} << 20;
    // One request; until the server says what it takes.
    size_t message_bytes_max = size_t{64} << 20;
    // As SessionLink::Options.
    uint64_t seed = 0;
    std::array<uint64_t, 2> id_seeds = {};
  };

  // What is to be done, in the order of the fields.
  struct Effects {
    std::vector<link::Message> send;
    bool drop_link = false;  // abandon it; `LinkLost` is not to be called for it
    bool farewell = false;   // close it when what was sent is written
    bool dial = false;
    // For people: that the server is out of reach, or is back. Empty: neither is news.
    std::string server_news;
    std::vector<CompletedCall> completed;
    std::optional<absl::Status>
        failed;  // the attempt has failed, or the server is lost; at most once
  };

  explicit SessionMachine(Options options);

  // Once, before anything else.
  void Start(Time now, Effects& out);
  // Tickets must ascend. The call is completed exactly once: with the server's answer or error, or
  //   RESOURCE_EXHAUSTED (limit_exceeded): a bound of Options or of the server's is reached
  //   DEADLINE_EXCEEDED (deadline_exceeded): its deadline has passed
  //   CANCELLED (cancelled): by `Cancel`; (session_closed): by `Close`
  //   FAILED_PRECONDITION (member_left): this member has left the job
  //   UNAVAILABLE (server_lost): the server was away for the whole grace
  // or, when it is a wait, with the failure of the attempt.
  void Submit(Time now, Call&& call, Effects& out);
  // Unknown and completed tickets are ignored.
  void Cancel(Time now, Ticket ticket, Effects& out);
  // Where the member is. Negative step, empty phase: as before.
  void Progress(Time now, int64_t step, std::string_view phase, Effects& out);
  // Ends the session.
  void Close(Time now, Effects& out);

  // `requests_in_flight_max`, `message_bytes_max`: as the server's welcome says; 0: as before.
  void LinkReady(Time now, size_t requests_in_flight_max, size_t message_bytes_max, Effects& out);
  // The link broke, or could not be made, as `why` says. Not of one that `drop_link` abandoned.
  void LinkLost(Time now, const absl::Status& why, Effects& out);
  // What came over the link. Other frames than answers, errors and what goes before those break it.
  void Take(Time now, link::Message&& message, Effects& out);

  // At `NextDeadline`; too early is no harm.
  void ReachDeadline(Time now, Effects& out);
  // Infinite after the end of the session.
  Time NextDeadline() const;

  bool ended() const { return link_.ended(); }

 private:
  // Calls.
  void Complete(Time now, RequestNumber number, absl::StatusOr<std::string>&& answer, Effects& out);
  // Completes it without the server's answer, and tells the server.
  void GiveUp(Time now, RequestNumber number, absl::Status why, Effects& out);
  void Pump(Time now, Effects& out);
  void Send(link::RequestKind kind, RequestNumber number, std::string&& payload, Effects& out);

  // Answers.
  void TakeOpened(Time now, absl::StatusOr<std::string> answer, Effects& out);
  // For whatever request has this number.
  void TakeAnswer(Time now, RequestNumber number, absl::StatusOr<std::string>&& answer,
                  Effects& out);
  void TakePoll(Time now, const absl::StatusOr<std::string>& answer, Effects& out);
  void Fail(Time now, const absl::Status& why, Effects& out);
  void Leave(Time now, Effects& out);

  // Links.
  void Redial(Time now, const absl::Status& why, Effects& out);
  void End(Time now, const absl::Status& why, Effects& out);

  // The session's own requests.
  void Poll(Effects& out);
  void ReportProgress(Time now, Effects& out);
  void Acknowledge(Time now, Effects& out);

  const Options options_;
  RequestNumber last_number_ = 0;
  SessionLink link_;
  SessionCalls calls_;
  RequestWindow window_;
  SharedAnswers shared_;
  EffectAcks acks_;
  SessionMembership membership_;
  ProgressReporter progress_;
};

}  // namespace lockstep::client
