// The server of native clients in a simulation: coordinator, journal, links. It can die. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "lockstep/sim/durable_machine.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/schedule.h"
#include "lockstep/sim/trace.h"

namespace lockstep::sim {

struct NativeScenario;

// One end of a link, as the client has it.
struct LinkEvents {
  std::function<void(uint64_t number, const coord::Reply& reply)> answered;
  std::function<void()> broke;
};

// Does what lockstep/server does, in the same order: hands requests to the coordinator, keeps back
// what it wants to say until the records before it are durable, turns links that break into
// departures. Its journal takes time to be durable, in groups, and at a crash forgets what was not,
// or a part of it. Replies of one link arrive in order, after a while, as over TCP.
class NativeServer {
 public:
  using LinkId = uint64_t;

  // All references must outlive the server. `before_sync`: the mistake of a server that speaks
  // before its records are durable.
  NativeServer(Schedule& schedule, Random random, const NativeScenario& scenario,
               const MakeDurableMachine& make, Trace& trace, bool speaks_too_early);

  // --- The network ---

  // 0: nobody listens.
  LinkId Dial(LinkEvents events);
  // A request of the session, or a fact about it. Arrives later, unless the link breaks before.
  void Send(LinkId link, SessionId session, uint64_t number, coord::Event event);
  // Both ends hear of it, each in its time; `silent`: the server only by silence.
  void Break(LinkId link, bool silent);

  // --- Faults ---

  void Crash();
  bool up() const { return machine_ != nullptr; }

  // --- For the judges ---

  const std::string& failure() const { return failure_; }
  int64_t steps() const { return steps_; }
  int64_t crashes() const { return crashes_; }
  int64_t forgotten() const { return forgotten_; }
  coord::CoordinatorView View() const { return machine_->View(schedule_.now()); }
  size_t durable_records() const { return durable_.size(); }

 private:
  struct Link {
    LinkEvents events;
    SessionId session;
    bool client_end = true;
    bool server_end = true;
    Time last_up;    // when the last message to the server arrives
    Time last_down;  // and the last to the client
  };
  struct Call {
    LinkId link;
    uint64_t number;
  };
  // Effects that wait for their records, and for those before them.
  struct Batch {
    std::vector<coord::TimedRecord> records;
    std::vector<coord::Reply> replies;
  };

  void Restart();
  void Arrived(LinkId link, SessionId session, uint64_t number, coord::Event event);
  void Handle(coord::Event event);
  void BecomeDurable(size_t batches);
  void SyncLater();
  void Speak(const coord::Reply& reply);
  void DropServerEnd(LinkId link, bool tell_session, bool silent);
  void Arm();
  absl::Duration Delay();

  Schedule& schedule_;
  Random random_;
  const NativeScenario& scenario_;
  const MakeDurableMachine make_;
  Trace& trace_;
  const bool speaks_too_early_;

  std::unique_ptr<DurableMachine> machine_;
  uint64_t life_ = 0;  // of the server; what belongs to an older one is void
  std::vector<coord::TimedRecord> durable_;
  std::deque<Batch> waiting_;
  bool syncing_ = false;
  Time armed_ = Time::Infinite();

  std::map<LinkId, Link> links_;
  std::map<SessionId, LinkId> link_of_;
  absl::flat_hash_map<CallId, Call> calls_;
  LinkId last_link_ = 0;
  uint64_t last_call_ = 0;

  int64_t steps_ = 0;
  int64_t crashes_ = 0;
  int64_t forgotten_ = 0;
  std::string failure_;
};

}  // namespace lockstep::sim
