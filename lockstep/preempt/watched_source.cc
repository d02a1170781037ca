#include "lockstep/preempt/watched_source.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/signals_blocked.h"
#include "lockstep/preempt/descriptor.h"
#include "lockstep/preempt/notice_book.h"

namespace lockstep::preempt {
namespace {

Now ReadClocks() { return {.steady = runtime::MonotonicNow(), .wall = absl::Now()}; }

class WatchedSource final : public Source {
 public:
  WatchedSource(std::string name, std::vector<std::unique_ptr<Watch>> watches)
      : name_(std::move(name)) {
    for (auto& watch : watches) {
      workers_.push_back(std::make_unique<Worker>(name_, std::move(watch)));
    }
  }
  ~WatchedSource() override { Stop(); }

  const std::string& name() const override { return name_; }

  absl::Status Start(SourceListener listener) override {
    LOCKSTEP_CHECK(!started_);
    listener_ = std::move(listener);
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (absl::Status status = workers_[i]->watch->Open(); !status.ok()) {
        while (i-- > 0) workers_[i]->watch->Close();
        return absl::Status(status.code(),
                            absl::StrCat("source '", name_, "': ", std::string(status.message())));
      }
    }
    started_ = true;
    const MutexLock installs_the_guard(runtime::ForkMutex());
    generation_ = runtime::ForkGeneration();
    const runtime::AllSignalsBlocked blocked;
    for (auto& worker : workers_) {
      worker->thread = std::thread([this, &worker = *worker] { Run(worker); });
    }
    return absl::OkStatus();
  }

  void Stop() override {
    if (!started_ || stopped_) return;
    stopped_ = true;
    // The threads stayed with the parent, and so did those who hear the descriptors.
    const bool forked = generation_ != runtime::ForkGeneration();
    stopping_ = true;
    for (auto& worker : workers_) {
      if (forked) {
        worker->thread.detach();
      } else {
        Interrupt(*worker);
      }
    }
    for (auto& worker : workers_) {
      if (worker->thread.joinable()) worker->thread.join();
      worker->watch->Close();
    }
  }

  SourceHealth health() const override {
    const MutexLock lock(mutex_);
    SourceHealth sum = counts_;
    sum.source = name_;
    sum.healthy = !workers_.empty();
    for (const auto& worker : workers_) {
      absl::StrAppend(&sum.detail, sum.detail.empty() ? "" : "; ", worker->watch->detail());
      sum.healthy = sum.healthy && worker->looked && worker->status.ok();
      sum.notices += worker->notices;
    }
    return sum;
  }

  void Acknowledge(const std::string& id) override {
    if (!started_ || stopping_ || generation_ != runtime::ForkGeneration()) return;
    for (auto& worker : workers_) {
      if (worker->watch->Acknowledge(id)) Interrupt(*worker);
    }
  }

 private:
  struct Worker {
    Worker(const std::string& name, std::unique_ptr<Watch> its_watch)
        : watch(std::move(its_watch)),
          book(name),
          interrupt(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
      LOCKSTEP_CHECK(interrupt.get() >= 0);
    }
    const std::unique_ptr<Watch> watch;
    NoticeBook book;
    const Descriptor interrupt;
    std::thread thread;
    // Guarded by `mutex_`.
    bool looked = false;
    absl::Status status;
    int64_t notices = 0;
  };

  static void Interrupt(const Worker& worker) { ::eventfd_write(worker.interrupt.get(), 1); }

  void Run(Worker& worker) {
    std::minstd_rand random(std::random_device{}());
    std::uniform_real_distribution<double> spread(0.9, 1.1);
    while (!stopping_) {
      const Sight sight = worker.watch->Look(&ReadClocks, worker.interrupt.get());
      if (stopping_) return;
      if (!absl::IsCancelled(sight.health)) {
        Tell(worker, sight);
        const Time next = runtime::MonotonicNow() + sight.next * spread(random);
        if (sight.next > absl::ZeroDuration()) {
          WaitFor(-1, 0, worker.interrupt.get(), next);
        }
      }
      if (stopping_) return;
      // Read after the flag: an interruption that is taken away here came to look again.
      eventfd_t ignored = 0;
      ::eventfd_read(worker.interrupt.get(), &ignored);
      if (stopping_) return;
    }
  }

  void Tell(Worker& worker, const Sight& sight) {
    LOCKSTEP_DCHECK(started_);
    const MutexLock telling(telling_);
    const Time now = runtime::MonotonicNow();
    std::vector<SourceEvent> events;
    if (sight.notices) events = worker.book.Update(now, *sight.notices);
    bool turned = false;
    {
      const MutexLock lock(mutex_);
      turned = !worker.looked || worker.status.ok() != sight.health.ok();
      worker.looked = true;
      worker.status = sight.health;
      worker.notices = static_cast<int64_t>(worker.book.size());
      if (sight.health.ok()) {
        ++counts_.successes;
        counts_.last_success = now;
      } else {
        ++counts_.failures;
        counts_.last_error = std::string(sight.health.message());
        counts_.last_error_at = now;
      }
    }
    for (const SourceEvent& event : events) {
      if (stopping_) return;
      if (listener_.on_event) listener_.on_event(event);
    }
    if (turned && listener_.on_health && !stopping_) listener_.on_health(health());
  }

  const std::string name_;
  std::vector<std::unique_ptr<Worker>> workers_;
  SourceListener listener_;
  bool started_ = false;
  bool stopped_ = false;
  uint64_t generation_ = 0;
  std::atomic<bool> stopping_ = false;
  Mutex telling_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable Mutex mutex_;
  SourceHealth counts_ ABSL_GUARDED_BY(mutex_);  // of all workers together
};

}  // namespace

std::unique_ptr<Source> MakeWatchedSource(std::string name,
                                          std::vector<std::unique_ptr<Watch>> watches) {
  return std::make_unique<WatchedSource>(std::move(name), std::move(watches));
}

}  // namespace lockstep::preempt
