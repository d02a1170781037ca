#include "lockstep/server/data_memory.h"

#include <string>
#include <variant>

namespace lockstep::server {
namespace {

// What each costs beside its texts. A consumer has a lane with its window of grants.
constexpr size_t kDatasetBytes = 1024;
constexpr size_t kIterationBytes = 4096;
constexpr size_t kConsumerBytes = 4096;
constexpr size_t kTaskBytes = 512;
constexpr size_t kTextBytes = 32;

size_t SizeOf(const dispatch::IterationSpec& spec) {
  size_t bytes = kIterationBytes + 2 * spec.name.size() + spec.cursor.size();
  for (const std::string& each : spec.worker_addresses) bytes += kTextBytes + each.size();
  // As it is, and read.
  return bytes + spec.cursor.size();
}

}  // namespace

void DataMemory::AddDataset(dispatch::DatasetId dataset, size_t bytes) {
  datasets_[dataset] += bytes;
  datasets_sum_ += bytes;
}

void DataMemory::AddIteration(dispatch::IterationId iteration, size_t bytes) {
  iterations_[iteration] += bytes;
  iterations_sum_ += bytes;
}

void DataMemory::AddConsumer(const ConsumerKey& key, size_t bytes) {
  size_t& is = consumers_[key];
  iterations_sum_ += bytes - is;
  is = bytes;
}

void DataMemory::Count(const dispatch::Record& record) {
  namespace record_of = dispatch::record;
  if (const auto* made = std::get_if<record_of::DatasetRegistered>(&record)) {
    // The identity is a key of an index as well, or the name.
    return AddDataset(made->dataset, kDatasetBytes + 2 * made->name.size() +
                                         made->definition.size() + made->element_spec.size());
  }
  if (const auto* resolved = std::get_if<record_of::DatasetResolved>(&record)) {
    // As it is, and what was made of it (data_shape.h).
    return AddDataset(resolved->dataset, 2 * resolved->manifest.size());
  }
  if (const auto* gone = std::get_if<record_of::DatasetForgotten>(&record)) {
    if (const auto node = datasets_.extract(gone->dataset)) datasets_sum_ -= node.mapped();
  } else if (const auto* opened = std::get_if<record_of::IterationOpened>(&record)) {
    AddIteration(opened->iteration, SizeOf(opened->spec));
  } else if (const auto* task = std::get_if<record_of::TaskAdded>(&record)) {
    AddIteration(task->iteration, kTaskBytes + task->home.size());
  } else if (const auto* over = std::get_if<record_of::IterationCollected>(&record)) {
    if (const auto node = iterations_.extract(over->iteration)) iterations_sum_ -= node.mapped();
    const auto first = consumers_.lower_bound({over->iteration, dispatch::ConsumerId()});
    auto last = first;
    for (; last != consumers_.end() && last->first.first == over->iteration; ++last) {
      iterations_sum_ -= last->second;
    }
    consumers_.erase(first, last);
  } else if (const auto* joined = std::get_if<record_of::ConsumerJoined>(&record)) {
    AddConsumer(
        {joined->iteration, joined->consumer},
        kConsumerBytes + 2 * joined->name.size() + joined->host.size() + joined->machine.size());
  } else if (const auto* left = std::get_if<record_of::ConsumerGone>(&record)) {
    const auto node = consumers_.extract({left->iteration, left->consumer});
    if (node) iterations_sum_ -= node.mapped();
  }
}

}  // namespace lockstep::server
