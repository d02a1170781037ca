#include "fuzz/data_fuzzer.h"

#include <string>
#include <utility>
#include <variant>

#include "lockstep/base/check.h"
#include "lockstep/data/dispatch/cursor.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_chunk.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/data_events.h"
#include "lockstep/wire/native/data_messages.h"

namespace lockstep::fuzz {
namespace {

namespace native = wire::native;

// Touches all that the chunk says it has.
void ReadAnswer(std::string_view bytes) {
  const auto answer = native::ParseReadAnswer(bytes);
  if (!answer.ok() || answer->form != native::AnswerForm::kInline) return;
  const auto view = native::ChunkView::Parse(answer->chunk);
  if (!view.ok()) return;
  const native::ChunkHead& head = view->head();
  LOCKSTEP_CHECK(head.stride > 0 && head.first >= 0 && head.next >= head.first);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < head.count; ++i) {
    LOCKSTEP_CHECK(view->index_of(i) <= head.next);
    const std::string_view element = view->element(i);
    LOCKSTEP_CHECK((element.data() - answer->chunk.data()) % native::kChunkAlignment == 0);
    for (const char one : element) sum += static_cast<unsigned char>(one);
  }
  LOCKSTEP_CHECK(sum <= uint64_t{head.count} * bytes.size() * 255);
}

// What can be read can be written again, and is the same then.
void ReadDefinition(std::string_view bytes) {
  const auto definition = native::DecodeDefinition(bytes);
  if (!definition.ok()) return;
  const auto again = native::DecodeDefinition(native::EncodeDefinition(*definition));
  LOCKSTEP_CHECK(again.ok() && plan::Identity(*again) == plan::Identity(*definition));
  static_cast<void>(plan::Check(*definition));
}

void ReadManifest(std::string_view bytes) {
  const auto manifest = native::DecodeManifest(bytes);
  if (!manifest.ok()) return;
  const auto again = native::DecodeManifest(native::EncodeManifest(*manifest));
  LOCKSTEP_CHECK(again.ok() && again->files.size() == manifest->files.size());
}

template <class Message>
void ReadEvent(std::string_view bytes) {
  auto message = native::Decode<Message>(bytes);
  if (message.ok()) static_cast<void>(native::EventOf(*message, CallId(1)));
}

template <class Message>
void ReadReply(std::string_view bytes) {
  auto message = native::Decode<Message>(bytes);
  if (message.ok()) static_cast<void>(native::AnswerOf(*message));
}

void ReadCursor(std::string_view text) {
  const auto read = dispatch::DecodeCursor(text);
  const auto* cursor = std::get_if<dispatch::Cursor>(&read);
  if (cursor == nullptr) return;
  const auto again = dispatch::DecodeCursor(dispatch::EncodeCursor(*cursor));
  LOCKSTEP_CHECK(std::holds_alternative<dispatch::Cursor>(again));
  LOCKSTEP_CHECK(dispatch::SamePlace(*cursor, std::get<dispatch::Cursor>(again)));
}

}  // namespace

void ReadData(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes[0]) {
    case 'a':
      return ReadAnswer(rest);
    case 'd':
      return ReadDefinition(rest);
    case 'm':
      return ReadManifest(rest);
    case 's':
      return static_cast<void>(native::Decode<native::ReadSegment>(rest));
    case 'o':
      return ReadEvent<native::OpenIteration>(rest);
    case 'p':
      return ReadEvent<native::ConsumerPoll>(rest);
    case 'w':
      return ReadEvent<native::WorkerPoll>(rest);
    case 'r':
      return ReadReply<native::ConsumerPollReply>(rest);
    case 'i':
      return ReadReply<native::OpenIterationReply>(rest);
    case 'c':
      return ReadCursor(rest);
    default:
      return;
  }
}

}  // namespace lockstep::fuzz
