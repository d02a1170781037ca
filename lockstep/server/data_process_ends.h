// Which processes of consumers have ended, as far as others say or the host shows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "lockstep/data/dispatch/dispatcher.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/server/process_watch.h"

namespace lockstep::server {

// A link may stand for a while after its process has ended. So what is said of a process whose link
// stands counts when the link ends: the consumer's place is free at once then, and not only when
// its lease ends.
//
// Threads: loop-confined. Ownership: the loop must outlive it. Bounds: kEndedProcessesMax of each
// kind, beyond which reports are forgotten; ProcessWatch's descriptors.
class DataProcessEnds {
 public:
  using Ended = std::function<void(dispatch::ConsumerEnded)>;
  using ProcessOf = std::function<std::optional<dispatch::ConsumerProcess>(dispatch::IterationId,
                                                                           dispatch::ConsumerId)>;

  // `ended` is called on the loop, once for each consumer whose process has ended; `process_of`
  // says in which process a consumer runs.
  DataProcessEnds(runtime::Loop& loop, ProcessOf process_of, Ended ended);

  // Its launcher says that the process has ended, in which a consumer runs whose link stands.
  void ReportEnded(const dispatch::ConsumerProcess& process) { Report(ended_, process); }
  // A job has lost the member that the process was: it counts unless the process is heard again.
  void ReportLost(const dispatch::ConsumerProcess& process) { Report(lost_, process); }

  // The consumer is open: a new process may have the PID of one that ended.
  void Opened(dispatch::IterationId iteration, dispatch::ConsumerId consumer);
  // The consumer speaks over a link: it lives.
  void Speaks(dispatch::IterationId iteration, dispatch::ConsumerId consumer);
  // The consumer has no link: its process has ended, or its end is waited for where that can be
  // seen.
  void LinkEnded(const dispatch::ConsumerProcess& process);

 private:
  // Job, host and PID: the job is what a token says, the others what processes say of themselves.
  using Process = std::tuple<std::string, std::string, int64_t>;
  static Process KeyOf(const dispatch::ConsumerProcess& process) {
    return {process.job, process.host, process.pid};
  }
  static void Report(std::set<Process>& to, const dispatch::ConsumerProcess& process);

  const ProcessOf process_of_;
  const Ended is_ended_;
  ProcessWatch watch_;  // of consumers without a link
  std::set<Process> ended_;
  std::set<Process> lost_;
};

}  // namespace lockstep::server
