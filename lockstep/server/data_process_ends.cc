#include "lockstep/server/data_process_ends.h"

namespace lockstep::server {
namespace {

constexpr size_t kEndedProcessesMax = 1000;

// Consumers' ids are of the whole dispatcher.
uint64_t KeyOf(dispatch::ConsumerId consumer) { return static_cast<uint64_t>(consumer.value()); }

}  // namespace

DataProcessEnds::DataProcessEnds(runtime::Loop& loop, ProcessOf process_of, Ended ended)
    : process_of_(std::move(process_of)), is_ended_(std::move(ended)), watch_(loop) {}

void DataProcessEnds::Report(std::set<Process>& to, const std::string& host, int64_t pid) {
  if (to.size() < kEndedProcessesMax) to.emplace(host, pid);
}

void DataProcessEnds::Opened(dispatch::IterationId iteration, dispatch::ConsumerId consumer) {
  const auto process = process_of_(iteration, consumer);
  if (process) ended_.erase({process->host, process->pid});
}

void DataProcessEnds::Speaks(dispatch::IterationId iteration, dispatch::ConsumerId consumer) {
  watch_.Forget(KeyOf(consumer));
  if (lost_.empty()) return;
  const auto process = process_of_(iteration, consumer);
  if (process) lost_.erase({process->host, process->pid});
}

void DataProcessEnds::LinkEnded(const dispatch::ConsumerProcess& process) {
  const dispatch::ConsumerEnded fact{process.iteration, process.consumer, process.life};
  const Process who = {process.host, process.pid};
  if (ended_.erase(who) + lost_.erase(who) > 0) return is_ended_(fact);
  watch_.Watch(KeyOf(process.consumer), process.machine, process.pid, process.started,
               [this, fact] { is_ended_(fact); });
}

}  // namespace lockstep::server
