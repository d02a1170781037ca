// The data service's dispatcher as a server runs it: its requests, its timer, its records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/dispatcher.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/server/data_backlog.h"
#include "lockstep/server/data_budget.h"
#include "lockstep/server/data_calls.h"
#include "lockstep/server/data_definition_checks.h"
#include "lockstep/server/data_dispatcher.h"
#include "lockstep/server/data_effect_gate.h"
#include "lockstep/server/data_log.h"
#include "lockstep/server/data_process_ends.h"
#include "lockstep/server/data_speakers.h"
#include "lockstep/server/data_views.h"
#include "lockstep/wire/store/entry.h"

namespace lockstep::server {

// Counted since the start, for metrics.
struct DataCounters {
  uint64_t polls_of_workers = 0;
  uint64_t polls_of_consumers = 0;
  uint64_t refused = 0;  // requests that were answered with an error
  uint64_t records = 0;
};

// Feeds the dispatcher what comes over links and carries out what it wants: the timer at once;
// replies and events when the records that came with them, and all before, are durable.
// A link that ends becomes a CallLeft for each call that it had open, and the end of the worker's
// or consumers' link that spoke over it last.
//
// Threads: loop-confined; DataDefinitionChecks has a thread of its own. Ownership: loop, queue and
// account must outlive it. Bounds: per link, those of the link (requests_in_flight_max); the
// server's account of memory, in which all of it is; those of DataBacklog and DataDefinitionChecks;
// else dispatch::Options.
class DataHost {
 public:
  using SharedView = DataViews::SharedView;
  using Viewed = DataViews::Viewed;
  // Where the dispatcher's sentences for operators go.
  using Tell = DataLog::Tell;

  // `make_shape`, `service` and `first_id` of the options are filled in here.
  DataHost(runtime::Loop& loop, dispatch::Options options, bool keeps, CommitQueue& commits,
           size_t journal_queue_bytes_max, runtime::MemoryAccount& memory, Tell tell);
  ~DataHost();
  DataHost(const DataHost&) = delete;
  DataHost& operator=(const DataHost&) = delete;

  // Requests of wire::native::Route::kDispatcher. Each is answered once, unless its link ends.
  void Take(link::Request request, link::Responder responder);
  // The caller has stopped waiting: its request gets CANCELLED (cancelled), wherever that is.
  void Cancelled(link::LinkId link, uint64_t id);
  // No answer goes over it any more. Who spoke over it last may come back over another.
  void Ended(link::LinkId link);
  // Whether a worker or consumer speaks over it.
  bool Holds(link::LinkId link) const { return speakers_.IsUsed(link); }
  // A process of the job has ended, says a caller with these rights: only a consumer of that job
  // loses its place. Of which job a consumer without a token is, nobody knows, so that takes a
  // caller who speaks for all jobs.
  void ProcessEnded(const std::string& job, const link::Rights& rights, const std::string& host,
                    int64_t pid);
  // The job has lost the member that the process was. It is taken to have ended too, unless it is
  // heard here all the same: a consumer that lives keeps its place. `jobs_are_apart`: a consumer
  // without a job is not the member, whatever that one says of its host and process.
  void MemberLost(const std::string& job, bool jobs_are_apart, const std::string& host,
                  int64_t pid);

  // What the journal had of it; then, when all has been given, `Resume`.
  void Restore(const wire::store::ReadData& record);
  // What it had is of no use: it is empty, and requests are refused with what `refusal` says, for
  // as long as that is not OK; null: they are not.
  void SetAside(std::function<absl::Status()> refusal);
  // When all has been given: times run from now on, and processes that ended meanwhile are looked
  // for.
  void Resume();
  // Empty while it is set aside: its records stay as they are.
  std::vector<dispatch::TimedRecord> Snapshot() const;

  // As DataViews::Ask.
  void AskView(Viewed viewed) { views_.Ask(std::move(viewed)); }
  // At once, however large: `AskView` takes turns.
  dispatch::View View() const;
  const DataCounters& counters() const { return counters_; }

  // Answers every wait; refuses what comes later. Nothing is kept from here on.
  void Stop();

 private:
  using ConsumerKey = DataSpeakers::ConsumerKey;

  template <class Message, class Then>
  void TakeAs(const link::Request& request, link::Responder responder, Then then);
  void TakeUp(link::Request request, link::Responder responder);
  void Register(const link::Request& request, link::Responder responder);
  void Registered(CallId call, CheckedDefinition checked);
  void ConsumerSpeaks(link::LinkId link, const ConsumerKey& key);
  // Who says that the process has ended, when the link of its consumer stands.
  enum class EndOf { kProcess, kMember };
  void TakeEnd(const dispatch::ConsumerProcess& process, EndOf what);
  absl::Status CheckRoom(const dispatch::OpenIteration& request) const;
  absl::Status CheckRoom(const dispatch::WorkerPoll& request) const;
  template <class Event>
  absl::Status CheckRoom(const Event& /*request*/) const {
    return absl::OkStatus();
  }
  void CountMemory();
  void Refuse(CallId call, const absl::Status& why);
  // False: the call that asked was refused.
  bool Handle(dispatch::Event event, CallId asked = {});
  void CarryOut(const dispatch::Effects& effects, bool durable);

  CommitQueue& commits_;
  DataDispatcher dispatcher_;
  DataEffectGate gate_;
  DataCalls calls_;
  DataSpeakers speakers_;
  DataBudget budget_;
  DataLog log_;
  DataCounters counters_;
  // These call back, and go first.
  DataProcessEnds ends_;
  DataBacklog backlog_;
  DataViews views_;
  DataDefinitionChecks checks_;
};

}  // namespace lockstep::server
