#include "lockstep/data/engine/function_pool.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"

namespace lockstep::engine {
namespace {

std::string KeyOf(const Function& function) {
  return absl::StrCat(function.reference, "\n", ToText(function.input), "\n",
                      ToText(function.output));
}

FunctionPoolOptions WithDefaults(FunctionPoolOptions options) {
  if (options.hosts_max == 0) {
    options.hosts_max = std::max<size_t>(1, std::thread::hardware_concurrency());
  }
  return options;
}

absl::Status Stopped() { return absl::CancelledError("Python functions are not run any more"); }

}  // namespace

FunctionPool::FunctionPool(FunctionPoolOptions options)
    : options_(WithDefaults(std::move(options))), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
FunctionPool::~FunctionPool() = default;

void FunctionPool::Stop() {
  std::map<std::string, std::vector<std::unique_ptr<FunctionHost>>>
      idle;  // ended without the mutex
  const MutexLock lock(mutex_);
  stopped_ = true;
  for (const auto& [key, hosts] : idle_) hosts_ -= hosts.size();
  idle.swap(idle_);
  ::eventfd_write(stop_.get(), 1);
  returned_.NotifyAll();
}

size_t FunctionPool::hosts() const {
  const MutexLock lock(mutex_);
  return hosts_;
}

absl::Status FunctionPool::Check(const std::string& reference) const {
  return options_.allowance.Find(reference).status();
}

absl::StatusOr<std::unique_ptr<FunctionHost>> FunctionPool::Borrow(const std::string& key,
                                                                   const Function& function) {
  const auto grant = options_.allowance.Find(function.reference);
  if (!grant.ok()) return grant.status();
  std::unique_ptr<FunctionHost> other;  // ended outside of the mutex
  {
    const MutexLock lock(mutex_);
    for (;;) {
      if (stopped_) return Stopped();
      if (const auto idle = idle_.find(key); idle != idle_.end()) {
        LOCKSTEP_DCHECK(!idle->second.empty());
        std::unique_ptr<FunctionHost> host = std::move(idle->second.back());
        idle->second.pop_back();
        if (idle->second.empty()) idle_.erase(idle);
        return host;
      }
      if (hosts_ < options_.hosts_max) {
        ++hosts_;
        break;
      }
      if (!idle_.empty()) {  // of another function, which makes room
        const auto first = idle_.begin();
        other = std::move(first->second.back());
        first->second.pop_back();
        if (first->second.empty()) idle_.erase(first);
        break;
      }
      returned_.Wait(mutex_);
    }
  }
  other = nullptr;
  auto host = FunctionHost::Start(options_.python, function, *grant, stop_.get());
  if (!host.ok()) Return(key, nullptr);
  return host;
}

void FunctionPool::Return(const std::string& key, std::unique_ptr<FunctionHost> host) {
  const MutexLock lock(mutex_);
  if (host == nullptr || stopped_) {
    LOCKSTEP_DCHECK(hosts_ > 0);
    --hosts_;
  } else {
    idle_[key].push_back(std::move(host));
  }
  returned_.NotifyAll();
}

absl::Status FunctionPool::CallInto(const std::string& key, const Function& function,
                                    std::span<const Element> elements,
                                    std::span<FunctionResult> results) {
  absl::Status failed;
  LOCKSTEP_DCHECK(!elements.empty() && results.size() == elements.size());
  const int tries = elements.size() == 1 ? 2 : 1;
  for (int i = 0; i < tries; ++i) {
    auto host = Borrow(key, function);
    if (!host.ok()) return host.status();
    auto called = (*host)->Call(elements, function.timeout, allocator_);
    if (called.ok()) {
      Return(key, *std::move(host));
      std::move(called->begin(), called->end(), results.begin());
      return absl::OkStatus();
    }
    host->reset();
    Return(key, nullptr);
    failed = called.status();
    if (absl::IsCancelled(failed)) return failed;
    if (absl::IsDeadlineExceeded(failed)) break;
  }
  if (elements.size() == 1) {
    results[0].error = absl::IsDeadlineExceeded(failed)
                           ? absl::StrCat(function.reference, " took longer than ",
                                          absl::FormatDuration(function.timeout), " and was killed")
                           : absl::StrCat(function.reference, ": ", std::string(failed.message()));
    return absl::OkStatus();
  }
  const size_t half = elements.size() / 2;
  absl::Status status = CallInto(key, function, elements.first(half), results.first(half));
  if (!status.ok()) return status;
  return CallInto(key, function, elements.subspan(half), results.subspan(half));
}

absl::StatusOr<std::vector<FunctionResult>> FunctionPool::Call(const Function& function,
                                                               std::span<const Element> elements) {
  std::vector<FunctionResult> results(elements.size());
  if (elements.empty()) return results;
  absl::Status status = CallInto(KeyOf(function), function, elements, results);
  if (!status.ok()) return status;
  return results;
}

}  // namespace lockstep::engine
