// Lists the files of datasets for the dispatcher, on threads of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/data/worker/dispatcher_link.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/data_service_messages.h"

namespace lockstep::data {

struct FileResolverOptions {
  // Directories whose files may be listed; empty: any.
  std::vector<std::string> roots;
  // Of one list of files, and of those that a poll carries together but for the first: a poll is
  // one message.
  size_t manifest_bytes_max = 0;
  // A sentence for the log.
  std::function<void(std::string)> log;
};

// Owns what it found until a poll that carried it has arrived.
//
// Threads: loop-confined, with up to `resolvers_max` threads that nobody waits for: they may hang
// in a file system. Ownership: the loop and the link must outlive it. Bounds: each dataset once.
class FileResolver {
 public:
  // `found` is called on the loop when there is something new to report.
  FileResolver(runtime::Loop& loop, DispatcherLink& dispatcher, FileResolverOptions options,
               std::function<void()> found);
  ~FileResolver();
  FileResolver(const FileResolver&) = delete;
  FileResolver& operator=(const FileResolver&) = delete;

  // Lists the files of the dataset, unless that is under way.
  void Resolve(int64_t dataset);
  // What the next poll reports; what does not fit goes with a later one.
  const std::vector<wire::native::ResolveReport>& Report();
  // That poll has arrived.
  void NoteReported() { told_.clear(); }

 private:
  struct Threads;

  void Known(int64_t dataset, absl::StatusOr<std::string> answer);
  void Resolved(int64_t dataset, absl::StatusOr<plan::Manifest> manifest);

  runtime::Loop& loop_;
  DispatcherLink& dispatcher_;
  const FileResolverOptions options_;
  const std::function<void()> found_;
  std::set<int64_t> resolving_;
  std::vector<wire::native::ResolveReport> reports_;  // not told yet
  std::vector<wire::native::ResolveReport> told_;     // with the poll that is on its way
  const std::shared_ptr<Threads> threads_;
  // Gone with this, for answers that are still on their way then.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lockstep::data
