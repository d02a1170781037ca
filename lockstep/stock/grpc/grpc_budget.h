// How the listeners of a server share the memory that gRPC may hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace grpc {
class ResourceQuota;
}  // namespace grpc

namespace lockstep::net {

// What gRPC may hold for all listeners of a server, as quotas of equal size. As long as there is
// room for it each listener that serves has a quota of its own, so that what fills the memory of
// one job ends no calls of another; where there are more listeners, several share one. All quotas
// together are never more than the budget.
//
// Threads: loop-confined, or while the loop does not run. Outlives its listeners.
class GrpcBudget {
 public:
  explicit GrpcBudget(size_t bytes) : bytes_(bytes) {}

  // The quota of a listener that begins to serve, which has at most `most` from now on, and less as
  // others enter.
  std::shared_ptr<grpc::ResourceQuota> Enter(size_t most);
  // A listener ends. The quota goes with the last listener that shares it, and the others get more.
  void Leave(const std::shared_ptr<grpc::ResourceQuota>& quota);

  // How many there are, and what each may hold (less where its listeners want less).
  size_t quotas() const { return shared_.size(); }
  // The budget's equal part.
  size_t quota_bytes() const { return bytes_ / std::max<size_t>(1, shared_.size()); }

 private:
  struct Shared {
    std::shared_ptr<grpc::ResourceQuota> quota;
    size_t most = 0;
    size_t listeners = 0;
  };
  void Divide();

  const size_t bytes_;
  std::vector<Shared> shared_;
};

}  // namespace lockstep::net
