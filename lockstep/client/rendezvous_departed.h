// Members that are gone for the rendezvous, but may still look at our memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "asio/io_context.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/rendezvous/value.h"

namespace lockstep::client {

// A process that was lost may live, and read what was lent to it. Its values stay as they are until
// its end of the socket says that it has done with them. Threads: loop-confined. Bounds: what was
// lent, which the quota bounds. Ownership: of whoever is `owner`.
class DepartedPeers {
 public:
  explicit DepartedPeers(asio::io_context& io) : timer_(io) {}

  // `done`: whether it has done with `lent`.
  void Add(std::weak_ptr<void> owner, std::function<bool()> done,
           std::vector<rendezvous::Value> lent);
  // What is still looked at stays until this goes.
  void Stop() { timer_.cancel(); }

 private:
  struct Departed {
    std::function<bool()> done;
    std::vector<rendezvous::Value> lent;
  };

  void Look(std::weak_ptr<void> owner);

  std::vector<Departed> departed_;
  asio::steady_timer timer_;
};

}  // namespace lockstep::client
