#include "lockstep/data/worker/read_service.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_chunk.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/kinds.h"
#include "lockstep/wire/native/unknown_request.h"

namespace lockstep::data {
namespace {

namespace native = wire::native;
using native::ChunkHead;
using native::ChunkWriter;
using native::kChunkAlignment;

// Sums of these do not run over.
constexpr int64_t kIndexMax = std::numeric_limits<int64_t>::max() / 4;

absl::Status CheckAsk(const native::ReadSegment& ask) {
  if (ask.from < 0 || ask.segment < 0) {
    return absl::InvalidArgumentError("segments and elements are numbered from 0");
  }
  if (ask.from > kIndexMax || ask.segment > kIndexMax || ask.ahead > uint64_t{kIndexMax}) {
    return absl::InvalidArgumentError(absl::StrCat("there is no segment ", ask.segment,
                                                   " with an element ", ask.from, " and ",
                                                   ask.ahead, " behind it"));
  }
  return absl::OkStatus();
}

ReadRequest RequestOf(const native::ReadSegment& ask, link::LinkId reader) {
  return {.dataset = absl::StrCat(ask.dataset),
          .source = nullptr,
          .segment = ask.segment,
          .from = ask.from,
          .stride = std::max<uint32_t>(1, ask.stride),
          .ahead = static_cast<int64_t>(ask.ahead),
          .elements_max = ask.elements_max,
          // Who is told the place of a chunk takes of it what it wants.
          .bytes_max = ask.bytes_max == 0 || ask.memory != 0 ? std::numeric_limits<uint64_t>::max()
                                                             : ask.bytes_max,
          .reader = reader.value()};
}

}  // namespace

struct ReadService::Inbox {
  struct Item {
    uint64_t number;
    native::ReadSegment ask;
    absl::StatusOr<SegmentCache::Found> found;
  };
  Inbox(ReadService* its_service, runtime::Loop* its_loop) : loop(its_loop), service(its_service) {}
  // Null: it is gone.
  ReadService* Service() {
    const MutexLock lock(mutex);
    return service;
  }

  runtime::Loop* const loop;
  Mutex mutex;
  std::vector<Item> items ABSL_GUARDED_BY(mutex);
  ReadService* service ABSL_GUARDED_BY(mutex);
};

link::Payload AnswerOf(const SegmentCache::Found& found, const ReadRequest& request,
                       uint64_t& elements) {
  const native::ChunkView& chunk = found.chunk->view;
  const ChunkHead& head = chunk.head();
  const int64_t at = TakenUntil(found, request);
  const int64_t stride = request.stride;
  const int64_t count = (at - request.from) / stride;
  // The cache gives the chunk that holds the first element asked for, or the end before it.
  LOCKSTEP_DCHECK(stride > 0 && request.from >= head.first && at >= request.from);
  elements = static_cast<uint64_t>(count);
  const bool ended = found.ended && at >= found.known;
  if (stride == 1 && count == head.count && at >= head.next && head.ended == ended &&
      request.ahead == 0) {
    if (found.chunk->answer != nullptr) {
      return {.failed = false, .bytes = {}, .shared = found.chunk->answer};
    }
    std::string whole(kChunkAlignment, '\0');
    whole.reserve(kChunkAlignment + found.chunk->chunk.size());
    native::PutInlineHead(whole);
    whole += found.chunk->chunk;
    return {.failed = false, .bytes = std::move(whole), .shared = nullptr};
  }
  const auto element = [&](int64_t i) {
    return chunk.element(static_cast<uint32_t>(request.from + i * stride - head.first));
  };
  size_t room = 2 * kChunkAlignment;
  for (int64_t i = 0; i < count; ++i) room += ChunkWriter::BytesFor(element(i).size());
  std::string out(room, '\0');
  ChunkWriter writer(std::span<char>(out).subspan(kChunkAlignment));
  for (int64_t i = 0; i < count; ++i) {
    const std::string_view one = element(i);
    std::memcpy(writer.Add(one.size()).data(), one.data(), one.size());
  }
  const size_t used = writer.Finish({.segment = head.segment,
                                     .first = request.from,
                                     .stride = request.stride,
                                     .next = at,
                                     .ended = ended,
                                     .known = found.known});
  LOCKSTEP_DCHECK(kChunkAlignment + used <= out.size());
  out.resize(kChunkAlignment + used);
  native::PutInlineHead(out);
  return {.failed = false, .bytes = std::move(out), .shared = nullptr};
}

ReadService::ReadService(runtime::Loop& loop, SegmentCache& cache, MemoryShare* share,
                         FindDataset find)
    : loop_(loop),
      cache_(cache),
      share_(share),
      find_(std::move(find)),
      inbox_(std::make_shared<Inbox>(this, &loop)) {}

ReadService::~ReadService() {
  const MutexLock lock(inbox_->mutex);
  inbox_->service = nullptr;
}

bool ReadService::Takes(link::RequestKind kind) {
  return native::RouteOf(kind) == native::Route::kWorker;
}

void ReadService::Take(link::Request request, link::Responder responder) {
  if (request.kind == native::KindOf<native::ShareMemory>::kKind) {
    return responder.Answer(
        native::Encode(share_ == nullptr ? native::ShareMemoryReply{} : share_->Open()));
  }
  if (request.kind != native::KindOf<native::ReadSegment>::kKind) {
    return responder.Fail(native::UnknownRequest(request.kind));
  }
  auto ask = native::Decode<native::ReadSegment>(request.payload);
  absl::Status wrong = ask.status();
  if (wrong.ok()) wrong = CheckAsk(*ask);
  if (!wrong.ok()) {
    ++stats_.failed;
    return responder.Fail(native::WithReason(wrong, "invalid_argument"));
  }
  if (share_ != nullptr && !ask->released.empty()) share_->Release(ask->memory, ask->released);
  const int64_t dataset = ask->dataset;
  const uint64_t number = ++last_;
  open_.emplace(number, std::move(responder));
  find_(dataset, [this, inbox = inbox_, number, ask = *std::move(ask)](
                     absl::StatusOr<std::shared_ptr<const SegmentSource>> source) mutable {
    if (inbox->Service() == nullptr) return;
    auto open = open_.extract(number);
    if (open.empty()) return;
    if (!source.ok()) {
      ++stats_.failed;
      return open.mapped().Fail(source.status());
    }
    Read(ask, *std::move(source), std::move(open.mapped()));
  });
}

void ReadService::Read(const native::ReadSegment& ask, std::shared_ptr<const SegmentSource> source,
                       link::Responder responder) {
  ReadRequest request = RequestOf(ask, responder.link());
  request.source = std::move(source);
  if (ask.elements_max == 0) {
    cache_.Prepare(std::move(request));
    return responder.Answer(native::PreparedAnswer());
  }
  ++stats_.reads;
  const uint64_t number = ++last_;
  open_.emplace(number, std::move(responder));
  cache_.Read(std::move(request),
              [inbox = inbox_, number, ask](absl::StatusOr<SegmentCache::Found> found) mutable {
                const MutexLock lock(inbox->mutex);
                if (inbox->service == nullptr) return;
                inbox->items.push_back({number, std::move(ask), std::move(found)});
                if (inbox->items.size() > 1) return;  // somebody has posted already
                inbox->loop->Post([inbox] {
                  // On the loop, where the service is destroyed too.
                  if (ReadService* const here = inbox->Service()) here->TakeInbox();
                });
              });
}

void ReadService::TakeInbox() {
  std::vector<Inbox::Item> items;
  {
    const MutexLock lock(inbox_->mutex);
    items.swap(inbox_->items);
  }
  for (Inbox::Item& item : items) Answer(item.number, item.ask, std::move(item.found));
}

void ReadService::Answer(uint64_t number, const native::ReadSegment& ask,
                         absl::StatusOr<SegmentCache::Found> found) {
  auto open = open_.extract(number);
  if (open.empty()) return;
  if (!found.ok()) {
    ++stats_.failed;
    return open.mapped().Fail(found.status());
  }
  if (share_ != nullptr && ask.memory != 0) {
    if (auto place = share_->Lend(ask.memory, found->chunk)) {
      place->known = found->known;
      place->ended = found->ended;
      ++stats_.places;
      return open.mapped().Answer(native::SharedAnswer(*place));
    }
  }
  uint64_t elements = 0;
  ReadRequest request = RequestOf(ask, open.mapped().link());
  if (ask.bytes_max != 0) request.bytes_max = ask.bytes_max;
  link::Payload payload = AnswerOf(*found, request, elements);
  stats_.elements += elements;
  stats_.bytes += payload.shared != nullptr ? payload.shared->size() : payload.bytes.size();
  open.mapped().Send(std::move(payload));
}

void ReadService::Ended(link::LinkId link) {
  cache_.Forget(link.value());
  for (auto at = open_.begin(); at != open_.end();) {
    if (at->second.link() != link) {
      ++at;
      continue;
    }
    at->second.Answer({});  // nobody hears it
    at = open_.erase(at);
  }
}

}  // namespace lockstep::data
