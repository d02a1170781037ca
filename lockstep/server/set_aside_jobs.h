// Jobs of a former life of the server that this one serves to nobody.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/server/event_feed.h"
#include "lockstep/wire/store/entry.h"

namespace lockstep::server {

// By which the data service stands among the jobs that are set aside; no job can have this name.
inline constexpr std::string_view kDataServiceName = "@data";

// Its records cannot be used, or its address cannot be had: the records stay as they are until it
// is deleted.
struct SetAsideJob {
  std::string why;
  std::shared_ptr<std::vector<std::string>> entries =
      std::make_shared<std::vector<std::string>>();  // made by journal::NewEntry
  size_t bytes = 0;
};

// Threads: loop-confined, but everything may be called while the loop does not run. Bounds: those
// of the journal that had the records; they are in the memory's account.
class SetAsideJobs {
 public:
  // All outlive it.
  SetAsideJobs(CommitQueue& commits, EventFeed& feed, runtime::MemoryAccount& memory);

  const std::map<std::string, SetAsideJob>& jobs() const { return jobs_; }
  bool contains(std::string_view name) const { return jobs_.contains(std::string(name)); }
  // OK: it is not set aside. FAILED_PRECONDITION (`job_set_aside`; `data_set_aside` of the data
  // service): it is, and why.
  absl::Status Check(std::string_view name) const;

  // Sets it aside; of one that is already, the reason changes.
  void Add(std::string_view name, std::string why);
  // The journal says that it was deleted: of one that has no records yet.
  void Erase(const std::string& name) { jobs_.erase(name); }
  // An entry of the journal, in order: one of a job that is set aside is kept, so that it stays in
  // the journal.
  void Keep(const wire::store::ReadEntry& entry, std::string_view bytes);
  // Tells the feed of each, once.
  void Tell() const;
  // Deletes it on request, with its records: only of one that is set aside.
  void Delete(const std::string& name);

 private:
  CommitQueue& commits_;
  EventFeed& feed_;
  std::map<std::string, SetAsideJob> jobs_;
  runtime::MemoryShare share_;  // the records of all
};

}  // namespace lockstep::server
