#include "lockstep/data/dispatch/departed_consumers.h"

#include <algorithm>
#include <cstddef>

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

void DepartedConsumers::Keep(const std::string& name, DepartedConsumer departed) {
  if (count_ >= most_ && !by_name_.empty()) {
    // One of the same name first: it had its chance to come back. Else any goes.
    auto from = by_name_.find(name);
    if (from == by_name_.end()) from = by_name_.begin();
    // A name is kept as long as it has consumers.
    LOCKSTEP_DCHECK(!from->second.empty() && count_ > 0);
    from->second.erase(from->second.begin());
    --count_;
    if (from->second.empty()) by_name_.erase(from);
  }
  by_name_[name].push_back(std::move(departed));
  ++count_;
  LOCKSTEP_DCHECK(by_name_.size() <= count_ && count_ <= std::max<size_t>(1, most_));
}

std::vector<LaneAck> DepartedConsumers::CountedOf(const std::string& name) const {
  std::vector<LaneAck> counted;
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return counted;
  for (const DepartedConsumer& departed : found->second) {
    for (size_t i = 0; i < departed.seqs.size(); ++i) {
      // First come: a consumer's lane has the consumer's number.
      counted.push_back({.lane = LaneId(departed.id.value()),
                         .seq = departed.seqs[i],
                         .elements = departed.elements[i]});
    }
  }
  return counted;
}

void DepartedConsumers::Snapshot(IterationId iteration, std::vector<Record>& out) const {
  for (const auto& [name, all] : by_name_) {
    for (const DepartedConsumer& departed : all) {
      out.push_back(record::LeaverKept{.iteration = iteration,
                                       .consumer = departed.id,
                                       .name = name,
                                       .seqs = departed.seqs,
                                       .elements = departed.elements});
    }
  }
}

}  // namespace lockstep::dispatch
