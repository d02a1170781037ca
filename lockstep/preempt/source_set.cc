#include "lockstep/preempt/source_set.h"

#include <utility>

#include "lockstep/base/mutex.h"

namespace lockstep::preempt {

SourceSet::SourceSet(std::vector<std::unique_ptr<Source>> sources, SourceListener listener)
    : sources_(std::move(sources)), listener_(std::move(listener)) {}

SourceSet::~SourceSet() { Stop(); }

absl::Status SourceSet::Start() {
  absl::Status first;
  for (const auto& source : sources_) {
    const absl::Status status = source->Start({
        .on_event =
            [this](const SourceEvent& event) {
              const MutexLock lock(calling_);
              if (listener_.on_event) listener_.on_event(event);
            },
        .on_health =
            [this](const SourceHealth& health) {
              const MutexLock lock(calling_);
              if (listener_.on_health) listener_.on_health(health);
            },
    });
    first.Update(status);
  }
  return first;
}

void SourceSet::Stop() {
  for (const auto& source : sources_) source->Stop();
}

std::vector<SourceHealth> SourceSet::health() const {
  std::vector<SourceHealth> all;
  for (const auto& source : sources_) all.push_back(source->health());
  return all;
}

void SourceSet::Acknowledge(const std::string& source, const std::string& id) {
  for (const auto& one : sources_) {
    if (one->name() == source) one->Acknowledge(id);
  }
}

}  // namespace lockstep::preempt
