#include "lockstep/agent/heartbeat_answers.h"

#include <utility>

namespace lockstep::agent {

void HeartbeatAnswers::Registered(uint64_t connection, const std::string& answer) {
  // Of processes that ended before their first heartbeat. The others wait for the server once.
  if (registered_.size() >= messages_max_) registered_.clear();
  registered_[connection] = answer;
}

HeartbeatAnswers::Reaction HeartbeatAnswers::Came(const std::string& message, uint64_t connection) {
  auto found = entries_.find(message);
  if (found == entries_.end()) {
    const auto registered = registered_.extract(connection);
    if (registered.empty() || !MakeRoom()) return {};
    found = entries_.emplace(message, Entry{.answer = registered.mapped()}).first;
  }
  Entry& entry = found->second;
  return {.answer = &entry.answer, .pass_on = !std::exchange(entry.under_way, true)};
}

void HeartbeatAnswers::Answered(const std::string& message, absl::StatusCode code,
                                const std::string& answer) {
  // The next one waits for what the server says: this member is in trouble.
  if (code != absl::StatusCode::kOk) {
    entries_.erase(message);
    return;
  }
  if (!entries_.contains(message) && !MakeRoom()) return;
  entries_[message] = {.answer = answer, .under_way = false};
}

bool HeartbeatAnswers::MakeRoom() {
  if (entries_.size() < messages_max_) return true;
  // Those of processes that have gone stay until then; who lives is answered once more.
  absl::erase_if(entries_, [](const auto& entry) { return !entry.second.under_way; });
  return entries_.size() < messages_max_;
}

}  // namespace lockstep::agent
