#include "lockstep/client/host_sources.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::client {
namespace {

using preempt::SourceEvent;
using preempt::SourceHealth;
using runtime::MonotonicNow;

// Whether it was told shows in what the job's preemptions do. Who is away now is told again by the
// session that the call is made on, for as long as that lives.
void Ignore(const absl::Status&) {}

}  // namespace

absl::StatusOr<std::unique_ptr<HostSources>> HostSources::Make(
    Options options, const preempt::SourceRegistry& registry, const preempt::Host& host) {
  auto made = preempt::MakeSources(options.specs, registry, host);
  if (!made.ok()) return made.status();
  std::unique_ptr<HostSources> self(new HostSources(std::move(options)));
  self->sources_ = std::make_unique<preempt::SourceSet>(
      *std::move(made),
      preempt::SourceListener{
          .on_event = [raw = self.get()](const SourceEvent& event) { raw->Tell(event); },
          .on_health = [raw =
                            self.get()](const SourceHealth& health) { raw->TellHealth(health); }});
  return self;
}

HostSources::~HostSources() { sources_->Stop(); }

absl::Status HostSources::Start(JobPreemptions job, std::vector<int32_t> members,
                                std::string host) {
  {
    const MutexLock lock(mutex_);
    job_ = std::move(job);
    members_ = std::move(members);
    host_ = std::move(host);
  }
  TellAgain();
  return sources_->Start();
}

DeathNotice HostSources::NoticeOf(const Standing& standing) const {
  DeathNotice notice = {.source = standing.event.source,
                        .event = standing.event.id,
                        .members = members_,
                        .host = host_,
                        .left = std::nullopt,
                        .text = standing.event.text};
  if (standing.death) {
    notice.left = std::max(*standing.death - MonotonicNow(), absl::ZeroDuration());
  }
  return notice;
}

void HostSources::Tell(const SourceEvent& event) {
  TellJob(event);
  if (!options_.changed) return;
  bool standing = false;
  Time death = Time::Infinite();
  {
    const MutexLock lock(mutex_);
    standing = !standing_.empty();
    for (const auto& [key, each] : standing_) death = std::min(death, each.death.value_or(death));
  }
  std::optional<absl::Duration> left;
  if (!death.is_infinite()) left = std::max(death - MonotonicNow(), absl::ZeroDuration());
  options_.changed(standing, left);
}

void HostSources::TellJob(const SourceEvent& event) {
  const MutexLock lock(mutex_);
  const auto key = std::make_pair(event.source, event.id);
  if (event.withdrawn) {
    const bool stood = standing_.erase(key) > 0;
    if (stood && job_) job_->WithdrawAsync(event.source, event.id, {}, Ignore);
    return;
  }
  const auto [at, is_new] = standing_.try_emplace(key);
  Standing& standing = at->second;
  standing.event = event;
  standing.death.reset();
  if (event.left) standing.death = MonotonicNow() + *event.left;
  if (!job_) return;
  // One that a former attempt has dealt with, and that is another now, is news to this one; to the
  // same attempt it is not.
  if (is_new || std::exchange(standing.over, false)) {
    job_->NotifyAsync(NoticeOf(standing), {}, Ignore);
  } else {
    job_->MoveAsync(NoticeOf(standing), {}, Ignore);
  }
}

void HostSources::TellAgain() {
  const MutexLock lock(mutex_);
  if (!job_) return;
  for (const auto& [key, standing] : standing_) {
    if (!standing.over) job_->NotifyAsync(NoticeOf(standing), {}, Ignore);
  }
}

void HostSources::SetMembers(std::vector<int32_t> members) {
  const MutexLock lock(mutex_);
  members_ = std::move(members);
}

void HostSources::PreemptionEnded(bool saved) {
  std::vector<std::pair<std::string, std::string>> over;
  {
    const MutexLock lock(mutex_);
    for (auto& [key, standing] : standing_) {
      if (!std::exchange(standing.over, true)) over.push_back(key);
    }
  }
  if (!saved) return;
  for (const auto& [source, id] : over) sources_->Acknowledge(source, id);
}

void HostSources::Say(std::string sentence) const {
  if (options_.say) options_.say(std::move(sentence));
}

void HostSources::TellHealth(const SourceHealth& health) {
  if (!health.healthy) {
    Say(absl::StrCat("notices of ", health.source, " (", health.detail,
                     ") cannot be seen: ", health.last_error));
  } else if (health.last_error.empty()) {
    Say(absl::StrCat("notices come from ", health.source, " (", health.detail, ")"));
  } else {
    Say(absl::StrCat("notices of ", health.source, " (", health.detail, ") can be seen again"));
  }
}

}  // namespace lockstep::client
