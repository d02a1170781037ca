#include "lockstep/client/rendezvous_departed.h"

#include <chrono>
#include <utility>

namespace lockstep::client {
namespace {

// Who is done with our memory says so by the end of a socket that nobody reads any more.
constexpr auto kLookEvery = std::chrono::milliseconds(20);

}  // namespace

void DepartedPeers::Add(std::weak_ptr<void> owner, std::function<bool()> done,
                        std::vector<rendezvous::Value> lent) {
  if (lent.empty()) return;
  departed_.push_back({std::move(done), std::move(lent)});
  Look(std::move(owner));
}

void DepartedPeers::Look(std::weak_ptr<void> owner) {
  std::erase_if(departed_, [](const Departed& each) { return each.done && each.done(); });
  if (departed_.empty()) return;
  timer_.expires_after(kLookEvery);
  timer_.async_wait([this, owner = std::move(owner)](const asio::error_code& error) mutable {
    const auto alive = owner.lock();
    if (!error && alive != nullptr) Look(std::move(owner));
  });
}

}  // namespace lockstep::client
