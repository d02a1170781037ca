#include "lockstep/stock/grpc/grpc_budget.h"

#include "grpcpp/resource_quota.h"

namespace lockstep::net {
namespace {

// No quota of a budget is smaller because of another one: with less gRPC could not take the
// messages of a few clients.
constexpr size_t kQuotaMin = size_t{32} << 20;

}  // namespace

std::shared_ptr<grpc::ResourceQuota> GrpcBudget::Enter(size_t most) {
  if (shared_.empty() || bytes_ / (shared_.size() + 1) >= kQuotaMin) {
    shared_.push_back({.quota = std::make_shared<grpc::ResourceQuota>("lockstep"), .most = most});
  }
  const auto fewest =
      std::min_element(shared_.begin(), shared_.end(),
                       [](const Shared& a, const Shared& b) { return a.listeners < b.listeners; });
  ++fewest->listeners;
  const std::shared_ptr<grpc::ResourceQuota> quota = fewest->quota;
  Divide();
  return quota;
}

void GrpcBudget::Leave(const std::shared_ptr<grpc::ResourceQuota>& quota) {
  for (auto it = shared_.begin(); it != shared_.end(); ++it) {
    if (it->quota != quota) continue;
    if (--it->listeners == 0) shared_.erase(it);
    break;
  }
  Divide();
}

void GrpcBudget::Divide() {
  for (const Shared& one : shared_) one.quota->Resize(std::min(quota_bytes(), one.most));
}

}  // namespace lockstep::net
