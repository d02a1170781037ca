// One process of a model job: an agent, the program that it runs, and side traffic. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lockstep/sim/agent.h"
#include "lockstep/sim/network.h"
#include "lockstep/sim/program.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/scenario.h"
#include "lockstep/sim/schedule.h"

namespace lockstep::sim {

// What the processes of a run have done, to see that it did enough.
struct Work {
  int64_t registrations = 0;
  int64_t barriers = 0;
  int64_t reads = 0;
  int64_t clean_exits = 0;
};

// Begins with `Start`; ends by itself, with an exit code, or by `Kill`. Registers, does the
// operations of its program one after the other, leaves, and exits with 0. An operation that fails
// ends it with 1, unless it is one of those processes that go on; an agent that gave up aborts it
// (134), as JAX does.
class Process {
 public:
  struct Setup {
    AgentOptions agent;
    std::shared_ptr<const std::vector<Operation>> program;
    bool goes_on = false;  // after an operation that failed
    bool noisy = false;    // may send side traffic, and what else the scenario allows
    int64_t pid = 0;
  };
  using Exited = std::function<void(Process&, int exit_code, absl::string_view why)>;

  // All references must outlive the process, and the process whatever `network` still holds of it.
  Process(Schedule& schedule, Network& network, const Scenario& scenario, Random random,
          Setup setup, Work& work, Exited exited);

  void Start();
  // Ends it from outside. Silently: nothing tells the server, as when its host vanishes.
  void Kill(bool silently);
  // It says that it cannot go on.
  void ReportError();
  // It resets its own member.
  void Reset();

  PeerId peer() const { return peer_; }
  int64_t pid() const { return setup_.pid; }
  MemberIndex member() const { return setup_.agent.member; }
  bool alive() const { return network_.Alive(peer_); }
  Agent& agent() { return agent_; }

 private:
  void Connected();
  void NextOperation();
  void Do(const Operation& operation);
  void Exchange(const Operation& operation);
  void Broadcast(const Operation& operation);
  void Set(const std::string& key, Done done);
  void Read(const std::string& key, absl::Duration timeout, Done done);
  // One of the calls that the current operation waits for has ended.
  void PartEnded(const Outcome& outcome, bool failure_is_fine = false);
  void Leave();
  void Exit(int code, absl::string_view why);

  Schedule& schedule_;
  Network& network_;
  const Scenario& scenario_;
  Random random_;
  const Setup setup_;
  Work& work_;
  const Exited exited_;
  const PeerId peer_;
  Agent agent_;

  size_t next_operation_ = 0;
  int open_parts_ = 0;
  bool failed_part_ = false;
  std::function<void()> then_;  // what follows when no part is open
};

}  // namespace lockstep::sim
