// The links of one reader to the data workers that it reads from: a pool, one link for each
// address.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "asio/io_context.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/client/redialed_link.h"
#include "lockstep/client/worker_memory.h"
#include "lockstep/data/consumer/consumer_machine.h"

namespace lockstep::client {

// Owns each worker's link and what the reader sees of its memory; asks for elements in shared
// memory where a worker offers that, and for bytes otherwise.
//
// Threads: loop-confined but for `totals`. Bounds: `links_max` links, but for those that a read is
// under way on. Ownership: `End` before letting go.
class WorkerLinks : public std::enable_shared_from_this<WorkerLinks> {
 public:
  using Answered = absl::AnyInvocable<void(dispatch::ConsumerEvent)>;
  struct Totals {
    int64_t reads = 0;            // that brought elements or a segment's end
    int64_t shared_elements = 0;  // of those read, in shared memory
  };

  WorkerLinks(asio::io_context& io, int32_t links_max) : io_(io), links_max_(links_max) {}
  WorkerLinks(const WorkerLinks&) = delete;
  WorkerLinks& operator=(const WorkerLinks&) = delete;

  // Calls back once, perhaps at once, with ReadAnswered or ReadFailed (CheckWorkerAnswer says
  // which); never after `End`.
  void Read(dispatch::SendRead read, Answered answered);
  // Says farewell to all.
  void End();

  // Since the reader was opened; thread-safe.
  Totals totals() const;

 private:
  struct Worker {
    std::shared_ptr<RedialedLink> link;
    std::unique_ptr<WorkerMemory> memory;
    int32_t reads = 0;       // under way
    uint64_t last_read = 0;  // of `reads_asked_`
  };

  // Of one life of a worker, as far as its address and card tell it from another.
  static std::string KeyOf(const dispatch::WorkerAddress& worker) {
    return worker.address + "\n" + worker.host_card;
  }
  Worker& Find(const dispatch::WorkerAddress& worker);
  // Workers come and go: ends the link that has not been used for the longest time.
  void ForgetOne();
  void ShareMemory(const std::string& key, Worker& worker);
  void TakeAnswer(dispatch::SendRead read, absl::StatusOr<std::string> answer, bool reached,
                  Answered answered);
  void Count(const struct WorkerAnswer& answer);

  asio::io_context& io_;
  const int32_t links_max_;
  std::map<std::string, Worker> workers_;  // by `KeyOf`
  uint64_t reads_asked_ = 0;
  bool ended_ = false;
  mutable Mutex mutex_;
  Totals totals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::client
