#include "lockstep/data/worker/file_resolver.h"

#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"
#include "lockstep/data/engine/resolve.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/kinds.h"

namespace lockstep::data {
namespace {

namespace native = wire::native;

// Datasets whose files are listed at a time: `resolvers_max`.
constexpr int kResolversMax = 4;

native::DataError ErrorOf(const absl::Status& status) {
  return {.code = static_cast<int32_t>(status.code()),
          .reason = native::ReasonOf(status),
          .message = {std::string(status.message())}};
}

}  // namespace

// Lists files on threads of its own, which nobody waits for: they may hang in a file system. A
// dataset that finds all of them hanging waits; the dispatcher asks another worker then.
struct FileResolver::Threads {
  Mutex mutex;
  CondVar changed;
  std::deque<std::function<void()>> work ABSL_GUARDED_BY(mutex);
  int threads ABSL_GUARDED_BY(mutex) = 0;
  int idle ABSL_GUARDED_BY(mutex) = 0;
  bool ends ABSL_GUARDED_BY(mutex) = false;

  static void Add(const std::shared_ptr<Threads>& self, std::function<void()> work) {
    const MutexLock lock(self->mutex);
    LOCKSTEP_DCHECK(self->idle <= self->threads && self->threads <= kResolversMax);
    self->work.push_back(std::move(work));
    if (self->idle < static_cast<int>(self->work.size()) && self->threads < kResolversMax) {
      ++self->threads;
      std::thread([self] { Run(self); }).detach();
    }
    self->changed.NotifyOne();
  }

  static void Run(const std::shared_ptr<Threads>& self) {
    while (const std::function<void()> work = self->Take()) work();
  }

  // Null: there will be none.
  std::function<void()> Take() {
    const MutexLock lock(mutex);
    ++idle;
    while (!ends && work.empty()) changed.Wait(mutex);
    --idle;
    if (ends) return nullptr;
    std::function<void()> first = std::move(work.front());
    work.pop_front();
    return first;
  }
};

FileResolver::FileResolver(runtime::Loop& loop, DispatcherLink& dispatcher,
                           FileResolverOptions options, std::function<void()> found)
    : loop_(loop),
      dispatcher_(dispatcher),
      options_(std::move(options)),
      found_(std::move(found)),
      threads_(std::make_shared<Threads>()) {}

FileResolver::~FileResolver() {
  const MutexLock lock(threads_->mutex);
  threads_->ends = true;
  threads_->changed.NotifyAll();
}

void FileResolver::Resolve(int64_t dataset) {
  if (!resolving_.insert(dataset).second) return;
  dispatcher_.Call(
      native::KindOf<native::GetDataset>::kKind,
      native::Encode(native::GetDataset{.dataset = dataset}),
      [this, alive = std::weak_ptr(alive_), dataset](absl::StatusOr<std::string> answer) {
        if (!alive.expired()) Known(dataset, std::move(answer));
      });
}

void FileResolver::Known(int64_t dataset, absl::StatusOr<std::string> answer) {
  LOCKSTEP_DCHECK(resolving_.contains(dataset));
  if (!answer.ok()) {
    resolving_.erase(dataset);  // the next orders say it again
    return;
  }
  auto reply = native::Decode<native::GetDatasetReply>(*answer);
  if (!reply.ok()) return Resolved(dataset, reply.status());
  auto definition = native::DecodeDefinition(reply->definition.data);
  if (!definition.ok()) return Resolved(dataset, definition.status());
  Threads::Add(threads_,
               [this, alive = std::weak_ptr(alive_), threads = threads_.get(), loop = &loop_,
                dataset, roots = options_.roots, definition = *std::move(definition)] {
                 auto manifest = engine::Resolve(definition, {.roots = roots});
                 // Where the worker has gone, the loop has too, or is about to.
                 const MutexLock ends_later(threads->mutex);
                 if (threads->ends) return;
                 loop->Post([this, alive, dataset, manifest = std::move(manifest)]() mutable {
                   if (!alive.expired()) Resolved(dataset, std::move(manifest));
                 });
               });
}

void FileResolver::Resolved(int64_t dataset, absl::StatusOr<plan::Manifest> manifest) {
  resolving_.erase(dataset);
  native::ResolveReport report{.dataset = dataset};
  std::string list;
  if (manifest.ok()) {
    list = native::EncodeManifest(*manifest);
    // No poll could ever be sent with it.
    if (list.size() > options_.manifest_bytes_max) {
      manifest = native::WithReason(
          absl::ResourceExhaustedError(absl::StrFormat(
              "the list of its %d files has %d bytes; the limit is %d: use fewer, larger files",
              manifest->files.size(), list.size(), options_.manifest_bytes_max)),
          "limit_exceeded");
    }
  }
  if (manifest.ok()) {
    report.files = static_cast<int64_t>(manifest->files.size());
    report.manifest = {std::move(list)};
    options_.log(absl::StrFormat("listed %d files of dataset %d", report.files, dataset));
  } else {
    report.error = ErrorOf(manifest.status());
    options_.log(absl::StrCat("dataset ", dataset, ": ", std::string(manifest.status().message())));
  }
  reports_.push_back(std::move(report));
  found_();
}

const std::vector<native::ResolveReport>& FileResolver::Report() {
  size_t bytes = 0;
  for (const native::ResolveReport& report : told_) bytes += report.manifest.data.size();
  while (!reports_.empty()) {
    bytes += reports_.front().manifest.data.size();
    if (!told_.empty() && bytes > options_.manifest_bytes_max) break;
    told_.push_back(std::move(reports_.front()));
    reports_.erase(reports_.begin());
  }
  return told_;
}

}  // namespace lockstep::data
