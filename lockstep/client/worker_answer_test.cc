#include "lockstep/client/worker_answer.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/data_chunk.h"

namespace lockstep::client {
namespace {

using dispatch::ReadAnswered;
using dispatch::ReadFailed;
using dispatch::SendRead;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::native::AnswerForm;
using wire::native::ChunkHead;
using wire::native::ChunkPlace;

SendRead Ask(int64_t from, int64_t max_elements, int64_t stride = 1, int64_t ahead = 0) {
  return {.worker = {.address = "w:1"},
          .segment = 7,
          .from = from,
          .stride = stride,
          .ahead = ahead,
          .max_elements = max_elements};
}

// Elements "e0", "e1"...
std::string Chunk(ChunkHead head, int count) {
  std::vector<char> memory(8192);
  wire::native::ChunkWriter writer(memory);
  for (int i = 0; i < count; ++i) {
    const std::string text = "e" + std::to_string(i);
    text.copy(writer.Add(text.size()).data(), text.size());
  }
  head.segment = 7;
  return {memory.data(), writer.Finish(head)};
}

std::string Inline(const ChunkHead& head, int count) {
  std::string answer(wire::native::kChunkAlignment, '\0');
  wire::native::PutInlineHead(answer);
  return answer + Chunk(head, count);
}

absl::StatusOr<rendezvous::MemoryPtr> NoMemory(const ChunkPlace& /*place*/) {
  return absl::NotFoundError("no memory");
}

class StringMemory : public rendezvous::Memory {
 public:
  explicit StringMemory(const std::string& bytes)
      : Memory(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()) {}
};

std::vector<std::string> TextsOf(const ReadAnswered& event) {
  std::vector<std::string> texts;
  for (const dispatch::Element& element : event.elements) {
    texts.emplace_back(static_cast<const char*>(element.payload.get()), element.bytes);
  }
  return texts;
}

ReadFailed FailureOf(const SendRead& read, absl::StatusOr<std::string> answer,
                     bool reached = true) {
  auto checked = CheckWorkerAnswer(read, std::move(answer), reached, NoMemory);
  EXPECT_TRUE(checked.has_value());
  EXPECT_EQ(checked->form, AnswerForm::kPrepared);
  return std::get<ReadFailed>(checked->event);
}

TEST(WorkerAnswer, GivesTheElementsThatCameAsBytes) {
  const auto checked = CheckWorkerAnswer(
      Ask(4, 8, 2), Inline({.first = 4, .stride = 2, .next = 8, .known = 9}, 2), true, NoMemory);
  ASSERT_TRUE(checked.has_value());
  EXPECT_EQ(checked->form, AnswerForm::kInline);
  const auto& event = std::get<ReadAnswered>(checked->event);
  EXPECT_THAT(TextsOf(event), ElementsAre("e0", "e1"));
  EXPECT_EQ(event.next, 8);
  EXPECT_EQ(event.known, 9);
  EXPECT_FALSE(event.ended);
}

TEST(WorkerAnswer, TakesFromSharedMemoryWhatWasAskedForAndKeepsWhatLiesAhead) {
  const std::string chunk = Chunk({.first = 10, .next = 16}, 6);
  const auto checked = CheckWorkerAnswer(
      Ask(11, 8, 2, /*ahead=*/2), wire::native::SharedAnswer({.lease = 1, .known = 16}), true,
      [&](const ChunkPlace&) -> absl::StatusOr<rendezvous::MemoryPtr> {
        return std::make_shared<const StringMemory>(chunk);
      });
  ASSERT_TRUE(checked.has_value());
  EXPECT_EQ(checked->form, AnswerForm::kShared);
  const auto& event = std::get<ReadAnswered>(checked->event);
  EXPECT_THAT(TextsOf(event), ElementsAre("e1", "e3"));
  EXPECT_EQ(event.next, 15);
  EXPECT_FALSE(event.ended);
}

TEST(WorkerAnswer, AsksAgainWhenTheSharedMemoryIsNotToBeFound) {
  EXPECT_FALSE(CheckWorkerAnswer(Ask(0, 1), wire::native::SharedAnswer({.lease = 1, .known = 1}),
                                 true, NoMemory)
                   .has_value());
}

TEST(WorkerAnswer, AWorkerThatCannotAnswerIsUnreachable) {
  EXPECT_TRUE(FailureOf(Ask(0, 1), absl::InternalError("x"), /*reached=*/false).unreachable);
  EXPECT_TRUE(FailureOf(Ask(0, 1), absl::UnavailableError("x")).unreachable);
  EXPECT_TRUE(FailureOf(Ask(0, 1), std::string("no answer")).unreachable);
  EXPECT_FALSE(FailureOf(Ask(0, 1), absl::InternalError("x")).unreachable);
}

TEST(WorkerAnswer, RefusesWhatWasNotAskedFor) {
  const auto why = [](const SendRead& read, const std::string& answer) {
    const ReadFailed failed = FailureOf(read, answer);
    EXPECT_FALSE(failed.unreachable);
    EXPECT_EQ(failed.error->reason, "worker_answer_invalid");
    return failed.error->message;
  };
  EXPECT_THAT(why(Ask(0, 1), wire::native::PreparedAnswer()), HasSubstr("prepared"));
  EXPECT_THAT(why(Ask(0, 1), Inline({.first = 0, .next = 2, .known = 2}, 2)),
              HasSubstr("2 elements"));
  EXPECT_THAT(why(Ask(0, 1), Inline({.first = 3, .next = 4, .known = 4}, 1)),
              HasSubstr("elements from 3 on"));
  EXPECT_THAT(why(Ask(0, 1), Inline({.first = 0, .next = 0, .known = 0}, 0)),
              HasSubstr("no element, and no end"));
}

}  // namespace
}  // namespace lockstep::client
