// The server of a simulated job whose stock clients call through agents. It can die. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/coord/options.h"
#include "lockstep/platform/link/frame.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/server/native_listener.h"
#include "lockstep/sim/durable_machine.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/schedule.h"
#include "lockstep/sim/stock/stock_mutation.h"
#include "lockstep/sim/trace.h"

namespace lockstep::sim {

// What goes wrong in a simulated world, and how slow it is.
struct StockTimes {
  absl::Duration delay_min;  // of a message
  absl::Duration delay_max;
  absl::Duration sync_max;  // until what the journal was given is durable
  absl::Duration silence;   // until a cut is noticed
};

// The server's own NativeListener, PassedStockCalls and Coordinator, with links, a clock and a
// journal that are simulated. What it says waits for the records before it. At a crash it forgets
// what was not durable, or a part of it. Messages of one link arrive in order, as over TCP.
class StockServer {
 public:
  using LinkId = link::LinkId;
  // The agent's end of a link.
  struct ClientEnd {
    std::function<void(link::Message&&)> message;
    std::function<void()> broke;
  };

  // All references outlive it, and it what `schedule` still holds of it.
  StockServer(Schedule& schedule, Random random, const coord::CoordinatorOptions& options,
              const StockTimes& times, Trace& trace, StockMutation mutant);
  ~StockServer();
  StockServer(const StockServer&) = delete;
  StockServer& operator=(const StockServer&) = delete;

  // Nothing: nobody listens.
  std::optional<LinkId> Dial(ClientEnd end);
  // Arrives later, unless the link breaks before.
  void Send(LinkId link, link::Message message);
  // Both ends notice, each in its time. `silent`: nobody closed it, it was cut.
  void Break(LinkId link, bool silent);

  // Dies, and comes back after that time.
  void Crash(absl::Duration down);
  // Stops as by SIGSTOP.
  void Pause(absl::Duration how_long);
  bool up() const { return life_ != nullptr; }

  const std::string& failure() const { return failure_; }
  int64_t crashes() const { return crashes_; }
  int64_t shared() const { return shared_; }  // calls that another one's answer answered
  int64_t steps() const { return steps_; }

 private:
  class Life;
  struct Link {
    ClientEnd end;
    bool client_end = true;
    bool server_end = true;
    Time last_up;                       // when the last message to the server arrives
    Time last_down;                     // and the last to the agent
    std::deque<link::Message> arrived;  // while the server stands still
    std::set<uint64_t> open;            // stock calls without an answer
  };
  // What is said when its records, and those before them, are durable.
  struct Batch {
    std::vector<coord::TimedRecord> records;
    std::vector<coord::Reply> replies;
  };

  void Restart();
  void TakeArrived(LinkId link);
  void Take(LinkId link, link::Message&& message);
  void Handle(coord::Event event);
  void BecomeDurable(size_t batches);
  void SaySpoken();
  void SyncLater();
  void Arm();
  void Down(LinkId link, link::Message message);
  void Answer(LinkId link, link::RequestKind kind, uint64_t id, link::Payload payload);
  void DropServerEnd(LinkId link, bool by_peer);
  absl::Duration Delay() { return random_.Between(times_.delay_min, times_.delay_max); }
  // Runs it later, if the server has not died until then.
  void InThisLife(absl::Duration after, std::function<void()> action);
  std::unique_ptr<DurableMachine> NewMachine() const;

  Schedule& schedule_;
  Random random_;
  const coord::CoordinatorOptions options_;
  const StockTimes times_;
  Trace& trace_;
  const StockMutation mutant_;

  std::unique_ptr<Life> life_;  // null: it is dead
  uint64_t lives_ = 0;
  std::vector<coord::TimedRecord> durable_;
  std::deque<Batch> waiting_;
  bool syncing_ = false;
  Time armed_ = Time::Infinite();
  Time paused_until_;
  std::map<LinkId, Link> links_;
  uint64_t last_link_ = 0;
  int64_t crashes_ = 0;
  int64_t shared_ = 0;
  int64_t steps_ = 0;
  std::string failure_;
};

}  // namespace lockstep::sim
