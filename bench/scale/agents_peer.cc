#include "bench/scale/agents_peer.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "bench/coordination/native/jax_calls.h"
#include "lockstep/agent/call_names.h"
#include "lockstep/agent/stock_calls.h"
#include "lockstep/client/engine.h"
#include "lockstep/client/typed.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::bench {
namespace {

using client::CallType;
using client::Engine;
using wire::native::StockCall;
using wire::native::StockCallReply;

constexpr size_t kConnectingAtOnce = 256;

// What an agent does with a call, without the gRPC in front of it.
class AgentsCarrier : public Agents {
 public:
  AgentsCarrier(const std::string& address, std::string job, size_t ranks_per_host, bool fan_out)
      : job_(std::move(job)),
        ranks_per_host_(ranks_per_host),
        fan_out_(fan_out),
        thread_([this] { loop_.Run(); }) {
    auto parsed = runtime::ParseAddress(address);
    if (!parsed.ok()) Die(parsed.status().ToString());
    address_ = *std::move(parsed);
  }

  void KillAgentOf(size_t client) override {
    Engine& agent = *agents_[client / ranks_per_host_].engine;
    dying_ = client / ranks_per_host_;
    agent.Close();
  }

  void Run() override { stop_.Wait(); }
  void Stop() override { stop_.Give(); }

 protected:
  void Call(size_t client, const std::string& method, std::string request,
            std::function<void(std::string answer)> reply, bool fails) {
    const size_t host = client / ranks_per_host_;
    const StockCall message = {
        .method = method, .request = {.view = request}, .connection = 1 + client % ranks_per_host_};
    agents_[host].calls->Call(
        {.kind = wire::native::KindOf<StockCall>::kKind,
         .type = agent::TakesEffect(method) ? CallType::kEffect : CallType::kWatch,
         .payload = wire::native::Encode(message),
         .timeout_field = client::TimeoutField<StockCall>(),
         .leave_server_a_margin = false,
         .what = method},
        [this, host, method, fails,
         reply = std::move(reply)](absl::StatusOr<StockCallReply> decoded) {
          if (host == dying_) return;
          if (!decoded.ok()) Die(method + ": " + decoded.status().ToString());
          if ((decoded->code == 0) == fails) Die(method + ": " + decoded->message);
          // Answers of other agents come on the loop, those of the server on the library's thread.
          const std::lock_guard lock(one_at_once_);
          reply(std::move(decoded->answer.data.append(decoded->answer_rest.view())));
        });
  }

  // Opens the session of each agent, and calls `opened` with its number.
  void Open(size_t clients, std::function<void(size_t host)> opened) {
    agents_.resize((clients + ranks_per_host_ - 1) / ranks_per_host_);
    opened_ = std::move(opened);
    next_ = std::min(kConnectingAtOnce, agents_.size());
    for (size_t host = 0; host < std::min(kConnectingAtOnce, agents_.size()); ++host) {
      loop_.Post([this, host] { OpenOne(host); });
    }
  }

  size_t ranks_per_host() const { return ranks_per_host_; }

 private:
  struct Agent {
    std::unique_ptr<agent::StockCalls> calls;
    std::shared_ptr<Engine> engine;
  };

  void OpenOne(size_t host) {
    Agent& opens = agents_[host];
    auto calls = agent::StockCalls::Listen(
        loop_, {.takes_part = fan_out_, .listen = {.host = "127.0.0.1", .port = 0}});
    if (!calls.ok()) Die(calls.status().ToString());
    opens.calls = *std::move(calls);
    opens.engine = Engine::Start({.servers = link::Servers::Of(address_),
                                  .who = "scale_bench",
                                  .machine = {.job = job_, .fan_out_port = opens.calls->port()}});
    opens.calls->Start(opens.engine);
    opens.engine->CallAsync({.type = CallType::kOpen, .what = "the server"},
                            [this, host](const Engine::Answer& answer) {
                              if (!answer.ok()) Die(answer.status().ToString());
                              opened_(host);
                              const size_t next = next_++;
                              if (next >= agents_.size()) return;
                              loop_.Post([this, next] { OpenOne(next); });
                            });
  }

  const std::string job_;
  const size_t ranks_per_host_;
  const bool fan_out_;
  runtime::Address address_;
  runtime::Loop loop_;  // of what agents have from each other
  std::thread thread_;
  std::mutex one_at_once_;
  std::vector<Agent> agents_;
  std::function<void(size_t)> opened_;
  std::atomic<size_t> next_ = 0;
  std::atomic<size_t> dying_ = static_cast<size_t>(-1);
  StopSignal stop_;
};

class AgentsPeer : public JaxCalls<AgentsCarrier> {
 public:
  using JaxCalls::JaxCalls;

  void Connect(size_t clients) override {
    Expect(clients);
    std::atomic<size_t> missing = clients;
    Open(clients, [this, clients, &missing](size_t host) {
      const size_t end = std::min(clients, (host + 1) * ranks_per_host());
      for (size_t rank = host * ranks_per_host(); rank < end; ++rank) {
        RegisterOne(rank, [this, &missing] {
          if (--missing == 0) Stop();
        });
      }
    });
    Run();
  }
};

}  // namespace

std::unique_ptr<Agents> MakeAgents(const std::string& address, const std::string& job,
                                   size_t ranks_per_host, bool fan_out) {
  return std::make_unique<AgentsPeer>(address, job, ranks_per_host, fan_out);
}

}  // namespace lockstep::bench
