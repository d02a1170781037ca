#include "lockstep/agent/agent.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/agent/call_names.h"
#include "lockstep/agent/heartbeat_answers.h"
#include "lockstep/agent/pulse.h"
#include "lockstep/agent/torch_agent.h"
#include "lockstep/base/mutex.h"
#include "lockstep/client/engine.h"
#include "lockstep/client/typed.h"
#include "lockstep/hosts/net/steady_thread.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loopback.h"
#include "lockstep/stock/grpc/agent_listener.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::agent {
namespace {

using client::CallType;
using client::Engine;
using net::AgentAnswer;
using net::AgentCall;
using wire::native::StockCall;
using wire::native::StockCallReply;

AgentAnswer ToAnswer(const absl::Status& failed) {
  return {.code = failed.code(),
          .message = std::string(failed.message()),
          .details = "",
          .reason = wire::native::ReasonOf(failed),
          .bytes = ""};
}

AgentAnswer ToAnswer(Engine::Answer answer) {
  if (!answer.ok()) return ToAnswer(answer.status());
  auto reply = wire::native::Decode<StockCallReply>(*std::move(answer));
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

class Agent::Impl {
 public:
  Impl(runtime::Loop& loop, const AgentOptions& options, Events events)
      : listener_(
            loop, {.connections = {.allowed = options.allowed}, .inflates = true},
            [this](AgentCall call, net::AgentListener::Answer answer) {
              return Begin(std::move(call), std::move(answer));
            },
            std::move(events.complain)),
        loop_(loop),
        lost_(std::move(events.lost)),
        cut_off_(std::move(events.cut_off)),
        server_news_(std::move(events.server_news)) {}

  absl::Status Open(const AgentOptions& options) {
    // Callers are identified by their uid alone, which the kernel reports of local processes only.
    for (const runtime::Address& at : {options.listen, options.torch_listen}) {
      if (runtime::CheckLoopback(loop_.io(), at, "--listen").ok()) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          runtime::ToString(at),
          " can be reached from other hosts, but an agent serves the processes of its own host "
          "only: listen at a loopback address, such as 127.0.0.1:0"));
    }
    if (absl::Status status = listener_.Listen(options.listen); !status.ok()) return status;
    engine_ = Engine::Start({.address = options.coordinator,
                             .who = "lockstep agent",
                             .machine = {.job = options.job, .grace = options.patience},
                             .server_news = server_news_});
    const auto opened = engine_->Call({.type = CallType::kOpen,
                                       .timeout = options.start_timeout,
                                       .what = absl::StrCat("the server at ", engine_->server())},
                                      nullptr);
    if (!opened.ok()) return opened.status();
    engine_->OnFailed([this](const absl::Status& why) { lost_(why); });
    torch_ = std::make_unique<TorchAgent>(
        loop_, engine_, TorchAgent::Options{.attempt = 0, .allowed = options.allowed},
        server_news_);
    if (absl::Status status = torch_->Listen(options.torch_listen); !status.ok()) return status;
    hosts::KeepInMemory();
    auto pulse = Pulse::Start(engine_,
                              {.coordinator = options.coordinator,
                               .host = runtime::HostName(),
                               .version = LOCKSTEP_VERSION,
                               .policy = options.on_partition,
                               .node = options.node},
                              {.cut_off = cut_off_, .say = server_news_});
    if (!pulse.ok()) return pulse.status();
    pulse_ = *std::move(pulse);
    listener_.Start();
    torch_->Start();
    return absl::OkStatus();
  }

  // Nothing more begins; what is open is completed by the session's end, which gRPC waits for.
  void Close() {
    torch_.reset();
    if (pulse_ != nullptr) pulse_->Stop();
    if (engine_ != nullptr) engine_->Close();
    pulse_.reset();
    listener_.Shutdown();
  }

  std::string address() const { return runtime::ToString(listener_.address()); }
  std::string torch_address() const { return runtime::ToString(torch_->address()); }

 private:
  std::function<void()> Begin(AgentCall call, net::AgentListener::Answer answer) {
    if (IsHeartbeat(call.method)) return Beat(std::move(call), std::move(answer));
    if (NameOf(call.method) == "RegisterTask") return Register(call, std::move(answer));
    return PassOn(call, std::move(answer));
  }

  std::function<void()> PassOn(const AgentCall& call, net::AgentListener::Answer answer) {
    const Pending pending = engine_->CallAsync(
        ToRequest(call),
        [answer = std::move(answer)](Engine::Answer from) { answer(ToAnswer(std::move(from))); });
    return [pending] { pending.Cancel(); };
  }

  std::function<void()> Register(const AgentCall& call, net::AgentListener::Answer answer) {
    return PassOn(call,
                  [this, connection = call.connection, answer = std::move(answer)](AgentAnswer is) {
                    if (is.code == absl::StatusCode::kOk) {
                      const MutexLock lock(mutex_);
                      heartbeats_.Registered(connection, is.bytes);
                    }
                    answer(std::move(is));
                  });
  }

  std::function<void()> Beat(AgentCall call, net::AgentListener::Answer answer) {
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
    auto told = [this, message = std::move(message), answered, answer](const AgentAnswer& is) {
      {
        const MutexLock lock(mutex_);
        heartbeats_.Answered(message, is.code, is.bytes);
      }
      if (!answered) answer(is);
    };
    std::function<void()> leave;
    if (pass_on) leave = PassOn(call, std::move(told));
    if (!answered) return leave;
    answer(std::move(known));
    return nullptr;
  }

  std::shared_ptr<Engine> engine_;
  Mutex mutex_;
  HeartbeatAnswers heartbeats_ ABSL_GUARDED_BY(mutex_);
  net::AgentListener listener_;
  std::unique_ptr<TorchAgent> torch_;  // null: not open, as the next
  std::unique_ptr<Pulse> pulse_;
  runtime::Loop& loop_;
  const std::function<void(absl::Status)> lost_;
  const std::function<void(const std::string&)> cut_off_;
  const std::function<void(std::string)> server_news_;
};

absl::StatusOr<std::unique_ptr<Agent>> Agent::Start(runtime::Loop& loop, AgentOptions options,
                                                    Events events) {
  auto impl = std::make_unique<Impl>(loop, options, std::move(events));
  if (absl::Status status = impl->Open(options); !status.ok()) {
    impl->Close();
    return status;
  }
  return std::unique_ptr<Agent>(new Agent(std::move(impl)));
}

Agent::Agent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Agent::~Agent() { impl_->Close(); }
std::string Agent::address() const { return impl_->address(); }
std::string Agent::torch_address() const { return impl_->torch_address(); }

}  // namespace lockstep::agent
