// First come: consumers that are gone, and what counted of their grants. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/dispatch/events.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/records.h"

namespace lockstep::dispatch {

// A consumer that had grants left when it departed: their numbers in its lane, and how many
// elements of each it had acknowledged. What it did beyond them is void.
struct DepartedConsumer {
  ConsumerId id;
  std::vector<int64_t> seqs;
  std::vector<int64_t> elements;
};

// Remembers departed consumers by name, so that one that comes back learns what counted.
// Part of the recorded state. Bounds: `most` of them; beyond that the oldest of the same name goes
// first, since it had its chance to come back.
class DepartedConsumers {
 public:
  explicit DepartedConsumers(size_t most) : most_(most) {}

  // Behind those of the same name; at the bound the oldest of them goes, or another name's.
  void Keep(const std::string& name, DepartedConsumer departed);
  // Whether grants of a consumer of this name were given back when it went.
  bool Has(const std::string& name) const { return by_name_.count(name) > 0; }
  // What counted of all consumers of this name.
  std::vector<LaneAck> CountedOf(const std::string& name) const;
  // A record for each, in the order in which `Keep` takes them back.
  void Snapshot(IterationId iteration, std::vector<Record>& out) const;

 private:
  size_t most_;
  size_t count_ = 0;  // of all names
  std::map<std::string, std::vector<DepartedConsumer>> by_name_;
};

}  // namespace lockstep::dispatch
