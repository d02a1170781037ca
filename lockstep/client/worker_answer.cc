#include "lockstep/client/worker_answer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/data_events.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

namespace native = wire::native;
using native::AnswerForm;

WorkerAnswer Failed(const dispatch::SendRead& read, const absl::Status& why, bool unreachable) {
  return {dispatch::ReadFailed{
      .read = read.read, .error = native::ErrorOf(why), .unreachable = unreachable}};
}

WorkerAnswer NotAsked(const dispatch::SendRead& read, const std::string& how) {
  return Failed(read,
                native::WithReason(
                    absl::InternalError(absl::StrCat("the worker at ", read.worker.address,
                                                     " answers what it was not asked for: ", how)),
                    "worker_answer_invalid"),
                /*unreachable=*/false);
}

int64_t StrideOf(const dispatch::SendRead& read) { return std::max<int64_t>(1, read.stride); }

// Elements lie at multiples of 64 bytes of their chunk, and arrays are made of them without a copy
// where that is so in memory, too. The answer's head, which is done with, leaves room to move it.
std::string_view AlignedChunk(std::string& answer, std::string_view chunk) {
  const auto at = static_cast<size_t>(chunk.data() - answer.data());
  const size_t over = reinterpret_cast<uintptr_t>(chunk.data()) % native::kChunkAlignment;
  if (over == 0 || over > at) return chunk;
  std::memmove(answer.data() + at - over, chunk.data(), chunk.size());
  return {answer.data() + at - over, chunk.size()};
}

// Why these cannot be the elements that were asked for; empty: they may be. Of a chunk in shared
// memory the reader takes those itself.
std::string WhyNotAsked(const dispatch::SendRead& read, const native::ChunkHead& head,
                        bool shared) {
  const int64_t stride = StrideOf(read);
  std::string wrong;
  if (head.segment != read.segment) {
    wrong = absl::StrCat("elements of segment ", head.segment);
  } else if (shared && (head.stride != 1 || head.next - head.first != head.count)) {
    wrong = "the place of a part of a chunk";
  } else if (shared) {
    if (head.first > read.from) wrong = absl::StrCat("elements from ", head.first, " on");
  } else if (head.count == 0) {
    if (!head.ended) wrong = "no element, and no end";
  } else if (head.first != read.from || int64_t{head.stride} != stride) {
    wrong = absl::StrCat("elements from ", head.first, " on, each ", head.stride, ".");
  } else if (int64_t{head.count} > read.max_elements ||
             head.next != head.first + int64_t{head.count} * stride) {
    wrong = absl::StrCat(head.count, " elements, up to ", head.next);
  }
  if (wrong.empty()) return wrong;
  return absl::StrCat(wrong, "; asked for ", read.max_elements, " of segment ", read.segment,
                      " from ", read.from, " on, each ", stride, ".");
}

dispatch::Element ElementOf(const std::shared_ptr<const void>& keeps, const native::ChunkView& view,
                            uint32_t i) {
  const std::string_view element = view.element(i);
  return {std::shared_ptr<const void>(keeps, element.data()), element.size()};
}

// What comes as bytes is just what was asked for.
WorkerAnswer TakeInline(const dispatch::SendRead& read, std::shared_ptr<std::string> bytes,
                        std::string_view chunk) {
  const auto view = native::ChunkView::Parse(AlignedChunk(*bytes, chunk));
  if (!view.ok()) return Failed(read, view.status(), /*unreachable=*/true);
  const native::ChunkHead& head = view->head();
  if (std::string why = WhyNotAsked(read, head, false); !why.empty()) return NotAsked(read, why);
  dispatch::ReadAnswered event{
      .read = read.read, .next = head.next, .known = head.known, .ended = head.ended};
  const std::shared_ptr<const void> keeps = std::move(bytes);
  for (uint32_t i = 0; i < head.count; ++i) event.elements.push_back(ElementOf(keeps, *view, i));
  return {std::move(event), AnswerForm::kInline};
}

// Of a chunk that lies in shared memory the reader takes what it asked for.
WorkerAnswer TakeShared(const dispatch::SendRead& read, const rendezvous::MemoryPtr& memory,
                        const native::ChunkPlace& place) {
  const auto view =
      native::ChunkView::Parse({reinterpret_cast<const char*>(memory->data()), memory->bytes()});
  if (!view.ok()) return Failed(read, view.status(), /*unreachable=*/true);
  const native::ChunkHead& head = view->head();
  if (std::string why = WhyNotAsked(read, head, true); !why.empty()) return NotAsked(read, why);
  dispatch::ReadAnswered event{.read = read.read, .known = place.known};
  // Not the last `ahead` that the worker knows of, unless the segment ends there.
  const int64_t end = place.ended ? head.next : std::min(head.next, place.known - read.ahead);
  int64_t at = read.from;
  for (; at >= head.first && at < end &&
         static_cast<int64_t>(event.elements.size()) < read.max_elements;
       at += StrideOf(read)) {
    LOCKSTEP_DCHECK(at - head.first < int64_t{head.count});
    event.elements.push_back(ElementOf(memory, *view, static_cast<uint32_t>(at - head.first)));
  }
  event.next = at;
  event.ended = place.ended && at >= place.known;
  return {std::move(event), AnswerForm::kShared};
}

}  // namespace

std::optional<WorkerAnswer> CheckWorkerAnswer(const dispatch::SendRead& read,
                                              absl::StatusOr<std::string> answer, bool reached,
                                              FindShared find_shared) {
  if (!answer.ok()) {
    return Failed(read, answer.status(), !reached || absl::IsUnavailable(answer.status()));
  }
  auto bytes = std::make_shared<std::string>(*std::move(answer));
  const auto parsed = native::ParseReadAnswer(*bytes);
  if (!parsed.ok()) return Failed(read, parsed.status(), /*unreachable=*/true);
  switch (parsed->form) {
    case AnswerForm::kPrepared:
      if (read.max_elements > 0) return NotAsked(read, "that it has prepared something");
      return WorkerAnswer{dispatch::ReadAnswered{.read = read.read}};
    case AnswerForm::kInline:
      return TakeInline(read, std::move(bytes), parsed->chunk);
    case AnswerForm::kShared:
      break;
  }
  const auto memory = find_shared(parsed->place);
  if (!memory.ok()) return std::nullopt;
  return TakeShared(read, *memory, parsed->place);
}

}  // namespace lockstep::client
