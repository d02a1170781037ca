// The data service's dispatcher as a server runs it: its requests, its timer, its records.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/dispatcher.h"
#include "lockstep/observe/log_limiter.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/platform/runtime/work_thread.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/server/data_memory.h"
#include "lockstep/server/process_watch.h"
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
// Threads: loop-confined; checks definitions that are long on a thread of its own. Ownership: loop,
// queue and account must outlive it. Bounds: per link, those of the link (requests_in_flight_max);
// the server's account of memory, in which all of it is; kCheckedBytesMax;
// `journal_queue_bytes_max` for what waits for the disk, and again for large requests that wait
// here until there is less of it; else dispatch::Options.
class DataHost {
 public:
  // Of definitions that are being checked at a time: `definitions_checked_bytes_max`.
  static constexpr size_t kCheckedBytesMax = size_t{64} << 20;
  // Requests up to here never wait for a disk that is behind: signs of life among them.
  static constexpr size_t kSmallRequestBytes = size_t{16} << 10;
  // A view is put together once in so long at most, and takes a tenth of the loop's time at most.
  static constexpr absl::Duration kViewEvery = absl::Milliseconds(100);
  static constexpr int kViewPart = 10;

  // Encoded.
  using SharedView = std::shared_ptr<const std::string>;
  using Viewed = absl::AnyInvocable<void(SharedView)>;
  // Where the dispatcher's sentences for operators go.
  using Tell = std::function<void(dispatch::Severity, std::string)>;

  // `make_shape`, `service` and `first_id` of the options are filled in here.
  DataHost(runtime::Loop& loop, dispatch::Options options, bool keeps, CommitQueue& commits,
           size_t journal_queue_bytes_max, runtime::MemoryAccount& memory, Tell tell);
  ~DataHost();
  DataHost(const DataHost&) = delete;
  DataHost& operator=(const DataHost&) = delete;

  // Requests of wire::native::Route::kDispatcher.
  void Take(link::Request request, link::Responder responder);
  void Cancelled(link::LinkId link, uint64_t id);
  void Ended(link::LinkId link);
  // Whether a worker or consumer speaks over it.
  bool Holds(link::LinkId link) const {
    const auto found = speakers_.find(link);
    return found != speakers_.end() &&
           !(found->second.workers.empty() && found->second.consumers.empty());
  }
  // Whoever started the process says that it has ended.
  void ProcessEnded(const std::string& host, int64_t pid);
  // A job has lost the member that the process was. It is taken to have ended too, unless it is
  // heard here all the same: a consumer that lives keeps its place.
  void MemberLost(const std::string& host, int64_t pid);

  // What the journal had of it; then, when all has been given, `Resume`.
  void Restore(const wire::store::ReadData& record);
  // What it had is of no use: it is empty, and requests are refused with what `refusal` says, for
  // as long as that is not OK; null: they are not.
  void SetAside(std::function<absl::Status()> refusal);
  void Resume();
  // Empty while it is set aside: its records stay as they are.
  std::vector<dispatch::TimedRecord> Snapshot() const;

  // Of all that is when it is asked, or of later. Calls back at once or, when the last view is not
  // older than kViewEvery, once it is: everybody who asks meanwhile gets the same one.
  void AskView(Viewed viewed);
  dispatch::View View() const;
  const DataCounters& counters() const { return counters_; }

  // Answers every wait; refuses what comes later. Nothing is kept from here on.
  void Stop();

 private:
  struct Call {
    link::Responder responder;
    link::LinkId link;
    std::string identity;  // of a dataset that is being registered
    std::string element_spec;
  };
  using ConsumerKey = std::pair<dispatch::IterationId, dispatch::ConsumerId>;
  // What one link has open, and who speaks over it.
  struct Speaker {
    std::map<uint64_t, CallId> calls;  // by the request's id
    std::set<dispatch::WorkerId> workers;
    std::set<ConsumerKey> consumers;
  };
  struct Checked;

  template <class Message, class Then>
  void TakeAs(const link::Request& request, link::Responder responder, Then then);
  absl::Status Refusal() const { return refusal_ ? refusal_() : absl::OkStatus(); }
  // A large request that the disk has no room for at the moment.
  bool MustWait(const link::Request& request) const;
  bool Crowded() const;
  void Wait(link::Request request, link::Responder responder);
  void AwaitDisk();
  void TakeUpFirst();
  void TakeUp(link::Request request, link::Responder responder);
  // Answers who waits for a view, at once or in as many turns as the view takes.
  void MakeView();
  // The next step of the view that is in the making; false: it is done.
  bool StepOfView();
  void FinishView();
  void Register(const link::Request& request, link::Responder responder);
  void Registered(CallId call, Checked checked);
  void ConsumerOpened(const Call& call, const dispatch::IterationOpened& opened);
  void ConsumerSpeaks(link::LinkId link, const ConsumerKey& key);
  // Its process is said to have ended: its place is free, or will be when its link ends.
  void TakeEnd(const std::string& host, int64_t pid,
               std::set<std::pair<std::string, int64_t>>& of_linked);
  // Its link is gone: the end of its process is waited for, where that can be seen.
  void WatchConsumer(const dispatch::ConsumerProcess& process);
  // Refuses by name what the account has no room for; `bytes` of it would be kept.
  bool HasRoom(CallId call, size_t bytes);
  bool HasRoomFor(CallId call, const dispatch::OpenIteration& request);
  bool HasRoomFor(CallId call, const dispatch::WorkerPoll& request);
  template <class Event>
  bool HasRoomFor(CallId /*call*/, const Event& /*request*/) {
    return true;
  }
  void RefuseForMemory(CallId call, size_t bytes);
  void CountMemory();
  CallId Open(const link::Request& request, link::Responder responder);
  void Refuse(CallId call, const absl::Status& why);
  std::optional<Call> Close(CallId call);
  // False: the call that asked was refused.
  bool Handle(dispatch::Event event, CallId asked = {});
  // Now, or when it is durable.
  void Settle(dispatch::Effects effects);
  CommitQueue::Release Later(dispatch::Effects effects);
  void CarryOut(const dispatch::Effects& effects, bool durable);
  void ArmTimer();

  runtime::Loop& loop_;
  CommitQueue& commits_;
  runtime::MemoryAccount& memory_;
  const Tell tell_;
  const size_t definition_bytes_max_;
  const size_t journal_queue_bytes_max_;
  const dispatch::Options dispatcher_options_;
  std::optional<dispatch::Dispatcher> dispatcher_;  // is there
  std::function<absl::Status()> refusal_;           // null: it was never set aside
  runtime::Timer timer_;
  Time armed_for_ = Time::Infinite();
  bool keeps_ = true;
  uint64_t last_call_ = 0;
  absl::flat_hash_map<CallId, Call> calls_;
  absl::flat_hash_map<link::LinkId, Speaker> speakers_;
  std::map<dispatch::WorkerId, link::LinkId> link_of_worker_;
  std::map<ConsumerKey, link::LinkId> link_of_consumer_;
  ProcessWatch watch_;  // of consumers without a link
  // By host and pid: processes that have ended, as their launcher reports, of consumers whose link
  // still stands.
  std::set<std::pair<std::string, int64_t>> ended_processes_;
  // The same of members that their jobs have lost, until they are heard.
  std::set<std::pair<std::string, int64_t>> lost_members_;
  struct Waiting {
    link::Request request;
    link::Responder responder;
  };
  std::list<Waiting> waiting_;  // for the disk
  size_t waiting_bytes_ = 0;
  size_t checked_bytes_ = 0;  // of definitions that are being checked
  DataMemory kept_;
  runtime::MemoryShare share_;             // datasets, and what is asked of them
  runtime::MemoryShare iterations_share_;  // with their consumers, and the workers
  // A view that is put together, and who gets it. Who asks meanwhile gets the next.
  struct ViewMaking {
    std::vector<Viewed> viewers;
    dispatch::ViewCursor cursor;
    std::string bytes;
    absl::Duration spent;
  };
  std::optional<ViewMaking> making_;
  SharedView view_;
  bool view_is_current_ = false;  // nothing has happened since it was begun
  Time next_view_;
  std::vector<Viewed> viewers_;
  runtime::Timer view_timer_;
  DataCounters counters_;
  observe::LogLimiter notices_;
  // Gone with this, for what is still held or on its way then.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);

  runtime::WorkThread checker_;  // of definitions; the first to go, since it calls back
};

}  // namespace lockstep::server
