// Runs segments ahead of those who read them, and keeps their elements until they were read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/mutex.h"
#include "lockstep/base/time.h"
#include "lockstep/data/worker/chunk_maker.h"
#include "lockstep/data/worker/segment_source.h"
#include "lockstep/data/worker/stored_chunk.h"

namespace lockstep::data {

struct SegmentCacheOptions {
  int threads = 2;
  // Of elements that were made and not read: `cache_bytes`. Whoever waits gets his elements also
  // when it is used up: so each of those that wait may add one chunk.
  size_t bytes_max = size_t{256} << 20;
  // Of a chunk, unless one element is longer: `chunk_bytes_max`.
  size_t chunk_bytes = size_t{256} << 10;
  // Segments that are known at a time: `cached_segments_max`.
  size_t segments_max = 16384;
  // A reader who waits gets what there is after this long, though the chunk is not full.
  absl::Duration flush_after = absl::Milliseconds(2);
  // Where elements are put, so that others of this host may see them; null, or when it is full: in
  // this process alone.
  std::shared_ptr<transport::Arena> arena;
  // What nobody has asked for so long goes when memory is needed.
  absl::Duration idle = absl::Seconds(10);
};

// What a reader asks of one segment.
struct ReadRequest {
  std::string dataset;
  std::shared_ptr<const SegmentSource> source;
  int64_t segment = 0;
  // The first element, and then each so many-th; the answer waits until it is known that `ahead`
  // more are behind the first, or where the segment ends.
  int64_t from = 0;
  uint32_t stride = 1;
  int64_t ahead = 0;
  // What it takes of one answer at most; bytes: but for the first element.
  int64_t elements_max = std::numeric_limits<int64_t>::max();
  uint64_t bytes_max = std::numeric_limits<uint64_t>::max();
  // Who asks; for `Forget`.
  uint64_t reader = 0;
};

// What runs have cost, since the start.
struct RunTotals {
  int64_t elements = 0;
  absl::Duration busy;   // in making them
  int64_t segments = 0;  // ended
  int64_t failures = 0;
};

struct SegmentCacheStats {
  size_t bytes = 0;
  size_t chunks = 0;
  size_t segments = 0;
  size_t waiting = 0;
  int64_t runs = 0;
  int64_t runs_again = 0;  // of a segment that had been run
};

// Any segment can be run again at any time and gives the same elements, so nothing that is kept
// here is promised to anybody.
//
// Threads: thread-safe; `done` comes on the thread that calls `Read` or on one of the cache's own,
// which end with it. Bounds: SegmentCacheOptions; one entry for each reader that waits.
class SegmentCache {
 public:
  // What a reader gets: a chunk with the element asked for, or with the segment's end when that
  // comes before it; and of how many elements of the segment one knows, all when it has ended.
  struct Found {
    StoredChunkPtr chunk;
    int64_t known = 0;
    bool ended = false;  // the segment has no more than `known`
  };
  using Done = absl::AnyInvocable<void(absl::StatusOr<Found>)>;

  explicit SegmentCache(const SegmentCacheOptions& options);
  ~SegmentCache();
  SegmentCache(const SegmentCache&) = delete;
  SegmentCache& operator=(const SegmentCache&) = delete;

  // Calls `done` once, at once when it is there; not after `Forget` or the destructor.
  void Read(ReadRequest request, Done done);
  // Begins to run the segment for a reader that comes soon.
  void Prepare(ReadRequest request);
  // Nobody waits for this reader's answers any more.
  void Forget(uint64_t reader);
  // What is left of a dataset goes.
  void Drop(const std::string& dataset);

  // By dataset; of those that were run here and not dropped since.
  std::map<std::string, RunTotals> totals() const;
  SegmentCacheStats stats() const;

 private:
  using Key = std::pair<std::string, int64_t>;
  struct Waiter {
    ReadRequest request;
    Done done;
  };
  struct Kept {
    StoredChunkPtr chunk;
    // Of the readers with strides, those that have read it.
    std::set<uint32_t> read_by;
  };
  struct Entry {
    Key key;
    std::shared_ptr<const SegmentSource> source;
    std::map<int64_t, Kept> chunks;  // by first element
    std::vector<Waiter> waiters;
    // The run. While `busy` stream and maker are a thread's, otherwise the mutex covers them.
    std::unique_ptr<ElementStream> stream;
    std::unique_ptr<ChunkMaker> maker;  // of its chunks
    bool busy = false;
    bool queued = false;
    bool paused = false;  // for want of memory
    std::atomic<bool> dropped = false;
    bool again = false;      // the run is to begin anew
    int64_t produced = 0;    // elements of the run so far, as others may see it
    int64_t store_from = 0;  // what comes before is not kept
    int64_t total = -1;      // known once a run has ended
    bool has_run = false;
    std::atomic<bool> awaited = false;
    Time last_used;
    // An element that found no room in the last chunk; the stream's.
    std::optional<std::string_view> pending;
    bool ended = false;  // the run
  };
  using EntryPtr = std::shared_ptr<Entry>;
  // The entries that are to be run: first those that somebody waits for, then those that are run
  // ahead. Keeps `queued` of the entries.
  class RunQueue {
   public:
    bool empty() const { return awaited_.empty() && ahead_.empty(); }
    // Whoever waits keeps his place among those who wait. False: it is in its place already.
    bool Add(const EntryPtr& entry, bool awaited);
    // There is one.
    EntryPtr TakeFirst();
    void Remove(const EntryPtr& entry);

   private:
    std::deque<EntryPtr> awaited_;
    std::deque<EntryPtr> ahead_;
  };
  // The chunks of all entries together.
  struct Stored {
    size_t bytes = 0;
    size_t chunks = 0;
    void Add(const StoredChunk& chunk) {
      bytes += chunk.bytes();
      ++chunks;
    }
    void Remove(const StoredChunk& chunk) {
      bytes -= chunk.bytes();
      --chunks;
    }
  };
  struct Runs {
    int64_t all = 0;
    int64_t again = 0;  // of a segment that had been run
  };
  struct Made {
    StoredChunkPtr chunk;
    absl::Status failure;
    int64_t elements = 0;  // that the run has made for it
    absl::Duration busy;
    bool ended = false;
  };
  struct Due {
    Done done;
    absl::StatusOr<Found> with;
  };

  void RunThread();
  // Gives the mutex away while it makes elements or tells of them.
  void RunEntry(const EntryPtr& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The stream is this thread's.
  Made MakeChunk(Entry& entry, int64_t produced, int64_t store_from) ABSL_LOCKS_EXCLUDED(mutex_);
  EntryPtr Find(const ReadRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Found> Lookup(Entry& entry, const ReadRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkRead(Entry& entry, const ReadRequest& request, const Found& found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnsureRuns(const EntryPtr& entry, bool waits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `awaited`: somebody waits for what it makes.
  void Queue(const EntryPtr& entry, bool awaited) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Settle(const EntryPtr& entry, Made made, std::vector<Due>& due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveChunk(Entry& entry, std::map<int64_t, Kept>::iterator at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ServeWaiters(Entry& entry, std::vector<Due>& due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailWaiters(Entry& entry, const absl::Status& why, std::vector<Due>& due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ResumePaused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoom(const Entry* keep) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(const EntryPtr& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SegmentCacheOptions options_;
  const engine::Allocator frames_ = engine::HeapAllocator();
  mutable Mutex mutex_;  // guards the entries, too
  CondVar work_;
  std::map<Key, EntryPtr> entries_ ABSL_GUARDED_BY(mutex_);
  RunQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, RunTotals> totals_ ABSL_GUARDED_BY(mutex_);
  Stored stored_ ABSL_GUARDED_BY(mutex_);
  size_t paused_ ABSL_GUARDED_BY(mutex_) = 0;
  Runs runs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// The first element of its stride that the reader does not take of what was found.
int64_t TakenUntil(const SegmentCache::Found& found, const ReadRequest& request);

}  // namespace lockstep::data
