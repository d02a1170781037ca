// A store as people look at it, put together. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/stock/tcpstore/clients.h"
#include "lockstep/stock/tcpstore/effects.h"
#include "lockstep/stock/tcpstore/key_space.h"
#include "lockstep/stock/tcpstore/store_waits.h"
#include "lockstep/stock/tcpstore/view.h"

namespace lockstep::tcpstore {

// The keys that are awaited longest come first; so many of them at most.
StoreView MakeView(const KeySpace& keys, const StoreWaits& waits, const Clients& clients,
                   size_t rows_max);

// The waits of one connection, which it takes back.
std::vector<GivenUp> WaitsGivenUp(const KeySpace& keys, const StoreWaits& waits,
                                  const Clients& clients, ConnectionId connection);

}  // namespace lockstep::tcpstore
