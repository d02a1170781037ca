// A data worker: makes elements of datasets for consumers, as the dispatcher shares them out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/data/engine/dataset.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/data/worker/dispatcher_link.h"
#include "lockstep/data/worker/file_resolver.h"
#include "lockstep/data/worker/introduction.h"
#include "lockstep/data/worker/read_service.h"
#include "lockstep/data/worker/segment_cache.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/peer_owner.h"
#include "lockstep/wire/native/data_service_messages.h"

namespace lockstep::data {

// Of what workers, consumers and dispatcher agree on.
inline constexpr int32_t kWorkerVersion = 1;

struct WorkerOptions {
  std::shared_ptr<link::Servers> dispatcher =
      link::Servers::Of({.host = "127.0.0.1", .port = 7070});
  // Where consumers call; port 0: the system chooses.
  std::string listen = "127.0.0.1:0";
  // What they are told to call; empty: as it listens.
  std::string advertise;
  // Of this host's users, who may read at an address that only this host can reach.
  runtime::AllowedPeers allowed;
  // Serves by TLS, and only consumers that know a secret, which the dispatcher gives them.
  bool secure = false;
  // Directories whose files may be read; empty: any.
  std::vector<std::string> allow_paths;
  std::vector<std::string> tags;
  // What runs Python functions of datasets; null: such datasets are refused.
  std::shared_ptr<engine::FunctionRunner> functions;
  SegmentCacheOptions cache;
  // Consumers of this host read elements where they lie.
  bool share_memory = true;
  // Random, and not 0; chosen when it is 0.
  uint64_t uid = 0;
  absl::Duration poll_wait = absl::Seconds(2);
  // How long one that leaves lets its consumers go elsewhere: `worker_drain_time`.
  absl::Duration drain_time = absl::Seconds(5);
  link::LinkOptions link;
  // A sentence for the log.
  std::function<void(std::string)> log = nullptr;
};

// Registers with the dispatcher and polls it for as long as it lives; comes back by itself when the
// dispatcher was away. Holds no promise: whatever it keeps can be made again elsewhere.
//
// Threads: loop-confined; segments are run on threads of the cache, files are listed on some of its
// own. Ownership: the loop must outlive it. Bounds: SegmentCacheOptions, `datasets_max`.
class Worker {
 public:
  // Binds; the dispatcher need not be there yet. `failed` is called, on the loop, when the
  // dispatcher does not take it: its version is another, its uid is another's.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(runtime::Loop& loop, WorkerOptions options,
                                                       std::function<void(absl::Status)> failed);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const std::string& address() const { return server_->address(); }
  bool registered() const { return dispatcher_is_ == DispatcherIs::kHere; }
  SegmentCacheStats cache_stats() const { return cache_->stats(); }
  const ReadServiceStats& read_stats() const { return reads_->stats(); }

  // Tells the dispatcher that it leaves, goes on answering until the consumers have gone elsewhere,
  // then says farewell and calls `done` on the loop.
  void Drain(std::function<void()> done);

 private:
  // As far as the log was told.
  enum class DispatcherIs { kNotReached, kHere, kAway };
  // One that is known here, or is being asked for.
  struct Dataset {
    std::shared_ptr<const SegmentSource> source;
    std::vector<ReadService::Found> waiting;
    Time last_used;
  };

  Worker(runtime::Loop& loop, WorkerOptions options, std::function<void(absl::Status)> failed);
  absl::Status Listen();
  static WorkerOptions WithArena(WorkerOptions options);

  void SendPoll(bool at_once);
  void Polled(absl::StatusOr<std::string> answer);
  void ReportTimes(wire::native::WorkerPoll& poll);
  void FindDataset(int64_t id, ReadService::Found found);
  void Load(int64_t id);
  void Loaded(int64_t id, absl::StatusOr<std::string> answer);
  void ForgetDatasets();
  void LookWhetherDrained();
  void Say(std::string text) const;

  runtime::Loop& loop_;
  WorkerOptions options_;
  const std::function<void(absl::Status)> failed_;
  Introduction shows_;
  const std::unique_ptr<SegmentCache> cache_;
  std::unique_ptr<ReadService> reads_;
  std::unique_ptr<link::Server> server_;
  std::unique_ptr<DispatcherLink> dispatcher_;

  std::map<int64_t, Dataset> datasets_;
  std::map<std::string, RunTotals> reported_;

  DispatcherIs dispatcher_is_ = DispatcherIs::kNotReached;
  int polls_ = 0;  // on their way
  uint64_t service_ = 0;
  int64_t version_ = 0;
  runtime::Timer retry_;
  runtime::Timer drain_;
  std::function<void()> drained_;
  Time drain_until_;
  bool leaving_told_ = false;
  uint64_t reads_seen_ = 0;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);

  FileResolver resolver_;  // the first to go: its threads post to the loop
};

}  // namespace lockstep::data
