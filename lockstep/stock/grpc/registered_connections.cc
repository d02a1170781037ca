#include "lockstep/stock/grpc/registered_connections.h"

namespace lockstep::net {

void RegisteredConnections::Registered(const std::string& peer, ServiceIncarnation service) {
  auto [entry, is_new] = attempts_.try_emplace(peer, service);
  entry->second = service;
  if (!is_new) return;
  oldest_.push_back(peer);
  while (attempts_.size() > connections_max_ || oldest_.size() > 2 * connections_max_) {
    attempts_.erase(oldest_.front());
    oldest_.pop_front();
  }
}

void RegisteredConnections::Forget(const std::string& peer) { attempts_.erase(peer); }

ServiceIncarnation RegisteredConnections::Find(const std::string& peer,
                                               ServiceIncarnation current) const {
  auto found = attempts_.find(peer);
  return found == attempts_.end() ? current : found->second;
}

}  // namespace lockstep::net
