// The connections of one store's listener: who they are, and what they hold together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/listener/torch_store_connection.h"
#include "lockstep/stock/tcpstore/options.h"

namespace lockstep::net {

// Holds the connections that are open, and closes them: what is not in the table is closed, and
// counts for nothing.
//
// Threads: loop-confined. Bounds: the acceptor's.
class ConnectionTable {
 public:
  using ConnectionPtr = TorchStoreConnection::Ptr;

  // `store`: the bounds that requests are read with; it outlives the table's connections.
  explicit ConnectionTable(const tcpstore::StoreOptions& store) : store_options_(store) {}

  // Takes the socket over under an id that was never used before.
  ConnectionPtr Add(asio::ip::tcp::socket socket, std::string peer);
  // Null: it has left.
  ConnectionPtr Find(tcpstore::ConnectionId id) const;
  bool empty() const { return connections_.empty(); }

  // Closes it. False: it was closed before.
  bool Close(TorchStoreConnection& connection);
  // None is found any more, and what they held is not counted.
  void CloseAll();

  // Those that make no progress, each with the reason; at regular intervals.
  std::vector<std::pair<ConnectionPtr, std::string>> CheckProgress() const;

  // Counts anew what this one holds; false: `memory` is the same as before.
  bool Recount(TorchStoreConnection& connection);
  // What all of them hold, as it costs: their buffers, above all.
  size_t memory() const { return memory_; }

 private:
  const tcpstore::StoreOptions& store_options_;
  absl::flat_hash_map<tcpstore::ConnectionId, ConnectionPtr> connections_;
  size_t memory_ = 0;
  uint64_t next_id_ = 1;
};

}  // namespace lockstep::net
