// What a client says in its session, and when: numbers, resends, time-outs, redials, heartbeats.
// Pure. The shell is engine.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/link/frame.h"
#include "lockstep/platform/link/kinds.h"

namespace lockstep::client {

// Names a call for its caller; greater ones were made later.
using Ticket = uint64_t;

// How a request behaves, which says what becomes of it when the link breaks.
enum class CallType {
  kOpen,    // no request: answered as soon as the session is open
  kEffect,  // changes something; the server keeps its answer until it hears that we have it
  kRead,    // is answered at once, and changes nothing
  kWait,    // parks at the server, and parks again when it is sent again
  kWatch,   // the same, but the failure of the attempt does not end it
};

struct Call {
  Ticket ticket = 0;
  link::RequestKind kind = 0;
  CallType type = CallType::kRead;
  std::string payload;
  // The number of the message's field `timeout_us`, which `payload` leaves out: the time that is
  // left is put in when it is sent. 0: it has none.
  uint32_t timeout_field = 0;
  // The server gets less time than the caller, since its text knows more. Not for requests that the
  // server answers early by itself.
  bool hurry_server = true;
  Time deadline = Time::Infinite();
  std::string what;  // "barrier 'loaded'": what a time-out says that it waited for
};

// The conversation of one session with a server, over as many links as it takes.
//
//   kDown --dial--> kDialing --LinkReady--> kOpening --its answer--> kOpen
//     ^                |                        |                      |
//     '----------------'-------LinkLost---------'----------------------'
//   any --refused, unknown to the server, grace over, Close--> kEnded
//
// Invariants: (1) every call is completed exactly once; (2) requests are sent in the order of their
// tickets, and again in that order on every new link, under the same numbers; (3) nothing is sent
// twice on one link; (4) a request that takes effect is not reported as answered before it is.
//
// Threads: thread-compatible. Bounds: Options.
class SessionMachine {
 public:
  struct Options {
    std::string job;
    std::string server;  // HOST:PORT, for texts
    int32_t create_size = 0;
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
    // The session's id and the jitter come from it: random in production.
    uint64_t seed = 0;
  };

  struct Completed {
    Ticket ticket = 0;
    absl::StatusOr<std::string> answer;
  };

  // What is to be done, in the order of the fields.
  struct Effects {
    std::vector<link::Message> send;
    bool drop_link = false;  // abandon it; `LinkLost` is not to be called for it
    bool farewell = false;   // close it when what was sent is written
    bool dial = false;
    std::vector<Completed> completed;
    std::optional<absl::Status>
        failed;  // the attempt has failed, or the server is lost; at most once
  };

  explicit SessionMachine(Options options);

  void Start(Time now, Effects& out);
  // Tickets must ascend.
  void Submit(Time now, Call call, Effects& out);
  // Unknown and completed tickets are ignored.
  void Cancel(Time now, Ticket ticket, Effects& out);
  // Where the member is. Negative step, empty phase: as before.
  void Progress(Time now, int64_t step, std::string_view phase, Effects& out);
  // Ends the session.
  void Close(Time now, Effects& out);

  // `requests_in_flight_max`: as the server's welcome says.
  // What the server said that it takes (0: as before).
  void LinkReady(Time now, size_t requests_in_flight_max, size_t message_bytes_max, Effects& out);
  void LinkLost(Time now, const absl::Status& why, Effects& out);
  void Take(Time now, link::Message message, Effects& out);

  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;

  bool ended() const { return stage_ == Stage::kEnded; }
  size_t open_calls() const { return calls_.size(); }

 private:
  enum class Stage { kDown, kDialing, kOpening, kOpen, kEnded };
  using Number = uint64_t;
  struct Entry {
    Call call;
    Time since;
    bool sent = false;  // on the link of now
  };

  // Calls.
  absl::Status CheckSize(const Call& call) const;
  void RefuseTooLarge(Time now, Effects& out);
  absl::Status CheckRoom(const Call& call) const;
  void Complete(Time now, Number number, absl::StatusOr<std::string> answer, Effects& out);
  // Completes it without the server's answer, and tells the server.
  void GiveUp(Time now, Number number, absl::Status why, Effects& out);
  absl::Status Decorate(Time now, const Entry& entry, absl::Status status) const;
  void Pump(Time now, Effects& out);
  void SendCall(Time now, Number number, Entry& entry, Effects& out);
  void Send(link::RequestKind kind, Number number, std::string payload, Effects& out);
  size_t CallWindow() const;
  size_t WaitWindow() const;

  // Answers.
  void TakeOpened(Time now, link::Message message, Effects& out);
  void Opened(Time now, const std::string& payload, Effects& out);
  void TakePoll(Time now, const link::Message& message, Effects& out);
  void Fail(Time now, const absl::Status& why, Effects& out);
  void Left(Time now, Effects& out);
  bool ServerGoes(Time now, const absl::Status& status, Effects& out);
  void NoteAnswered(Time now, Number number, Effects& out);
  void SendAnswered(Time now, Effects& out);

  // Links.
  void Redial(Time now, const absl::Status& why, Effects& out);
  void End(Time now, const absl::Status& why, Effects& out);
  std::string Link(Time now) const;

  void SendProgress(Time now, Effects& out);
  Time ProgressDue() const;
  Time AnsweredDue() const;
  uint64_t Draw();

  const Options options_;
  size_t message_bytes_max_;
  uint64_t random_;
  std::string session_;  // 16 bytes

  Stage stage_ = Stage::kDown;
  bool opened_once_ = false;
  std::string opened_;  // OpenSessionReply of the last opening
  Number open_number_ = 0;
  Time down_since_;
  Time opened_at_;
  Time redial_at_ = Time::Infinite();
  int attempts_ = 0;
  absl::Status last_failure_;
  absl::Status why_ended_;
  size_t window_ = 1024;

  Number last_number_ = 0;
  std::map<Number, Entry> calls_;
  absl::flat_hash_map<Ticket, Number> numbers_;
  std::deque<Number> unsent_;  // may name calls that are completed already
  std::set<std::pair<Time, Number>> deadlines_;
  size_t call_bytes_ = 0;
  size_t waits_ = 0;            // calls that park
  std::set<Number> abandoned_;  // sent on this link, given up, not answered
  size_t in_flight_ = 0;        // sent on this link, not answered

  std::set<Number> effects_open_;  // requests that take effect, sent at some time, not answered
  Number effects_last_ = 0;        // the greatest that was answered
  Number answered_through_ = 0;    // told
  size_t unreported_ = 0;
  Time unreported_since_;

  bool joined_ = false;
  Number poll_ = 0;
  Number progress_ = 0;  // in flight; else 0
  bool progress_dirty_ = false;
  int64_t step_ = -1;
  std::string phase_;
  Time last_progress_;
  absl::Status failed_;  // root cause
  absl::Status left_;    // not OK once the member has left
};

}  // namespace lockstep::client
