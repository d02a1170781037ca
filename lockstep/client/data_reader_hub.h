// The shell around a ConsumerMachine: its links, its clock, and the callers' threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/base/time.h"
#include "lockstep/client/client_shell.h"
#include "lockstep/client/data_reader.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/client/redialed_link.h"
#include "lockstep/client/worker_links.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/platform/runtime/address.h"

namespace lockstep {

// Threads: thread-safe. One mutex covers the machine; callers ask it themselves and take what was
// read ahead without another thread. Links belong to the loop of this process, which whoever waits
// drives (client::LoopDriver). Ownership: `Close` before letting go.
class DataReader::Impl : public std::enable_shared_from_this<DataReader::Impl> {
 public:
  static absl::StatusOr<std::shared_ptr<Impl>> Open(DataReaderOptions options);

  absl::StatusOr<std::optional<DataElement>> Next(const CallOptions& options);
  absl::Status Acknowledge(const ElementPlace& place);
  absl::Status AcknowledgeAll();
  absl::StatusOr<std::string> Cursor() const;
  std::vector<ReadMark> Marks() const;
  void Close();
  // Not in a forked child.
  bool here() const { return shell_.here(); }

  const std::string& name() const { return name_; }
  const std::string& consumer() const { return consumer_; }
  const std::string& element_spec() const { return element_spec_; }
  bool lease_had_ended() const { return lease_had_ended_; }
  const std::vector<ReadMark>& counted() const { return counted_; }
  DataReaderView View() const;

 private:
  // Who waits for an element, or for the reader to be open or closed.
  class Waiting;
  using WaitingPtr = std::shared_ptr<Waiting>;

  Impl(DataReaderOptions options, runtime::Address address);

  absl::StatusOr<std::string> CallServer(link::RequestKind kind, const std::string& payload,
                                         Time deadline);
  absl::Status Register(Time deadline);
  absl::Status OpenIteration(Time deadline);
  absl::Status Closed() const;
  absl::Status TimedOut(absl::Duration after) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What the machine wants. Hand-outs are given at once, the rest is left to the loop.
  void Take(dispatch::ConsumerEffects& effects, bool on_loop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostDrain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // On the loop.
  void Drain();
  void Send(dispatch::SendToDispatcher request);
  void Feed(dispatch::ConsumerEvent event);
  void Ring();
  void EndOnLoop();

  const runtime::Address address_;
  const std::string server_;
  const DataReaderOptions options_;
  std::string consumer_;
  client::ClientShell shell_;

  // Known once it is open.
  std::string name_;
  std::string element_spec_;
  std::string identity_;
  int64_t dataset_ = 0;
  bool lease_had_ended_ = false;
  std::vector<ReadMark> counted_;

  mutable Mutex mutex_;
  std::unique_ptr<dispatch::ConsumerMachine> machine_ ABSL_GUARDED_BY(mutex_);
  dispatch::ConsumerEffects scratch_ ABSL_GUARDED_BY(mutex_);
  std::vector<dispatch::SendToDispatcher> requests_ ABSL_GUARDED_BY(mutex_);  // for the loop
  std::vector<dispatch::SendRead> reads_ ABSL_GUARDED_BY(mutex_);
  bool posted_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_ask_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<dispatch::AskId, WaitingPtr> asks_ ABSL_GUARDED_BY(mutex_);
  // To the caller who asks at this moment.
  std::optional<dispatch::HandOut> handed_ ABSL_GUARDED_BY(mutex_);
  dispatch::AskId asking_ ABSL_GUARDED_BY(mutex_);
  WaitingPtr opening_ ABSL_GUARDED_BY(mutex_);
  WaitingPtr closing_ ABSL_GUARDED_BY(mutex_);
  absl::Status open_error_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool machine_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<int64_t, ElementPlace> last_places_ ABSL_GUARDED_BY(mutex_);  // by lane
  absl::Status server_away_ ABSL_GUARDED_BY(mutex_);  // OK: it was reached last time
  Time server_away_since_ ABSL_GUARDED_BY(mutex_);
  int64_t elements_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t stalls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration stalled_ ABSL_GUARDED_BY(mutex_);

  // The loop's.
  std::shared_ptr<client::RedialedLink> dispatcher_;
  const std::shared_ptr<client::WorkerLinks> workers_;
  bool ended_ = false;
};

}  // namespace lockstep
