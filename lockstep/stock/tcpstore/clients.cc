#include "lockstep/stock/tcpstore/clients.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "lockstep/base/check.h"
#include "lockstep/stock/tcpstore/rank_name.h"

namespace lockstep::tcpstore {

void Clients::Came(ConnectionId connection, std::string peer) {
  LOCKSTEP_DCHECK(!Has(connection));
  clients_[connection].peer = std::move(peer);
}

std::vector<std::string> Clients::Left(ConnectionId connection) {
  const auto found = clients_.find(connection);
  if (found == clients_.end()) return {};
  // Before the entry goes: others may have what it did not take.
  std::vector<std::string> passed_on = std::move(found->second.woken_for);
  clients_.erase(found);
  LOCKSTEP_DCHECK(woken_ >= passed_on.size());
  woken_ -= passed_on.size();
  return passed_on;
}

void Clients::Woken(ConnectionId connection, const std::string& queue) {
  clients_.at(connection).woken_for.push_back(queue);
  ++woken_;
}

std::vector<std::string> Clients::Asks(ConnectionId connection, const Command& command) {
  std::vector<std::string>& woken_for = clients_.at(connection).woken_for;
  // Most commands come from clients that were woken for nothing.
  if (woken_for.empty()) return {};
  if (const auto* pop = std::get_if<QueuePop>(&command)) {
    const auto taken = std::find(woken_for.begin(), woken_for.end(), pop->key);
    if (taken != woken_for.end()) {
      // It may come for the others with its next commands.
      woken_for.erase(taken);
      --woken_;
      return {};
    }
  }
  // It does something else: others may have what it was woken for.
  woken_ -= woken_for.size();
  return std::exchange(woken_for, {});
}

// For the invariant alone: it looks at every client.
size_t Clients::CountWoken(absl::string_view queue) const {
  size_t count = 0;
  for (const auto& [connection, client] : clients_) {
    count +=
        static_cast<size_t>(std::count(client.woken_for.begin(), client.woken_for.end(), queue));
  }
  return count;
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
