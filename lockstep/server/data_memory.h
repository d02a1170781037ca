// What the data service keeps, counted from its records. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "lockstep/data/dispatch/records.h"

namespace lockstep::server {

// About as it costs: what nodes of maps add is part of the constants. Thread-compatible. Ownership:
// nothing but numbers. Bounds: one number for each dataset, iteration and consumer that is.
class DataMemory {
 public:
  // What became of something. Each record once, in their order.
  void Count(const dispatch::Record& record);

  size_t datasets() const { return datasets_sum_; }      // definitions and manifests
  size_t iterations() const { return iterations_sum_; }  // with their tasks and consumers

 private:
  using ConsumerKey = std::pair<dispatch::IterationId, dispatch::ConsumerId>;

  void AddDataset(dispatch::DatasetId dataset, size_t bytes);
  void AddIteration(dispatch::IterationId iteration, size_t bytes);
  void AddConsumer(const ConsumerKey& key, size_t bytes);

  std::map<dispatch::DatasetId, size_t> datasets_;
  std::map<dispatch::IterationId, size_t> iterations_;  // without consumers
  std::map<ConsumerKey, size_t> consumers_;
  size_t datasets_sum_ = 0;
  size_t iterations_sum_ = 0;
};

}  // namespace lockstep::server
