#include "lockstep/server/data_process_ends.h"

#include <utility>

namespace lockstep::server {
namespace {

constexpr size_t kEndedProcessesMax = 1000;

// Consumers' ids are of the whole dispatcher.
uint64_t WatchKeyOf(dispatch::ConsumerId consumer) {
  return static_cast<uint64_t>(consumer.value());
}

}  // namespace

DataProcessEnds::DataProcessEnds(runtime::Loop& loop, ProcessOf process_of, Ended ended)
    : process_of_(std::move(process_of)), is_ended_(std::move(ended)), watch_(loop) {}

void DataProcessEnds::Report(std::set<Process>& to, const dispatch::ConsumerProcess& process) {
  if (to.size() < kEndedProcessesMax) to.insert(KeyOf(process));
}

void DataProcessEnds::Opened(dispatch::IterationId iteration, dispatch::ConsumerId consumer) {
  const auto process = process_of_(iteration, consumer);
  if (process) ended_.erase(KeyOf(*process));
}

void DataProcessEnds::Speaks(dispatch::IterationId iteration, dispatch::ConsumerId consumer) {
  watch_.Forget(WatchKeyOf(consumer));
  if (lost_.empty()) return;
  const auto process = process_of_(iteration, consumer);
  if (process) lost_.erase(KeyOf(*process));
}

void DataProcessEnds::LinkEnded(const dispatch::ConsumerProcess& process) {
  const dispatch::ConsumerEnded fact{process.iteration, process.consumer, process.life};
  const Process who = KeyOf(process);
  if (ended_.erase(who) + lost_.erase(who) > 0) return is_ended_(fact);
  watch_.Watch(WatchKeyOf(process.consumer), process.machine, process.pid, process.started,
               [this, fact] { is_ended_(fact); });
}

}  // namespace lockstep::server
