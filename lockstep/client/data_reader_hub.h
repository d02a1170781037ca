// The shell around a ConsumerMachine: its links, its clock, and the callers' threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/base/time.h"
#include "lockstep/client/client_shell.h"
#include "lockstep/client/data_reader.h"
#include "lockstep/client/dispatcher_link.h"
#include "lockstep/client/handed_elements.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/client/reader_asks.h"
#include "lockstep/client/worker_links.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/platform/link/servers.h"

namespace lockstep {

// Threads: thread-safe. One mutex covers the machine; callers ask it themselves and take what was
// read ahead without another thread. Links belong to the loop of this process, which whoever waits
// drives (client::LoopDriver). Ownership: `Close` before letting go.
class DataReader::Impl : public std::enable_shared_from_this<DataReader::Impl> {
 public:
  // As DataReader::Open. Blocks up to `options.timeout`; after an error it is closed.
  static absl::StatusOr<std::shared_ptr<Impl>> Open(DataReaderOptions options);

  // As DataReader::Next. FAILED_PRECONDITION (forked); CANCELLED (cancelled): it is closed.
  absl::StatusOr<std::optional<DataElement>> Next(const CallOptions& options);
  // Errors as `Next`. A place that is not waited for changes nothing.
  absl::Status Acknowledge(const ElementPlace& place);
  // Lane after lane, up to the last place of each that was handed out.
  absl::Status AcknowledgeAll();
  // FAILED_PRECONDITION (forked); or the machine's error, in an order that has no cursor.
  absl::StatusOr<std::string> Cursor() const;
  // By lane. Empty in a forked child.
  std::vector<ReadMark> Marks() const;
  // Blocks until the server has heard of it, 2 s at most. Again: returns at once.
  void Close();
  // Not in a forked child.
  bool here() const { return shell_.here(); }

  // What it is called, once it is open.
  struct Identity {
    std::string name;  // of the iteration
    std::string consumer;
    std::string element_spec;
    bool lease_had_ended = false;
    std::vector<ReadMark> counted;
  };
  const Identity& identity() const { return identity_; }
  // In a forked child only `state` is filled in.
  DataReaderView View() const;

 private:
  // The dataset as the server knows it.
  struct Registered {
    int64_t dataset = 0;
    std::string identity;
    std::string element_spec;
  };
  // Who opens or closes the reader waits for this. Woken once.
  struct Signal : client::LoopDriver::Waiter {
    using client::LoopDriver::Waiter::Waiter;
    bool given = false;
  };
  // Where the reader is in its life, beyond what the machine knows.
  struct Registering {};  // there is no machine yet
  struct Opening {
    std::shared_ptr<Signal> done;
    absl::Status refused;  // by the server
  };
  struct Reading {};
  struct Closing {
    std::shared_ptr<Signal> machine_closed;
  };
  struct Ended {};  // its links are gone: nothing is sent any more
  using Phase = std::variant<Registering, Opening, Reading, Closing, Ended>;

  // What the machine wants of the loop and the loop has not taken yet.
  struct ForLoop {
    std::vector<dispatch::SendToDispatcher> requests;
    std::vector<dispatch::SendRead> reads;
    bool posted = false;  // the loop will look
  };

  Impl(DataReaderOptions options, std::shared_ptr<link::Servers> servers);

  absl::StatusOr<Registered> Register(Time deadline);
  absl::Status OpenIteration(const Registered& registered, Time deadline);
  dispatch::ConsumerOptions MachineOptions(const Registered& registered) const;
  // CANCELLED: `Close` was called.
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TimedOut(absl::Duration after) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What the machine wants. Hand-outs are given at once, the rest is left to the loop.
  void Take(dispatch::ConsumerEffects& effects, bool on_loop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // On the loop.
  void Drain();
  void Send(dispatch::SendToDispatcher request);
  void Feed(dispatch::ConsumerEvent event);
  void Ring();
  void EndOnLoop();

  const DataReaderOptions options_;
  Identity identity_;
  client::ClientShell shell_;
  const std::shared_ptr<client::DispatcherLink> dispatcher_;
  const std::shared_ptr<client::WorkerLinks> workers_;

  mutable Mutex mutex_;
  std::unique_ptr<dispatch::ConsumerMachine> machine_ ABSL_GUARDED_BY(mutex_);
  dispatch::ConsumerEffects scratch_ ABSL_GUARDED_BY(mutex_);
  ForLoop for_loop_ ABSL_GUARDED_BY(mutex_);
  client::ReaderAsks asks_ ABSL_GUARDED_BY(mutex_);
  client::HandedElements handed_ ABSL_GUARDED_BY(mutex_);
  Phase phase_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
