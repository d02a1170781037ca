// The listener of all jobs for native clients: which session each link speaks for, and which calls
// of it wait for their answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/server/fan_out.h"
#include "lockstep/server/shared_answers.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/from_answer.h"
#include "lockstep/wire/native/hosts_messages.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::server {

// Reads the calls of a job's stock clients that agents pass on, and encodes their answers.
class StockCalls {
 public:
  virtual ~StockCalls() = default;
  // The event that the call means, asked by `caller`; or its answer: it means none. `connection`:
  // the client's, by a name that no other has. `peer`: the agent's address.
  virtual std::variant<coord::Event, wire::native::StockCallReply> Begin(
      const wire::native::StockCall& call, const coord::Caller& caller, std::string connection,
      std::string peer) = 0;
  // Of a call that began, and has not ended or left.
  virtual wire::native::StockCallReply End(const coord::Reply& reply) = 0;
  virtual void Left(CallId call) = 0;
};

// Carries out the commands of torch's clients that agents pass on.
class TorchCommands {
 public:
  virtual ~TorchCommands() = default;
  // `agent`: the session that asks. May call `NativeListener::AnswerTorch` at once. An error: it
  // did not begin, for FAILED_PRECONDITION (`attempt_over`) or UNAVAILABLE (`no_stock_service`).
  // Else it may be answered with INVALID_ARGUMENT (`invalid_argument`): it was refused, and its
  // connection has ended; or RESOURCE_EXHAUSTED (`limit_exceeded`).
  virtual absl::Status Begin(CallId call, SessionId agent, const std::string& peer,
                             const wire::native::TorchCommand& asked) = 0;
  // Of a call that began and was not answered: it was cancelled, or its link has ended (`away`),
  // over which it may come again.
  virtual void Left(CallId call, bool away) = 0;
};

// A job as the listener sees it. Lives until `JobDeleted`.
class NativeJob {
 public:
  // Which it owns; null: it has no such clients.
  explicit NativeJob(StockCalls* stock_calls = nullptr, TorchCommands* torch_commands = nullptr)
      : stock_calls_(stock_calls), torch_commands_(torch_commands) {}
  virtual ~NativeJob() = default;
  // May call `NativeListener::Answer` at once.
  virtual void Handle(coord::Event event) = 0;
  StockCalls* stock_calls() const { return stock_calls_; }
  TorchCommands* torch_commands() const { return torch_commands_; }

 private:
  StockCalls* const stock_calls_;
  TorchCommands* const torch_commands_;
};

// Turns requests into events with new call ids, and replies into answers on the link that asked. A
// link that ends becomes a CallLeft for each call that it had open, then SessionBroke. A session
// has one link: who opens it on another takes it over, and the first is closed.
//
// Threads: loop-confined. Bounds: per link, those of the link (requests_in_flight_max); sessions,
// those of the jobs (sessions_max).
class NativeListener {
 public:
  // Finds the job of a request, or makes it where the request says so and the caller may.
  using OpenJob = std::function<absl::StatusOr<NativeJob*>(const wire::native::OpenSession&,
                                                           const link::Rights&)>;
  using CloseLink = std::function<void(link::LinkId, absl::Status why)>;
  // Answers an agent, whose session and link these are.
  using JoinHosts = std::function<absl::StatusOr<wire::native::JoinHostsReply>(
      const NativeJob&, SessionId agent, link::LinkId, const wire::native::JoinHosts&)>;

  // `join_hosts`: null where no hosts are watched. `fan_out`: null where each agent is sent its
  // answers itself.
  NativeListener(OpenJob open_job, CloseLink close_link, JoinHosts join_hosts = nullptr,
                 std::unique_ptr<FanOut> fan_out = nullptr)
      : open_job_(std::move(open_job)),
        close_link_(std::move(close_link)),
        join_hosts_(std::move(join_hosts)),
        fan_out_(std::move(fan_out)) {}

  FanOut* fan_out() const { return fan_out_.get(); }

  // Call ids of native clients are not those of other listeners.
  static bool IsNative(CallId call) { return (call.value() & kNativeBit) != 0; }

  // Requests of wire::native::Route::kSession.
  void Take(link::Request&& request, link::Responder&& responder);
  // Of wire::native::Route::kStock.
  void TakeStock(const link::Request& request, link::Responder responder);
  // The call gets CANCELLED (cancelled), the job a CallLeft. Not of one that opens or closes a
  // session.
  void Cancelled(link::LinkId link, uint64_t id);
  // Of the link's session: answers up to there need not be kept.
  void Answered(link::LinkId link, uint64_t through);
  // Not `by_peer`: the session is silent, which is no proof of a death.
  void Ended(link::LinkId link, bool by_peer);
  // The host of that agent is given up: its link is closed, if it has one.
  void Ended(const NativeJob& job, SessionId agent, const absl::Status& why);

  // Replies to calls that have gone are dropped, as are those of other listeners.
  void Answer(const std::vector<coord::Reply>& replies);
  // The same; what agents are told may stay in `shared`, for the caller to send.
  void Answer(const std::vector<coord::Reply>& replies, SharedAnswers& shared);

  // The same, of a TorchCommand.
  void AnswerTorch(CallId call, absl::StatusOr<wire::native::TorchCommandReply> reply);

  // What the call asks for; nothing: it has gone, or is no native client's own.
  std::optional<wire::native::RequestKind> Asked(CallId call) const;
  // With what was encoded of its reply.
  void AnswerEncoded(CallId call, std::shared_ptr<const std::string> bytes);

  // Answers what waits in the job, and whatever its sessions ask later, with this error.
  void JobDeleted(const NativeJob& job, const absl::Status& why);

  // Whether the link speaks for a session.
  bool Holds(link::LinkId link) const { return speakers_.contains(link); }

  // Sessions of the job that have a link.
  size_t CountSessions(const NativeJob& job) const;

 private:
  static constexpr uint64_t kNativeBit = uint64_t{1} << 63;
  using Agent = coord::CallLeft::Agent;

  // What a link speaks for.
  struct Speaker {
    NativeJob* job = nullptr;  // null: it was deleted
    absl::Status why;          // then
    SessionId session;
    bool shares_answers = false;                 // takes one answer to several requests
    absl::flat_hash_map<uint64_t, CallId> open;  // by number
  };
  void EraseSession(const NativeJob* job, SessionId session);
  using SessionKey = std::pair<const NativeJob*, SessionId>;

  // Who the request's link speaks for; null: it cannot be asked, and was answered.
  const Speaker* SpeakerOf(const link::Request& request, link::Responder& responder) const;
  void Open(const link::Request& request, link::Responder responder);
  void TakeStockCall(const link::Request& request, const Speaker& speaker,
                     link::Responder responder);
  void TakeJoinHosts(const link::Request& request, const Speaker& speaker,
                     link::Responder responder);
  void TakeTorchCommand(const link::Request& request, const Speaker& speaker,
                        link::Responder responder);
  // Hands the event to the job, with the call that waits for its answer.
  void Begin(link::LinkId link, CallId call, coord::Event&& event, link::Responder&& responder);
  // The call waits for its answer. Returns its job.
  NativeJob* Wait(link::LinkId link, CallId call, link::Responder&& responder);
  // Ends the call: whoever gets the responder answers it. Nothing: it has gone.
  std::optional<link::Responder> Take(CallId call);
  // Answers the calls that the link had open with `why` and forgets them. Returns what the job is
  // to hear of them, in order. `agent`: what those of stock clients are to say.
  std::vector<coord::CallLeft> EndOpenCalls(Speaker& speaker, const absl::Status& why, Agent agent);
  // Tells the job that its session has no link any more. False: the link spoke for none.
  bool Part(link::LinkId link, bool silent);
  // Its session is over, or was not opened. Appends what the job is to hear of open calls.
  void Forget(link::LinkId link, std::vector<std::pair<NativeJob*, coord::CallLeft>>& left);

  const OpenJob open_job_;
  const CloseLink close_link_;
  const JoinHosts join_hosts_;
  const std::unique_ptr<FanOut> fan_out_;
  struct {
    uint64_t last = 0;
    CallId Next() { return CallId(++last | kNativeBit); }
  } call_ids_;
  absl::flat_hash_map<link::LinkId, Speaker> speakers_;
  absl::flat_hash_map<SessionKey, link::LinkId> sessions_;
  absl::flat_hash_map<const NativeJob*, size_t> sessions_of_;  // counted; none is zero
  absl::flat_hash_map<CallId, link::Responder> calls_;
  wire::native::ReplyEncoder encoder_;
};

}  // namespace lockstep::server
