// For tests: several servers with one state in a model of etcd, clients, and whatever goes wrong
// between them. Deterministic, by a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::etcd {

// What a test breaks on purpose, to see that the simulation finds it.
enum class EtcdMutation {
  kNone,
  kNoFence,           // rows take effect whoever leads
  kUnconfirmedRead,   // a read is answered from what this server remembers
  kAppendedAgain,     // what has no answer is appended once more, as something new
  kAnsweredTooEarly,  // before the row has an answer
  kBaselessSeizure,   // a standby takes the key of a leader that lives
};

struct EtcdRun {
  uint64_t appended = 0;  // that were acknowledged
  uint64_t reads = 0;
  uint64_t takeovers = 0;
  uint64_t snapshots = 0;
  std::vector<std::string> violations;
  std::string trace;  // of a run that was asked for it
};

EtcdRun SimulateEtcd(uint64_t seed, EtcdMutation mutation = EtcdMutation::kNone,
                     bool traces = false);

}  // namespace lockstep::etcd
