#include "lockstep/agent/call_forwarder.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/agent/call_names.h"
#include "lockstep/client/typed.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::agent {
namespace {

using client::CallType;
using net::AgentAnswer;
using net::AgentCall;
using wire::native::StockCall;

// Its callers would take the loss of their connection for that of the server.
AgentAnswer Ended() {
  return {.code = absl::StatusCode::kUnavailable,
          .message =
              "the agent of this host was told to end, and its processes cannot go on with "
              "another one: start them again with the next agent",
          .details = "",
          .reason = "agent_ended",
          .bytes = ""};
}

AgentAnswer ToAnswer(const absl::Status& failed) {
  return {.code = failed.code(),
          .message = std::string(failed.message()),
          .details = "",
          .reason = wire::native::ReasonOf(failed),
          .bytes = ""};
}

// The agent closes its session when it ends, and nobody else does.
bool EndedByAgent(const CallForwarder::Reply& reply) {
  return wire::native::ReasonOf(reply.status()) == "session_closed";
}

AgentAnswer ToAnswer(CallForwarder::Reply reply) {
  if (!reply.ok()) return ToAnswer(reply.status());
  return {.code = static_cast<absl::StatusCode>(reply->code),
          .message = std::move(reply->message),
          .details = std::move(reply->details.data),
          .reason = std::move(reply->reason),
          .bytes = std::move(reply->answer.data.append(reply->answer_rest.view()))};
}

// Heartbeats take none of the room for calls that wait at the server (requests_in_flight_max): they
// must go through however many of those there are.
CallType TypeOf(std::string_view method) {
  if (TakesEffect(method)) return CallType::kEffect;
  return IsHeartbeat(method) ? CallType::kRead : CallType::kWatch;
}

client::Request ToRequest(const AgentCall& call) {
  const StockCall message = {
      .method = call.method, .request = {.view = call.bytes}, .connection = call.connection};
  return {.kind = wire::native::KindOf<StockCall>::kKind,
          .type = TypeOf(call.method),
          .payload = wire::native::Encode(message),
          .timeout_field = client::TimeoutField<StockCall>(),
          .leave_server_a_margin = false,
          .timeout = call.left,
          .what = absl::StrCat("the call ", std::string(NameOf(call.method)))};
}

}  // namespace

std::function<void()> CallForwarder::Begin(AgentCall call, Answer answer) {
  if (IsHeartbeat(call.method)) return Beat(std::move(call), std::move(answer));
  if (NameOf(call.method) == "RegisterTask") return Register(call, std::move(answer));
  return PassOn(call, std::move(answer));
}

std::function<void()> CallForwarder::PassOn(const AgentCall& call, Answer answer) {
  // A heartbeat cuts nobody short: most have their answer already.
  const bool counts = !IsHeartbeat(call.method);
  return ask_(ToRequest(call),
              [self = shared_from_this(), counts, answer = std::move(answer)](Reply reply) {
                if (!EndedByAgent(reply)) return answer(ToAnswer(std::move(reply)));
                if (counts) ++self->cut_short_;
                answer(Ended());
              });
}

std::function<void()> CallForwarder::Register(const AgentCall& call, Answer answer) {
  return PassOn(call, [self = shared_from_this(), connection = call.connection,
                       answer = std::move(answer)](AgentAnswer is) {
    if (is.code == absl::StatusCode::kOk) {
      const MutexLock lock(self->mutex_);
      self->heartbeats_.Registered(connection, is.bytes);
    }
    answer(std::move(is));
  });
}

std::function<void()> CallForwarder::Beat(AgentCall call, Answer answer) {
  std::string message = absl::StrCat(call.method, " ", call.bytes);
  AgentAnswer known;
  bool pass_on = true;
  bool answered = false;
  {
    const MutexLock lock(mutex_);
    const HeartbeatAnswers::Reaction reaction = heartbeats_.Came(message, call.connection);
    pass_on = reaction.pass_on;
    answered = reaction.answer != nullptr;
    if (answered) known.bytes = *reaction.answer;
  }
  // The caller has its answer already, so its deadline does not apply.
  if (answered) call.left = absl::InfiniteDuration();
  auto told = [self = shared_from_this(), message = std::move(message), answered,
               answer](const AgentAnswer& is) {
    {
      const MutexLock lock(self->mutex_);
      self->heartbeats_.Answered(message, is.code, is.bytes);
    }
    if (!answered) answer(is);
  };
  std::function<void()> leave;
  if (pass_on) leave = PassOn(call, std::move(told));
  if (!answered) return leave;
  answer(std::move(known));
  return nullptr;
}

}  // namespace lockstep::agent
