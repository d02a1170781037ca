// Runs an HTTP source's machine.
#pragma once

#include <memory>
#include <string>

#include "lockstep/base/mutex.h"
#include "lockstep/preempt/http_exchange.h"
#include "lockstep/preempt/http_machine.h"
#include "lockstep/preempt/watched_source.h"

namespace lockstep::preempt {

// The shell of an HttpMachine: asks what it says, and brings the answer back. Threads:
// `Acknowledge` from any, the rest as Watch.
class HttpWatch final : public Watch {
 public:
  // `detail`: what it looks at, for people. `exchange` is called without the mutex held.
  HttpWatch(std::string detail, std::unique_ptr<HttpMachine> machine, HttpExchange exchange)
      : detail_(std::move(detail)), machine_(std::move(machine)), exchange_(std::move(exchange)) {}

  // One request and its answer. CANCELLED when it was broken off: the machine then never hears of
  // it.
  Sight Look(Clock clock, int interrupt) override {
    HttpRequest request;
    {
      const MutexLock lock(mutex_);
      request = machine_->Ask(clock());
    }
    const absl::StatusOr<HttpMessage> answer = exchange_(request, interrupt);
    if (absl::IsCancelled(answer.status())) return {.health = answer.status()};
    const MutexLock lock(mutex_);
    return machine_->Take(clock(), answer);
  }

  // What the machine says; takes the mutex, so a request on its way does not hold it up.
  bool Acknowledge(const std::string& id) override {
    const MutexLock lock(mutex_);
    return machine_->Acknowledge(id);
  }

  // As it was constructed with; never changes.
  std::string detail() const override { return detail_; }

 private:
  const std::string detail_;
  Mutex mutex_;  // not held while an answer is waited for
  const std::unique_ptr<HttpMachine> machine_ ABSL_PT_GUARDED_BY(mutex_);
  const HttpExchange exchange_;
};

}  // namespace lockstep::preempt
