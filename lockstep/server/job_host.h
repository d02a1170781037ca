// One job as a server runs it: its coordinator, its door for stock clients and its timer.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/coordinator.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/view.h"
#include "lockstep/net/stock_door.h"
#include "lockstep/runtime/address.h"
#include "lockstep/runtime/loop.h"
#include "lockstep/server/native_door.h"

namespace lockstep::server {

// Feeds the coordinator what happens and carries out what it wants: replies, each at the door that
// its call came through, then notices (one log line each), then the timer.
//
// Life: construct, Listen, Start, ... Stop, Shutdown, destroy. Stop and Shutdown are mandatory
// after Start. Threads: the loop's, or while it does not run; except `Shutdown`.
class JobHost final : public NativeJob {
 public:
  JobHost(runtime::Loop& loop, coord::CoordinatorOptions coordinator, NativeDoor& native,
          net::StockDoorOptions door = {});

  // Takes the address for stock clients.
  absl::Status Listen(const runtime::Address& at);
  void Start() { door_.Start(); }

  // What comes in at the doors, and what a launcher reports.
  void Handle(coord::Event event) override;

  coord::CoordinatorView View() const;
  const std::string& name() const { return name_; }
  const coord::CoordinatorOptions& options() const { return coordinator_.options(); }
  int32_t size() const { return options().size; }
  std::string grpc_address() const;

  // Members that are in the current attempt and have not left it.
  size_t CountConnected() const;
  size_t CountStockConnections() { return door_.CountConnections(); }

  // Whether it is deleted after a rest, and when somebody was seen to use it.
  bool temporary() const { return temporary_; }
  void set_temporary(bool temporary) { temporary_ = temporary; }
  Time last_used() const { return last_used_; }
  void set_last_used(Time at) { last_used_ = at; }

  // Answers every wait; refuses what comes later.
  void Stop();
  // Lets the answers go out, then ends the connections. Blocks for seconds, while the loop must
  // run: so not on the loop.
  void Shutdown();
  bool shutdown_blocks() const { return door_.anyone_came(); }

 private:
  void Tell(const coord::Notice& notice) const;
  void ArmTimer();

  const std::string name_;
  coord::Coordinator coordinator_;
  NativeDoor& native_;
  net::StockDoor door_;
  runtime::Timer timer_;
  Time armed_for_ = Time::Infinite();
  bool temporary_ = false;
  Time last_used_;
};

}  // namespace lockstep::server
