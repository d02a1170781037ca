#include "lockstep/tcpstore/clients.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "lockstep/tcpstore/rank_name.h"

namespace lockstep::tcpstore {

void Clients::Came(ConnectionId connection, std::string peer) {
  clients_[connection].peer = std::move(peer);
}

std::optional<std::string> Clients::Left(ConnectionId connection) {
  const auto found = clients_.find(connection);
  if (found == clients_.end()) return std::nullopt;
  std::optional<std::string> passed_on = std::move(found->second.woken_for);
  clients_.erase(found);
  return passed_on;
}

void Clients::Woken(ConnectionId connection, const std::string& queue) {
  clients_.at(connection).woken_for = queue;
}

std::optional<std::string> Clients::Asks(ConnectionId connection, const Command& command) {
  std::optional<std::string>& woken_for = clients_.at(connection).woken_for;
  if (!woken_for) return std::nullopt;
  const std::optional<std::string> queue = std::exchange(woken_for, std::nullopt);
  const auto* pop = std::get_if<QueuePop>(&command);
  if (pop != nullptr && pop->key == *queue) return std::nullopt;
  return queue;
}

size_t Clients::CountWoken(absl::string_view queue) const {
  return static_cast<size_t>(std::count_if(clients_.begin(), clients_.end(), [&](const auto& it) {
    return it.second.woken_for && *it.second.woken_for == queue;
  }));
}

void Clients::MadeKey(ConnectionId connection, absl::string_view key) {
  Client& client = clients_.at(connection);
  // The first one counts: later on a rank may set keys of others.
  if (!client.rank) client.rank = RankOfKey(key);
}

WaiterView Clients::View(ConnectionId connection, Time since) const {
  const Client& client = clients_.at(connection);
  return {.connection = connection, .peer = client.peer, .rank = client.rank, .since = since};
}

}  // namespace lockstep::tcpstore
