#include "lockstep/wire/native/data_chunk.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::wire::native {
namespace {

std::string MakeChunk(const std::vector<std::string>& elements, ChunkHead head) {
  std::string memory(4096, '\xee');
  ChunkWriter writer(memory);
  for (const std::string& element : elements) {
    const std::span<char> room = writer.Add(element.size());
    std::memcpy(room.data(), element.data(), element.size());
  }
  memory.resize(writer.Finish(head));
  return memory;
}

TEST(Chunk, GivesBackWhatWasPutIn) {
  const std::vector<std::string> elements = {"a", "", std::string(100, 'x')};
  const ChunkHead head = {
      .segment = 7, .first = 3, .stride = 4, .count = 3, .next = 15, .ended = true, .known = 14};
  const std::string bytes = MakeChunk(elements, head);
  const auto view = ChunkView::Parse(bytes);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->head(), head);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(view->element(i), elements[i]);
    EXPECT_EQ((view->element(i).data() - bytes.data()) % kChunkAlignment, 0);
  }
  EXPECT_EQ(view->index_of(2), 11);
}

TEST(Chunk, FitsWhatItSaysItNeeds) {
  std::string memory(ChunkWriter::BytesFor(1000), '\0');
  ChunkWriter writer(memory);
  EXPECT_TRUE(writer.Fits(1000));
  writer.Add(1000);
  EXPECT_FALSE(writer.Fits(0));
  EXPECT_LE(writer.Finish({}), memory.size());
}

TEST(Chunk, RefusesWhatIsCutOrChanged) {
  const std::string bytes =
      MakeChunk({"hello", "world"}, {.segment = 1, .first = 0, .next = 2, .known = 2});
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(ChunkView::Parse(std::string_view(bytes).substr(0, cut)).ok()) << cut;
  }
  // Whatever stands in it, what a view gives out lies within the bytes.
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const char value : {'\x00', '\x01', '\x7f', '\xff'}) {
      std::string other = bytes;
      other[at] = value;
      const auto view = ChunkView::Parse(other);
      if (!view.ok()) continue;
      for (uint32_t i = 0; i < view->head().count; ++i) {
        const std::string_view element = view->element(i);
        ASSERT_GE(element.data(), other.data());
        ASSERT_LE(element.data() + element.size(), other.data() + other.size());
      }
    }
  }
}

TEST(Answer, CarriesAChunkOrSaysWhereItIs) {
  std::string whole(kChunkAlignment, '\0');
  PutInlineHead(whole);
  whole += "chunk";
  auto answer = ParseReadAnswer(whole);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->form, AnswerForm::kInline);
  EXPECT_EQ(answer->chunk, "chunk");

  const ChunkPlace place = {.memory_segment = 1,
                            .offset = 64,
                            .bytes = 100,
                            .generation = 9,
                            .lease = 5,
                            .known = 77,
                            .ended = true};
  answer = ParseReadAnswer(SharedAnswer(place));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->form, AnswerForm::kShared);
  EXPECT_EQ(answer->place, place);

  answer = ParseReadAnswer(PreparedAnswer());
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->form, AnswerForm::kPrepared);
  EXPECT_FALSE(ParseReadAnswer("short").ok());
  EXPECT_FALSE(ParseReadAnswer(std::string(64, 'x')).ok());
}

}  // namespace
}  // namespace lockstep::wire::native
