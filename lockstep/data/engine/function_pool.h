// Python functions in processes of their own.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/data/engine/function_allowance.h"
#include "lockstep/data/engine/function_host.h"
#include "lockstep/data/engine/functions.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::engine {

struct FunctionPoolOptions {
  std::string python = "python3";
  // What it may run; by default nothing.
  FunctionAllowance allowance;
  // Processes at a time, of all functions; 0: as many as there are cores: `function_hosts_max`.
  size_t hosts_max = 0;
};

// Lends each call a process that has the function loaded, and starts one when none is idle. What an
// element does to its process is found out here: one that kills it, or takes too long, is looked
// for by halving the chunk, with a new process each time, and becomes that element's error. A
// process that died is given a second try, for something else may have killed it.
//
// Threads: thread-safe, by its mutex, which is not held while a function runs. A call that finds
// all processes busy waits. Bounds: `function_hosts_max`.
class FunctionPool final : public FunctionRunner {
 public:
  explicit FunctionPool(FunctionPoolOptions options);
  ~FunctionPool() override;

  // PERMISSION_DENIED with kFunctionRefused; CANCELLED: after `Stop`; else as FunctionHost::Start.
  absl::StatusOr<std::vector<FunctionResult>> Call(const Function& function,
                                                   std::span<const Element> elements) override;

  // By the allowance alone: starts no process.
  absl::Status Check(const std::string& reference) const override;

  // Kills the processes, also those that run.
  void Stop() override;

  size_t hosts() const;  // that live now

 private:
  absl::StatusOr<std::unique_ptr<FunctionHost>> Borrow(const std::string& key,
                                                       const Function& function);
  void Return(const std::string& key, std::unique_ptr<FunctionHost> host);
  absl::Status CallInto(const std::string& key, const Function& function,
                        std::span<const Element> elements, std::span<FunctionResult> results);

  const FunctionPoolOptions options_;
  const Allocator allocator_ = HeapAllocator();
  mutable Mutex mutex_;
  CondVar returned_;
  // Readable once it is stopped: those who wait for a process look at it too.
  const runtime::UniqueFd stop_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  size_t hosts_ ABSL_GUARDED_BY(mutex_) = 0;  // lent and idle
  std::map<std::string, std::vector<std::unique_ptr<FunctionHost>>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::engine
