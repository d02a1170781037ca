// A Lockstep server: one loop, its jobs, and the link for our own programs. `lockstep-server` is a
// thin shell on it; any other C++ program can have one inside:
//
//   auto server = lockstep::server::Server::Start({.listen = {.host = "127.0.0.1", .port = 0},
//                                                  .jobs = {{.name = "digits", .size = 4}}});
//   ... (*server)->listen_address() is what its members call ...
//   (*server)->Stop();
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/runtime/end_limit.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/platform/runtime/stop_signals.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/server/counters.h"
#include "lockstep/server/data_host.h"
#include "lockstep/server/event_feed.h"
#include "lockstep/server/held_answers.h"
#include "lockstep/server/host_table.h"
#include "lockstep/server/http_listener.h"
#include "lockstep/server/job_host.h"
#include "lockstep/server/job_table.h"
#include "lockstep/server/link_listener.h"
#include "lockstep/server/native_listener.h"
#include "lockstep/server/node_group_host.h"
#include "lockstep/server/options.h"
#include "lockstep/server/ready_file.h"
#include "lockstep/server/server_view.h"
#include "lockstep/server/status_board.h"
#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::server {

// Everything that decides runs on one thread: the server's own after `Start`, or the one that calls
// `Run`. gRPC brings threads of its own, which only decode and encode. Logs through spdlog's
// default logger.
//
// Threads: `Drain`, `Stop`, `GrpcAddress`, `CurrentStatus` and `listen_address` are thread-safe;
// the others belong to the thread that made the server.
class Server {
 public:
  // Takes all addresses and serves on a thread of its own, until `Stop` or the destructor.
  // FAILED_PRECONDITION: an address is refused by the options. Otherwise an error names the address
  // that cannot be had.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // The same, but serves what comes in once `Run` is called.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(const ServerOptions& options);
  // Stops, if `Start` made it.
  ~Server();

  // One line for each address.
  std::vector<std::string> AddressLines() const;
  const std::string& listen_address() const { return link_->address(); }
  // Empty: not served.
  std::string http_address() const { return http_ ? http_->address() : ""; }
  const JobHost* FindJob(const std::string& name) const { return jobs_.Find(name); }
  // What the journal would be given in place of all its entries. While the loop does not run.
  journal::SnapshotSource Snapshot() const;

  // How long the turns of its loop last.
  runtime::TurnWatch& turns() { return loop_.turns(); }

  // Where stock clients call this job; empty when there is no such job. After `Start`.
  std::string GrpcAddress(const std::string& job);
  // What `lockstep status` shows, of all jobs. After `Start`; UNAVAILABLE once stopped.
  absl::StatusOr<wire::native::StatusReply> CurrentStatus();

  // Answers all waits, lets the answers go out, and returns when the server has ended. What `Start`
  // made; not on the server's own thread.
  void Stop();

  // --- For a program that is nothing but a server ---

  // From now on SIGTERM and SIGINT drain, and `end_timeout` later the process has ended, whatever
  // clients or the disk do; a second one ends it at once.
  void DrainOnSignals();

  // Runs until drained, or until the state cannot be written any more, which is returned. ABORTED:
  // another server leads, so this one is to be made again, without answering anybody. Writes the
  // ready file first. Once only.
  absl::Status Run();

  // Answers all waits, lets the answers go out and makes `Run` return.
  void Drain();

 private:
  explicit Server(const ServerOptions& options);
  absl::Status OpenState();
  void SayWhatWasThere();
  absl::Status StartJobs();
  absl::Status StartLink();
  // Gives a request to who answers it.
  void Hand(link::Request&& request, link::Responder&& responder,
            const link::Server::Handler& others);
  absl::Status WriteReadyFile();
  absl::Status StartHttp();

  void BeginEnd(int signal);
  void BeginDrain();
  void PartDrained();

  void TakeStatus(const link::Request& request, link::Responder responder);
  StatusSource MakeStatusSource();
  void WatchEvents(const link::Request& request, link::Responder responder);
  absl::Status Report(const wire::native::ProcessReport& report, const link::Rights& rights);
  void View(const std::string& job, HttpSource::Viewed viewed);
  // Counts for the view, a little in each turn.
  void CountJobs(std::shared_ptr<ServerView> view, std::shared_ptr<HttpSource::Viewed> viewed);
  std::vector<std::string> NotReady() const;
  // Whether a link that has one of the last places may keep it.
  bool Resumes(const link::Request& request) const;
  // Whether somebody is here by this link, who keeps its place.
  bool Holds(link::LinkId link) const;
  // Remembers the links over which launchers tell of processes.
  void Reports(const link::Request& request);
  wire::native::MemoryStatus Memory() const;
  // NOT_FOUND for events of a job that is not there.
  absl::Status CheckFollowed(const std::string& job, JobTable::Others others) const;

  // Calls `function` on the loop and waits for it. False: the server has stopped.
  bool OnLoop(const std::function<void()>& function);

  const ServerOptions options_;
  std::unique_ptr<runtime::EndLimit> end_limit_;  // since a signal; the last to go
  const Time started_;
  runtime::MemoryAccount memory_;
  runtime::Loop loop_;
  std::unique_ptr<runtime::StopSignals> signals_;  // null: they are not ours
  ReadyFile ready_file_;
  CommitQueue commits_;
  const std::shared_ptr<HeldAnswers> held_answers_;
  EventFeed feed_;
  Counters counters_;
  NativeListener native_;
  JobTable jobs_;
  DataHost data_;
  NodeGroupHost node_groups_;
  StatusBoard status_;
  absl::flat_hash_set<link::LinkId> reporters_;  // of processes of jobs; each while it stands
  std::unique_ptr<LinkListener> link_;
  std::unique_ptr<HttpListener> http_;  // null: not served

  std::unique_ptr<HostTable> hosts_;  // since `StartLink`; uses the parts above

  struct {
    bool begun = false;
    size_t parts_left = 0;
  } drain_;

  Mutex running_mutex_;  // held by who waits for the loop, so that it does not end meanwhile
  std::thread runner_ ABSL_GUARDED_BY(running_mutex_);  // after `Start`, until stopped
};

}  // namespace lockstep::server
