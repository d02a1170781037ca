#include "lockstep/server/counters.h"

#include <string>

#include "lockstep/base/type_name.h"

namespace lockstep::server {
namespace {

// Metrics are labelled by the names of types: whoever renames one breaks dashboards
// (docs/metrics.md).
// Every reason and outcome has a place; one that had none would not be counted.
static_assert(static_cast<size_t>(coord::kLastReason) < kReasonsMax);
static_assert(static_cast<size_t>(coord::PreemptionOutcome::kNobodyAnswered) < kOutcomesMax);
template <class Variant>
std::string_view LabelOf(size_t index) {
  static const auto kLabels = [] {
    std::array<std::string, std::variant_size_v<Variant>> labels;
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = SnakeCase(kTypeNames<Variant>[i]);
    return labels;
  }();
  return kLabels.at(index);
}

}  // namespace

std::string_view EventName(size_t index) { return LabelOf<coord::Event>(index); }
std::string_view TorchCommandName(size_t index) { return LabelOf<tcpstore::Command>(index); }

}  // namespace lockstep::server
