// A stock process in a simulation, which calls through its host's agent. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/sim/history.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/schedule.h"
#include "lockstep/sim/stock/host.h"

namespace lockstep::sim {

// A call of a stock process, and how often it was answered.
struct TrackedCall {
  std::string method;
  StockHost* host = nullptr;
  int answers = 0;
  bool over = false;  // for its caller: answered, cancelled or timed out
  std::function<void()> leave;
};

// What all processes of a world share.
struct StockJob {
  int32_t size = 0;
  int operations = 0;
  int rounds = 0;
  bool may_fail = false;  // somebody is killed
  bool calm = false;      // and nothing else goes wrong
  History history;
  std::vector<std::unique_ptr<TrackedCall>> calls;
  std::vector<ServiceIncarnation> attempts;  // that let somebody in, in their order
  std::vector<std::string> killed;           // "task/2", in this attempt
  std::string failure;

  void Fail(std::string why) {
    if (failure.empty()) failure = std::move(why);
  }
  size_t AttemptOf(ServiceIncarnation service);
};

// What jaxlib's client does: registers until it is let in, polls for the job's failure, sends
// heartbeats, and exits when it is told of a failure or a heartbeat has no answer. Its program
// writes and reads keys, and goes round after round through barriers and values that one task sets.
class StockProcess {
 public:
  struct Setup {
    int32_t rank = 0;
    uint64_t incarnation = 0;
    uint64_t connection = 0;
    // Goes on for so long after it was told to end, as one that hangs or was cut off.
    absl::Duration lingers;
  };

  StockProcess(Schedule& schedule, StockHost& host, StockJob& job, Random random, Setup setup);

  void Start();
  // SIGKILL: its connection breaks.
  void Die();
  // The launcher's doing: dies, now or after it has lingered.
  void End();

  bool alive() const { return alive_; }
  bool done() const { return done_; }                // it has left the job
  bool in() const { return service_.value() != 0; }  // it was let into an attempt
  bool told() const { return told_; }                // of a failure, so that it ends
  bool leaving() const { return leaving_; }          // whether that took effect, nobody else knows
  StockHost& host() { return host_; }
  std::string name() const;

 private:
  using Done = std::function<void(const net::AgentAnswer&)>;

  void Call(const std::string& method, std::string message, absl::Duration timeout, Done done);
  void Ended(TrackedCall& call);
  template <class Request>
  Request New() const;
  void Register();
  void Registered(const net::AgentAnswer& answer);
  void Poll();
  void Beat();
  void NextOperation();
  void NextRound();
  void Meet(int round);
  coord::MemberValues NoValues() const;
  void Share(int round);
  void GoOn();
  void TryInVain();
  void EndRow();
  void Leave();
  // True: it was an error that ends the process.
  bool Over(const net::AgentAnswer& answer);
  void Soon(absl::Duration most, std::function<void()> action);

  Schedule& schedule_;
  StockHost& host_;
  StockJob& job_;
  Random random_;
  const Setup setup_;
  ServiceIncarnation service_;
  std::vector<TrackedCall*> open_;
  int operations_left_;
  int round_ = 0;
  int rows_open_ = 0;
  bool alive_ = true;
  bool ending_ = false;
  bool told_ = false;
  bool done_ = false;
  bool leaving_ = false;
};

}  // namespace lockstep::sim
