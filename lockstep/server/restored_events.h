// What had happened in the jobs of a former life of the server, until the feed is told of it again.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "lockstep/server/event_feed.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::server {

// Threads: thread-compatible. Bounds: the newest `events_max` of each job.
class RestoredEvents {
 public:
  explicit RestoredEvents(size_t events_max) : events_max_(events_max) {}

  // The next of a job, in their order.
  void Add(const std::string& job, const std::vector<wire::native::JobEvent>& events);
  // The job is not there any more.
  void Erase(const std::string& job) { jobs_.erase(job); }
  // Gives all to the feed, by the time at which they happened, those of a job in their order; none
  // is left.
  void TellTo(EventFeed& feed);

 private:
  const size_t events_max_;
  std::map<std::string, std::deque<wire::native::JobEvent>> jobs_;
};

}  // namespace lockstep::server
