#include "bench/scale/agents_peer.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "bench/coordination/native/jax_calls.h"
#include "lockstep/agent/call_names.h"
#include "lockstep/client/engine.h"
#include "lockstep/client/typed.h"
#include "lockstep/platform/runtime/address.h"
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
  AgentsCarrier(const std::string& address, std::string job, size_t ranks_per_host)
      : job_(std::move(job)), ranks_per_host_(ranks_per_host) {
    auto parsed = runtime::ParseAddress(address);
    if (!parsed.ok()) Die(parsed.status().ToString());
    address_ = *std::move(parsed);
  }

  void KillAgentOf(size_t client) override {
    Engine& agent = *agents_[client / ranks_per_host_];
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
    agents_[host]->CallAsync(
        {.kind = wire::native::KindOf<StockCall>::kKind,
         .type = agent::TakesEffect(method) ? CallType::kEffect : CallType::kWatch,
         .payload = wire::native::Encode(message),
         .timeout_field = client::TimeoutField<StockCall>(),
         .leave_server_a_margin = false,
         .what = method},
        [this, host, method, fails, reply = std::move(reply)](Engine::Answer answer) {
          if (host == dying_) return;
          if (!answer.ok()) Die(method + ": " + answer.status().ToString());
          auto decoded = wire::native::Decode<StockCallReply>(*std::move(answer));
          if (!decoded.ok()) Die(method + ": " + decoded.status().ToString());
          if ((decoded->code == 0) == fails) Die(method + ": " + decoded->message);
          reply(std::move(decoded->answer.data.append(decoded->answer_rest.view())));
        });
  }

  // Opens the session of each agent, and calls `opened` with its number.
  void Open(size_t clients, std::function<void(size_t host)> opened) {
    agents_.resize((clients + ranks_per_host_ - 1) / ranks_per_host_);
    opened_ = std::move(opened);
    next_ = std::min(kConnectingAtOnce, agents_.size());
    for (size_t host = 0; host < std::min(kConnectingAtOnce, agents_.size()); ++host) {
      OpenOne(host);
    }
  }

  size_t ranks_per_host() const { return ranks_per_host_; }

 private:
  void OpenOne(size_t host) {
    agents_[host] =
        Engine::Start({.address = address_, .who = "scale_bench", .machine = {.job = job_}});
    agents_[host]->CallAsync({.type = CallType::kOpen, .what = "the server"},
                             [this, host](const Engine::Answer& answer) {
                               if (!answer.ok()) Die(answer.status().ToString());
                               opened_(host);
                               if (next_ < agents_.size()) OpenOne(next_++);
                             });
  }

  const std::string job_;
  const size_t ranks_per_host_;
  runtime::Address address_;
  std::vector<std::shared_ptr<Engine>> agents_;
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
                                   size_t ranks_per_host) {
  return std::make_unique<AgentsPeer>(address, job, ranks_per_host);
}

}  // namespace lockstep::bench
