#include "lockstep/server/fan_out_plan.h"

#include "lockstep/base/check.h"

namespace lockstep::server {

FanOutPlan::FanOutPlan(const std::vector<Host>& hosts, Shape shape)
    : parents_(hosts.size(), kServer) {
  order_.reserve(hosts.size());
  const auto add = [&](bool direct, bool serves) {
    for (size_t i = 0; i < hosts.size(); ++i) {
      if (hosts[i].direct == direct && hosts[i].serves == serves) order_.push_back(i);
    }
  };
  // Whoever serves stands before whoever does not, so that the tree is as flat as it can be.
  add(/*direct=*/true, /*serves=*/true);
  const size_t direct = order_.size();
  add(/*direct=*/false, /*serves=*/true);
  const size_t servers = order_.size();
  add(/*direct=*/false, /*serves=*/false);
  const size_t in_tree = order_.size();
  add(/*direct=*/true, /*serves=*/false);

  const size_t roots = direct > shape.roots ? direct : shape.roots;
  for (size_t place = roots; place < in_tree; ++place) {
    const size_t parent = (place - roots) / shape.children;
    // Too few serve: the rest has it from the server.
    if (parent < servers) parents_[order_[place]] = order_[parent];
  }
  for (const size_t parent : parents_) roots_ += parent == kServer ? 1 : 0;
  Check(hosts, shape);
}

void FanOutPlan::Check(const std::vector<Host>& hosts, Shape shape) const {
#ifndef NDEBUG
  std::vector<size_t> children(hosts.size(), 0);
  std::vector<bool> told(hosts.size(), false);
  LOCKSTEP_DCHECK(order_.size() == hosts.size());
  for (const size_t host : order_) {
    told[host] = true;
    const size_t parent = parents_[host];
    if (parent == kServer) continue;
    LOCKSTEP_DCHECK(told[parent]);
    LOCKSTEP_DCHECK(++children[parent] <= shape.children);
    LOCKSTEP_DCHECK(hosts[parent].serves);
    LOCKSTEP_DCHECK(!hosts[host].direct);
  }
#else
  static_cast<void>(hosts);
  static_cast<void>(shape);
#endif
}

}  // namespace lockstep::server
