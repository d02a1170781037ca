// Which host has a long answer from which other one. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::server {

// A tree over the hosts that an answer goes to: the first have it from the server, each other one
// from a host before it.
//
// Invariants: (1) who serves comes before whom it serves in `order`; (2) nobody serves more than
// Shape::children; (3) no host that is not to serve does; (4) a host that is to have it from the
// server does.
//
// Threads: immutable. Bounds: the hosts. Cost: linear in them.
class FanOutPlan {
 public:
  struct Shape {
    size_t roots = 16;    // have it from the server, at least, where there are so many
    size_t children = 8;  // of each host, at most
  };
  struct Host {
    bool direct = false;  // has it from the server in any case
    bool serves = true;   // may have children
  };
  static constexpr size_t kServer = static_cast<size_t>(-1);

  FanOutPlan(const std::vector<Host>& hosts, Shape shape);

  // In which to tell the hosts, so that who is asked knows what for.
  const std::vector<size_t>& order() const { return order_; }
  // From whom this host has it; kServer: from the server.
  size_t ParentOf(size_t host) const { return parents_[host]; }
  size_t roots() const { return roots_; }  // that have it from the server

 private:
  void Check(const std::vector<Host>& hosts, Shape shape) const;

  std::vector<size_t> order_;
  std::vector<size_t> parents_;
  size_t roots_ = 0;
};

}  // namespace lockstep::server
