#include "lockstep/launch/standstill.h"

namespace lockstep::launch {

void Standstill::Seen(Time now, int64_t pid, int64_t count) {
  const auto [found, is_new] = processes_.try_emplace(pid, Process{.count = count, .since = now});
  if (is_new) return;
  Process& process = found->second;
  if (process.count != count && !process.disturbed) process.since = now;
  process.count = count;
  process.disturbed = false;
}

void Standstill::Disturbed(int64_t pid) {
  if (const auto found = processes_.find(pid); found != processes_.end()) {
    found->second.disturbed = true;
  }
}

void Standstill::KeepOnly(const std::set<int64_t>& pids) {
  std::erase_if(processes_, [&](const auto& one) { return !pids.contains(one.first); });
}

std::optional<absl::Duration> Standstill::For(Time now, int64_t pid) const {
  const auto found = processes_.find(pid);
  if (found == processes_.end()) return std::nullopt;
  return now - found->second.since;
}

}  // namespace lockstep::launch
