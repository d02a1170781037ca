// A job's side of the calls of stock clients that agents pass on.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/options.h"
#include "lockstep/server/native_listener.h"
#include "lockstep/stock/grpc/passed_calls.h"

namespace lockstep::server {

// Threads: loop-confined. Bounds: net::PassedCalls.
class PassedStockCalls final : public StockCalls {
 public:
  // `current`: the job's attempt. `clock`: that of its coordinator.
  PassedStockCalls(const std::vector<coord::RoleOptions>& roles, size_t connections_max,
                   std::function<ServiceIncarnation()> current, std::function<Time()> clock)
      : calls_(roles, connections_max), current_(std::move(current)), clock_(std::move(clock)) {}

  std::variant<coord::Event, wire::native::StockCallReply> Begin(
      const wire::native::StockCall& call, const coord::Caller& caller, std::string connection,
      std::string peer) override;
  wire::native::StockCallReply End(const coord::Reply& reply) override;
  void Left(CallId call) override { calls_.Left(call); }

 private:
  net::PassedCalls calls_;
  const std::function<ServiceIncarnation()> current_;
  const std::function<Time()> clock_;
};

}  // namespace lockstep::server
