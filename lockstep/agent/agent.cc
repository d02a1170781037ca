#include "lockstep/agent/agent.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/agent/call_forwarder.h"
#include "lockstep/agent/pulse.h"
#include "lockstep/agent/stock_calls.h"
#include "lockstep/agent/torch_agent.h"
#include "lockstep/client/engine.h"
#include "lockstep/hosts/net/steady_thread.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loopback.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/stock/grpc/agent_listener.h"

namespace lockstep::agent {

using client::Engine;

class Agent::Impl {
 public:
  Impl(runtime::Loop& loop, const AgentOptions& options, Events events)
      : forwarder_(
            std::make_shared<CallForwarder>([this](client::Request request, StockCalls::Done done) {
              return calls_->Call(std::move(request), std::move(done));
            })),
        listener_(
            loop, {.connections = {.allowed = options.allowed}, .inflates = true},
            [this](net::AgentCall call, net::AgentListener::Answer answer) {
              return forwarder_->Begin(std::move(call), std::move(answer));
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
    auto calls =
        StockCalls::Listen(loop_, {.takes_part = options.peer_listen.has_value(),
                                   .listen = options.peer_listen.value_or(runtime::Address()),
                                   .values = {},
                                   .say = server_news_});
    if (!calls.ok()) return calls.status();
    calls_ = *std::move(calls);
    engine_ = Engine::Start(
        {.servers = options.coordinator,
         .who = "lockstep agent",
         .machine = {.job = options.job, .fan_out_port = calls_->port(), .grace = options.patience},
         .server_news = server_news_});
    calls_->Start(engine_);
    const auto opened = engine_->Call({.type = client::CallType::kOpen,
                                       .timeout = options.start_timeout,
                                       .what = runtime::TheServer(engine_->server())},
                                      nullptr);
    if (!opened.ok()) return opened.status();
    engine_->OnFailed([this](const absl::Status& why) { lost_(why); });
    torch_ = std::make_unique<TorchAgent>(
        loop_, engine_, TorchAgent::Options{.attempt = 0, .allowed = options.allowed},
        server_news_);
    if (absl::Status status = torch_->Listen(options.torch_listen); !status.ok()) return status;
    hosts::KeepInMemory();
    auto pulse = Pulse::Start(engine_,
                              {.host = runtime::HostName(),
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
    if (calls_ != nullptr) calls_->Close();
    pulse_.reset();
    listener_.Shutdown();
    if (const size_t calls = forwarder_->cut_short(); calls > 0) {
      server_news_(absl::StrCat("ended while ", calls,
                                " calls of this host's processes were open: these processes end, "
                                "and have to be started again with the next agent"));
    }
  }

  std::string address() const { return runtime::ToString(listener_.address()); }
  std::string torch_address() const { return runtime::ToString(torch_->address()); }

 private:
  std::shared_ptr<Engine> engine_;
  const std::shared_ptr<CallForwarder> forwarder_;
  net::AgentListener listener_;
  std::unique_ptr<StockCalls> calls_;  // null: not open, as the next
  std::unique_ptr<TorchAgent> torch_;
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
