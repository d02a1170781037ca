// A Lockstep server: one loop, its jobs, and the link for our own programs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "asio/signal_set.hpp"
#include "lockstep/link/server.h"
#include "lockstep/observe/log_limiter.h"
#include "lockstep/runtime/loop.h"
#include "lockstep/server/counters.h"
#include "lockstep/server/event_feed.h"
#include "lockstep/server/http_door.h"
#include "lockstep/server/job_host.h"
#include "lockstep/server/job_table.h"
#include "lockstep/server/native_door.h"
#include "lockstep/server/options.h"
#include "lockstep/server/ready_file.h"
#include "lockstep/server/snapshot.h"
#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::server {

// Everything that decides runs on the thread that called `Run`; gRPC brings threads of its own,
// which only decode and encode.
//
// Threads: `Drain` is thread-safe; the others belong to the thread that calls `Run`.
class Server {
 public:
  // Takes all addresses and serves what comes in once `Run` is called. FAILED_PRECONDITION: an
  // address is refused by the options. Otherwise an error names the address that cannot be had.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server();

  // One line for each address.
  std::vector<std::string> AddressLines() const;
  const std::string& listen_address() const { return link_->address(); }
  // Empty: not served.
  std::string http_address() const { return http_ ? http_->address() : ""; }
  const JobHost* FindJob(const std::string& name) const { return jobs_.Find(name); }

  // From now on SIGTERM and SIGINT drain; a second one ends the process at once.
  void DrainOnSignals();

  // Runs until drained. Writes the ready file first. Once only.
  absl::Status Run();

  // Answers all waits, lets the answers go out and makes `Run` return.
  void Drain();

 private:
  explicit Server(const ServerOptions& options);
  absl::Status StartJobs();
  absl::Status StartLink();
  absl::Status StartHttp();

  void AwaitSignal();
  void BeginDrain();
  void PartDrained();

  absl::StatusOr<wire::native::StatusReply> Status(const wire::native::StatusRequest& request);
  void WatchEvents(const link::Request& request, link::Responder responder);
  absl::Status Report(const wire::native::ProcessReport& report);
  absl::StatusOr<Snapshot> TakeSnapshot(const std::string& job);
  // NOT_FOUND for events of a job that is not there.
  absl::Status CheckFollowed(const std::string& job) const;

  const ServerOptions options_;
  const Time started_;
  runtime::Loop loop_;
  asio::signal_set signals_;
  ReadyFile ready_file_;
  EventFeed feed_;
  Counters counters_;
  observe::LogLimiter link_notices_;
  NativeDoor native_;
  JobTable jobs_;
  std::unique_ptr<link::Server> link_;
  std::unique_ptr<HttpDoor> http_;  // null: not served

  bool draining_ = false;
  size_t parts_to_drain_ = 0;
};

}  // namespace lockstep::server
