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

namespace lockstep::server {

// Feeds the coordinator what happens and carries out what it wants: replies, then notices (one log
// line each), then the timer.
//
// Life: construct, Listen, Start, ... Stop, Shutdown, destroy. Stop and Shutdown are mandatory
// after Start. Threads: the loop's, or while it does not run; except `Shutdown`.
class JobHost {
 public:
  JobHost(runtime::Loop& loop, coord::CoordinatorOptions coordinator,
          net::StockDoorOptions door = {});

  // Takes the address for stock clients.
  absl::Status Listen(const runtime::Address& at);
  absl::Status Start();

  // What a launcher reports.
  void Handle(const coord::Event& event);

  coord::CoordinatorView View() const;
  const std::string& name() const { return name_; }
  int32_t size() const { return coordinator_.options().size; }
  std::string grpc_address() const;

  // Answers every wait; refuses what comes later.
  void Stop();
  // Lets the answers go out, then ends the connections. Blocks for seconds, while the loop must
  // run: so not on the loop.
  void Shutdown();

 private:
  void Tell(const coord::Notice& notice) const;
  void ArmTimer();

  const std::string name_;
  coord::Coordinator coordinator_;
  net::StockDoor door_;
  runtime::Timer timer_;
  Time armed_for_ = Time::Infinite();
};

}  // namespace lockstep::server
