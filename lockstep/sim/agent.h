// The part of a model process that speaks with the coordinator, as the stock agent does. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/events.h"
#include "lockstep/sim/network.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/schedule.h"

namespace lockstep::sim {

struct AgentOptions {
  MemberIndex member;
  Incarnation incarnation;
  absl::Duration init_timeout;
  absl::Duration heartbeat_period;
  absl::Duration shutdown_timeout;
  bool polls_again = false;
};

// Registers with retries, sends heartbeats, polls for errors, counts the uses of barriers, and
// gives up for good where a stock agent does: on an error from its poll, on a heartbeat that fails,
// on a refused registration, and on any answer that says the service is another one.
//
// It waits for a second before it gives up for a heartbeat, and retries those three times; with
// `polls_again`, it also polls over a new connection, which stock agents do not.
class Agent {
 public:
  struct Listener {
    std::function<void()> connected;
    std::function<void(absl::string_view why)> gave_up;
  };

  // All references must outlive the agent, and the agent whatever `network` still holds of it.
  Agent(Schedule& schedule, Network& network, PeerId peer, Random random, AgentOptions options,
        Listener listener);

  void Connect();

  // Sends the request with the agent's caller. `timeout` is kept by the caller itself.
  CallId Call(coord::Event request, absl::Duration timeout, Done done);

  // Null when the agent refuses, since it waits at the same id already; `done` does not run then.
  std::optional<CallId> WaitAtBarrier(const std::string& id, std::vector<MemberIndex> members,
                                      absl::Duration timeout, Done done);

  void Leave(Done done);

  const AgentOptions& options() const { return options_; }
  bool connected() const { return connected_; }
  ServiceIncarnation service() const { return service_; }
  const std::set<std::string>& open_barriers() const { return open_barriers_; }

 private:
  void TryToRegister();
  void RegistrationEnded(const Outcome& outcome);
  void Poll();
  void BeatLater();
  void Beat(int retries);
  void BeatEnded(const Outcome& outcome, int retries);
  void GiveUp(std::string why);
  // True when the answer says that the service is not the one it was.
  bool Mismatch(const Outcome& outcome);

  Schedule& schedule_;
  Network& network_;
  const PeerId peer_;
  Random random_;
  const AgentOptions options_;
  const Listener listener_;

  Time register_until_;
  int tries_ = 0;
  bool connected_ = false;
  bool leaving_ = false;
  bool gave_up_ = false;
  ServiceIncarnation service_;
  std::map<std::string, int64_t> last_counters_;
  std::set<std::string> open_barriers_;
};

}  // namespace lockstep::sim
