#include "lockstep/platform/link/refused_connections.h"

#include <utility>

namespace lockstep::link {

std::string RefusedConnections::Add(asio::ip::tcp::socket socket, const Message& last,
                                    const std::string& why) {
  if (table_->size() >= max_) return "";  // the socket closes
  const uint64_t id = ++last_;
  const std::weak_ptr<Table> weak = table_;
  auto channel = std::make_shared<Channel>(std::move(socket), accept_secure_);
  auto connection =
      Connection::Start(io_, std::move(channel), options_,
                        {.message =
                             [weak, id, last, why](const Message&) {
                               const auto table = weak.lock();
                               if (table == nullptr) return;
                               const auto found = table->find(id);
                               if (found == table->end()) return;
                               found->second->Close(last, absl::ResourceExhaustedError(why));
                             },
                         .closed =
                             [weak, id](const absl::Status&) {
                               if (const auto table = weak.lock()) table->erase(id);
                             }});
  const std::string peer = connection->peer();
  table_->emplace(id, std::move(connection));
  return peer;
}

void RefusedConnections::Abandon() {
  for (auto& [id, connection] : *table_) connection->Abandon();
  table_->clear();
}

}  // namespace lockstep::link
