#include "lockstep/server/restored_events.h"

#include <algorithm>
#include <utility>

namespace lockstep::server {

void RestoredEvents::Add(const std::string& job,
                         const std::vector<wire::native::JobEvent>& events) {
  std::deque<wire::native::JobEvent>& all = jobs_[job];
  for (const wire::native::JobEvent& event : events) {
    if (all.size() == events_max_) all.pop_front();
    all.push_back(event);
  }
}

void RestoredEvents::TellTo(EventFeed& feed) {
  std::vector<std::pair<std::string, wire::native::JobEvent>> all;
  for (auto& [name, events] : jobs_) {
    for (wire::native::JobEvent& event : events) all.emplace_back(name, std::move(event));
  }
  jobs_.clear();
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second.at_unix_us < b.second.at_unix_us;
  });
  for (auto& [name, event] : all) feed.Restore(name, std::move(event));
}

}  // namespace lockstep::server
