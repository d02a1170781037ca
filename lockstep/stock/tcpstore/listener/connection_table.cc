#include "lockstep/stock/tcpstore/listener/connection_table.h"

#include <memory>

#include "lockstep/base/check.h"

namespace lockstep::net {

ConnectionTable::ConnectionPtr ConnectionTable::Add(asio::ip::tcp::socket socket,
                                                    std::string peer) {
  const tcpstore::ConnectionId id(next_id_++);
  auto connection = std::make_shared<TorchStoreConnection>(id, std::move(socket), std::move(peer),
                                                           store_options_);
  connections_.emplace(id, connection);
  return connection;
}

ConnectionTable::ConnectionPtr ConnectionTable::Find(tcpstore::ConnectionId id) const {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second;
}

bool ConnectionTable::Close(TorchStoreConnection& connection) {
  if (!connection.Close()) return false;
  connections_.erase(connection.id());
  LOCKSTEP_DCHECK(memory_ >= connection.counted());
  memory_ -= connection.counted();
  return true;
}

void ConnectionTable::CloseAll() {
  for (const auto& [id, connection] : connections_) connection->Close();
  connections_.clear();
  memory_ = 0;
}

std::vector<std::pair<ConnectionTable::ConnectionPtr, std::string>> ConnectionTable::CheckProgress()
    const {
  std::vector<std::pair<ConnectionPtr, std::string>> still;
  for (const auto& [id, connection] : connections_) {
    std::string why = connection->CheckProgress();
    if (!why.empty()) still.emplace_back(connection, std::move(why));
  }
  return still;
}

bool ConnectionTable::Recount(TorchStoreConnection& connection) {
  if (connection.stage() == TorchStoreConnection::Stage::kClosed) return false;
  const size_t before = connection.counted();
  if (!connection.Recount()) return false;
  LOCKSTEP_DCHECK(memory_ >= before);
  memory_ += connection.counted() - before;
  return true;
}

}  // namespace lockstep::net
