#include "lockstep/data/worker/segment_cache.h"

#include <pthread.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::data {
namespace {

using runtime::MonotonicNow;
using wire::native::ChunkHead;
using wire::native::ChunkView;

}  // namespace

int64_t TakenUntil(const SegmentCache::Found& found, const ReadRequest& request) {
  const ChunkView& chunk = found.chunk->view;
  const ChunkHead& head = chunk.head();
  LOCKSTEP_DCHECK(request.stride > 0 && request.from >= head.first);
  // Those that are known to have enough behind them.
  const int64_t end = found.ended ? head.next : std::min(head.next, found.known - request.ahead);
  int64_t taken = 0;
  uint64_t bytes = 0;
  int64_t at = request.from;
  for (; at < end && taken < request.elements_max; at += request.stride) {
    const uint64_t more = chunk.element(static_cast<uint32_t>(at - head.first)).size();
    if (taken > 0 && (bytes > request.bytes_max || more > request.bytes_max - bytes)) break;
    bytes += more;
    ++taken;
  }
  return at;
}

SegmentCache::SegmentCache(const SegmentCacheOptions& options) : options_(options) {
  for (int i = 0; i < std::max(1, options_.threads); ++i) {
    static_assert(sizeof("lockstep-run") <= 16);  // names of threads on Linux
    threads_.emplace_back([this] { RunThread(); });
    pthread_setname_np(threads_.back().native_handle(), "lockstep-run");
  }
}

SegmentCache::~SegmentCache() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (auto& [key, entry] : entries_) entry->dropped = true;
  }
  work_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void SegmentCache::Read(ReadRequest request, Done done) {
  std::vector<Due> due;
  {
    const MutexLock lock(mutex_);
    const EntryPtr entry = Find(request);
    if (auto found = Lookup(*entry, request)) {
      MarkRead(*entry, request, *found);
      due.push_back({std::move(done), *std::move(found)});
      ResumePaused();
    } else {
      entry->waiters.push_back({std::move(request), std::move(done)});
      EnsureRuns(entry, /*waits=*/true);
    }
  }
  for (Due& one : due) one.done(std::move(one.with));
}

void SegmentCache::Prepare(ReadRequest request) {
  const MutexLock lock(mutex_);
  const EntryPtr entry = Find(request);
  if (!entry->has_run) {
    entry->store_from = request.stride <= 1 ? request.from : 0;
    EnsureRuns(entry, /*waits=*/false);
  }
}

void SegmentCache::Forget(uint64_t reader) {
  const MutexLock lock(mutex_);
  for (auto& [key, entry] : entries_) {
    std::erase_if(entry->waiters,
                  [&](const Waiter& waiter) { return waiter.request.reader == reader; });
    entry->awaited = !entry->waiters.empty();
  }
}

void SegmentCache::Drop(const std::string& dataset) {
  std::vector<Due> due;
  {
    const MutexLock lock(mutex_);
    auto at = entries_.lower_bound({dataset, std::numeric_limits<int64_t>::min()});
    while (at != entries_.end() && at->first.first == dataset) {
      const EntryPtr entry = (at++)->second;
      FailWaiters(*entry, absl::UnavailableError("the worker has dropped the dataset"), due);
      Erase(entry);
    }
    totals_.erase(dataset);
  }
  for (Due& one : due) one.done(std::move(one.with));
}

std::map<std::string, RunTotals> SegmentCache::totals() const {
  const MutexLock lock(mutex_);
  return totals_;
}

SegmentCacheStats SegmentCache::stats() const {
  const MutexLock lock(mutex_);
  SegmentCacheStats stats = {.bytes = stored_.bytes,
                             .chunks = stored_.chunks,
                             .segments = entries_.size(),
                             .waiting = 0,
                             .runs = runs_.all,
                             .runs_again = runs_.again};
  for (const auto& [key, entry] : entries_) stats.waiting += entry->waiters.size();
  return stats;
}

SegmentCache::EntryPtr SegmentCache::Find(const ReadRequest& request) {
  const Key key(request.dataset, request.segment);
  EntryPtr& entry = entries_[key];
  if (entry == nullptr) {
    LOCKSTEP_DCHECK(request.source != nullptr);
    entry = std::make_shared<Entry>();
    entry->key = key;
    entry->source = request.source;
    const EntryPtr made = entry;
    made->last_used = MonotonicNow();
    MakeRoom(made.get());
    return made;
  }
  entry->last_used = MonotonicNow();
  return entry;
}

std::optional<SegmentCache::Found> SegmentCache::Lookup(Entry& entry, const ReadRequest& request) {
  if (entry.total >= 0 && request.from >= entry.total) {
    return Found{EmptyEnd(entry.key.second, entry.total), entry.total, true};
  }
  auto at = entry.chunks.upper_bound(request.from);
  if (at == entry.chunks.begin()) return std::nullopt;
  --at;
  const StoredChunkPtr& chunk = at->second.chunk;
  if (request.from >= chunk->head().next) return std::nullopt;
  const int64_t known =
      entry.total >= 0 ? entry.total : std::max(entry.produced, chunk->head().next);
  // Whether so many are behind it is not known yet.
  if (entry.total < 0 && request.from + request.ahead >= known) return std::nullopt;
  return Found{chunk, known, entry.total >= 0};
}

void SegmentCache::MarkRead(Entry& entry, const ReadRequest& request, const Found& found) {
  const auto at = entry.chunks.find(found.chunk->head().first);
  if (at == entry.chunks.end() || at->second.chunk != found.chunk) return;
  // Who takes a part of it comes back for the rest.
  if (TakenUntil(found, request) < found.chunk->head().next) return;
  const uint32_t stride = std::max<uint32_t>(1, request.stride);
  at->second.read_by.insert(static_cast<uint32_t>(request.from % stride));
  if (at->second.read_by.size() < std::min<size_t>(stride, at->second.chunk->head().count)) return;
  RemoveChunk(entry, at);
}

void SegmentCache::RemoveChunk(Entry& entry, std::map<int64_t, Kept>::iterator at) {
  stored_.Remove(*at->second.chunk);
  entry.chunks.erase(at);
}

// A run that gets to what the waiters want, or to the beginning of what is prepared.
void SegmentCache::EnsureRuns(const EntryPtr& entry, bool waits) {
  entry->awaited = !entry->waiters.empty();
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const Waiter& waiter : entry->waiters) {
    const bool passed = waiter.request.from < entry->produced || entry->ended;
    // What is there and only waits for what is behind it needs no other run.
    auto at = entry->chunks.upper_bound(waiter.request.from);
    const bool held = at != entry->chunks.begin() &&
                      waiter.request.from < std::prev(at)->second.chunk->head().next;
    if ((passed || !entry->has_run) && !held) {
      const int64_t from = waiter.request.stride <= 1
                               ? waiter.request.from
                               : waiter.request.from - waiter.request.from % waiter.request.stride;
      first = std::min(first, from);
    }
  }
  if (first != std::numeric_limits<int64_t>::max()) {
    entry->store_from = first;
    entry->again = entry->has_run;
  }
  if (!entry->busy) Queue(entry, waits);
}

void SegmentCache::Queue(const EntryPtr& entry, bool awaited) {
  if (entry->paused) {
    entry->paused = false;
    LOCKSTEP_DCHECK(paused_ > 0);
    --paused_;
  }
  if (queue_.Add(entry, awaited)) work_.NotifyOne();
}

bool SegmentCache::RunQueue::Add(const EntryPtr& entry, bool awaited) {
  if (entry->queued && (!awaited || std::erase(ahead_, entry) == 0)) return false;
  entry->queued = true;
  (awaited ? awaited_ : ahead_).push_back(entry);
  return true;
}

SegmentCache::EntryPtr SegmentCache::RunQueue::TakeFirst() {
  std::deque<EntryPtr>& queue = awaited_.empty() ? ahead_ : awaited_;
  LOCKSTEP_DCHECK(!queue.empty() && queue.front()->queued);
  EntryPtr entry = std::move(queue.front());
  queue.pop_front();
  entry->queued = false;
  return entry;
}

void SegmentCache::RunQueue::Remove(const EntryPtr& entry) {
  if (!std::exchange(entry->queued, false)) return;
  std::erase(awaited_, entry);
  std::erase(ahead_, entry);
}

void SegmentCache::RunThread() {
  const MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && queue_.empty()) work_.Wait(mutex_);
    if (stopping_) return;
    const EntryPtr entry = queue_.TakeFirst();
    if (!entry->dropped && !entry->busy) RunEntry(entry);
  }
}

void SegmentCache::RunEntry(const EntryPtr& entry) {
  LOCKSTEP_DCHECK(!entry->busy && !entry->dropped);
  // Whoever queued it has ended its pause.
  LOCKSTEP_DCHECK(!entry->paused && !entry->queued);
  entry->busy = true;
  while (!stopping_ && !entry->dropped) {
    if (std::exchange(entry->again, false) || !entry->has_run) {
      ++runs_.all;
      if (entry->has_run) ++runs_.again;
      entry->has_run = true;
      entry->stream = nullptr;
      entry->maker = nullptr;
      entry->pending = std::nullopt;
      entry->produced = 0;
      entry->ended = false;
    }
    if (entry->ended) break;
    // Elements that nobody waits for are made while there is room for them.
    if (entry->waiters.empty() && stored_.bytes >= options_.bytes_max) {
      MakeRoom(entry.get());
      if (stored_.bytes >= options_.bytes_max) {
        entry->paused = true;
        ++paused_;
        LOCKSTEP_DCHECK(paused_ <= entries_.size());
        break;
      }
    }
    const int64_t produced = entry->produced;
    const int64_t store_from = entry->store_from;
    mutex_.unlock();
    Made made = MakeChunk(*entry, produced, store_from);
    mutex_.lock();
    std::vector<Due> due;
    Settle(entry, std::move(made), due);
    if (!due.empty()) {
      mutex_.unlock();
      for (Due& one : due) one.done(std::move(one.with));
      due.clear();
      mutex_.lock();
    }
  }
  entry->busy = false;
  if (entry->again && !entry->dropped) Queue(entry, /*awaited=*/true);
}

void SegmentCache::Settle(const EntryPtr& entry, Made made, std::vector<Due>& due) {
  if (entry->dropped) return;
  RunTotals& totals = totals_[entry->key.first];
  totals.elements += made.elements;
  totals.busy += made.busy;
  if (!made.failure.ok()) {
    ++totals.failures;
    FailWaiters(*entry, made.failure, due);
    // Whoever asks next has it run again.
    Erase(entry);
    return;
  }
  entry->produced += made.elements;
  if (made.chunk != nullptr) {
    // The run goes on from where it was: only its own thread moves `produced`.
    LOCKSTEP_DCHECK(made.chunk->head().next >= entry->produced);
    entry->produced = made.chunk->head().next;
    const auto [at, added] = entry->chunks.try_emplace(made.chunk->head().first);
    if (!added) stored_.Remove(*at->second.chunk);
    at->second.chunk = std::move(made.chunk);
    stored_.Add(*at->second.chunk);
  }
  if (made.ended) {
    entry->ended = true;
    entry->total = entry->produced;
    entry->stream = nullptr;
    entry->maker = nullptr;
    ++totals.segments;
  }
  ServeWaiters(*entry, due);
}

SegmentCache::Made SegmentCache::MakeChunk(Entry& entry, int64_t produced, int64_t store_from) {
  Made made;
  const Time start = MonotonicNow();
  if (entry.stream == nullptr) {
    entry.maker = std::make_unique<ChunkMaker>(options_.arena, options_.chunk_bytes, frames_);
    auto stream = entry.source->Start(entry.key.second, entry.maker->allocator(), entry.dropped);
    if (!stream.ok()) {
      made.failure = stream.status();
      return made;
    }
    entry.stream = *std::move(stream);
  }
  int64_t first = produced;
  for (;;) {
    std::optional<std::string_view> element = std::exchange(entry.pending, std::nullopt);
    if (!element) {
      auto next = entry.stream->Next();
      if (!next.ok()) {
        made.failure = next.status();
        return made;
      }
      element = *next;
    }
    if (!element) {
      made.ended = true;
      break;
    }
    if (first + made.elements < store_from) {
      ++first;
      if (entry.dropped) break;
      continue;
    }
    if (!entry.maker->Add(*element)) {
      entry.pending = element;
      break;
    }
    ++made.elements;
    if (entry.dropped) break;
    if (entry.awaited && MonotonicNow() - start >= options_.flush_after) break;
  }
  made.busy = MonotonicNow() - start;
  if (!entry.maker->empty()) {
    made.chunk = entry.maker->Finish({.segment = entry.key.second,
                                      .first = first,
                                      .stride = 1,
                                      .next = first + made.elements,
                                      .ended = made.ended,
                                      .known = first + made.elements});
  } else {
    made.elements = first - produced;
  }
  return made;
}

void SegmentCache::ServeWaiters(Entry& entry, std::vector<Due>& due) {
  std::vector<Waiter> waiters = std::exchange(entry.waiters, {});
  // All are looked up before any chunk goes.
  std::vector<std::pair<ReadRequest, Found>> read;
  for (Waiter& waiter : waiters) {
    auto found = Lookup(entry, waiter.request);
    if (!found) {
      entry.waiters.push_back(std::move(waiter));
      continue;
    }
    read.emplace_back(std::move(waiter.request), *found);
    due.push_back({std::move(waiter.done), *std::move(found)});
  }
  for (const auto& [request, found] : read) MarkRead(entry, request, found);
  entry.last_used = MonotonicNow();
  entry.awaited = !entry.waiters.empty();
  // Of those that are left, some may want what the run has passed.
  if (entry.waiters.empty()) return;
  for (const Waiter& waiter : entry.waiters) {
    if (waiter.request.from >= entry.produced && !entry.ended) continue;
    auto at = entry.chunks.upper_bound(waiter.request.from);
    const bool held = at != entry.chunks.begin() &&
                      waiter.request.from < std::prev(at)->second.chunk->head().next;
    if (held && !entry.ended) continue;
    entry.store_from =
        std::min(entry.again ? entry.store_from : waiter.request.from, waiter.request.from);
    entry.again = true;
  }
}

void SegmentCache::FailWaiters(Entry& entry, const absl::Status& why, std::vector<Due>& due) {
  for (Waiter& waiter : entry.waiters) due.push_back({std::move(waiter.done), why});
  entry.waiters.clear();
  entry.awaited = false;
}

void SegmentCache::ResumePaused() {
  if (paused_ == 0 || stored_.bytes >= options_.bytes_max) return;
  // The one that was asked for last is likely to be read first.
  EntryPtr best;
  for (auto& [key, entry] : entries_) {
    if (entry->paused && (best == nullptr || entry->last_used > best->last_used)) best = entry;
  }
  if (best != nullptr) Queue(best, /*awaited=*/false);
}

// What nobody has asked for lately goes.
void SegmentCache::MakeRoom(const Entry* keep) {
  while (entries_.size() > options_.segments_max || stored_.bytes >= options_.bytes_max) {
    const bool crowded = entries_.size() > options_.segments_max;
    EntryPtr oldest;
    for (auto& [key, entry] : entries_) {
      if (entry.get() == keep || entry->busy || !entry->waiters.empty()) continue;
      if (!crowded && entry->chunks.empty()) continue;
      if (oldest == nullptr || entry->last_used < oldest->last_used) oldest = entry;
    }
    if (oldest == nullptr) return;
    if (!crowded && MonotonicNow() - oldest->last_used < options_.idle) return;
    Erase(oldest);
  }
}

void SegmentCache::Erase(const EntryPtr& entry) {
  entry->dropped = true;
  while (!entry->chunks.empty()) RemoveChunk(*entry, entry->chunks.begin());
  if (entry->paused) {
    entry->paused = false;
    LOCKSTEP_DCHECK(paused_ > 0);
    --paused_;
  }
  queue_.Remove(entry);
  const auto at = entries_.find(entry->key);
  if (at != entries_.end() && at->second == entry) entries_.erase(at);
}

}  // namespace lockstep::data
