// Answers consumers' reads of segments.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "lockstep/data/worker/memory_share.h"
#include "lockstep/data/worker/segment_cache.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/data_messages.h"

namespace lockstep::data {

struct ReadServiceStats {
  uint64_t reads = 0;
  uint64_t failed = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;   // sent
  uint64_t places = 0;  // answers that only said where the elements are
};

// Between a worker's link server and its cache. Threads: loop-confined; answers that the cache's
// threads bring are posted to the loop. Ownership: the loop and the cache must outlive it.
class ReadService {
 public:
  using Found = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<const SegmentSource>>)>;
  // Finds a dataset, and calls back on the loop, perhaps at once.
  using FindDataset = std::function<void(int64_t dataset, Found found)>;

  // `share`: null: everybody gets bytes.
  ReadService(runtime::Loop& loop, SegmentCache& cache, MemoryShare* share, FindDataset find);
  ~ReadService();
  ReadService(const ReadService&) = delete;
  ReadService& operator=(const ReadService&) = delete;

  static bool Takes(link::RequestKind kind);
  void Take(link::Request request, link::Responder responder);
  // The link is gone, and nobody waits for its answers.
  void Ended(link::LinkId link);

  const ReadServiceStats& stats() const { return stats_; }

 private:
  struct Inbox;

  void Read(const wire::native::ReadSegment& ask, std::shared_ptr<const SegmentSource> source,
            link::Responder responder);
  void Answer(uint64_t number, const wire::native::ReadSegment& ask,
              absl::StatusOr<SegmentCache::Found> found);
  void TakeInbox();

  runtime::Loop& loop_;
  SegmentCache& cache_;
  MemoryShare* const share_;
  const FindDataset find_;
  uint64_t last_ = 0;
  std::map<uint64_t, link::Responder> open_;
  // What the cache's threads bring; outlives us in their hands.
  const std::shared_ptr<Inbox> inbox_;
  ReadServiceStats stats_;
};

// The answer that this reader gets of a chunk: all of it when that is what it asked for, else the
// elements that it asked for, copied. `elements`: how many those are.
link::Payload AnswerOf(const SegmentCache::Found& found, const ReadRequest& request,
                       uint64_t& elements);

}  // namespace lockstep::data
