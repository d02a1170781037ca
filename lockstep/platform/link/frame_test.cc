#include "lockstep/platform/link/frame.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/crc32c.h"
#include "lockstep/base/limits.h"

namespace lockstep::link {

namespace {

using testing::HasSubstr;

constexpr MessageReader::Limits kLimits = {.payload_bytes_max = kFramePayloadMax,
                                           .message_bytes_max = kMessageBytesMax,
                                           .partial_messages_max = 2};

Message RequestOf(uint64_t id, std::string payload) {
  return {.type = FrameType::kRequest,
          .must_understand = true,
          .kind = 7,
          .id = id,
          .payload = std::move(payload)};
}

// All messages in `bytes`, or the error's text.
struct ReadResult {
  std::vector<Message> messages;
  std::string error;
};

ReadResult ReadAll(std::string_view bytes, MessageReader::Limits limits = kLimits) {
  MessageReader reader(limits);
  reader.Append(bytes);
  ReadResult result;
  while (true) {
    auto message = reader.Next();
    if (!message.ok()) {
      result.error = std::string(message.status().message());
      return result;
    }
    if (!message->has_value()) return result;
    result.messages.push_back(*std::move(*message));
  }
}

// A frame by hand, with a true checksum, to say what AppendFrame would not.
struct RawFrame {
  uint8_t version = 1;
  uint16_t flags = 0;
  uint64_t id = 5;
  std::string payload;
  uint32_t announced = 0;  // length of the payload, if not the true one
  uint32_t total = 0;

  std::string Bytes() const {
    Message message = {.type = FrameType::kRequest, .id = id, .payload = payload};
    std::string bytes;
    AppendFrame(message, message.payload, 0, bytes);
    const auto put = [&](size_t at, uint64_t value, size_t size) {
      for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
    };
    put(4, version, 1);
    put(6, flags, 2);
    put(12, announced != 0 ? announced : payload.size(), 4);
    put(24, total, 4);
    put(28, Crc32c(Crc32c(0, bytes.substr(0, 28)), payload), 4);
    return bytes;
  }
};

TEST(Crc32c, IsTheCastagnoliOne) {
  EXPECT_EQ(Crc32c(0, "123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(0, std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(0, ""), 0u);
  EXPECT_EQ(Crc32c(Crc32c(0, "1234"), "56789"), 0xE3069283u);
}

TEST(Crc32c, IsTheSameWithAndWithoutTheInstruction) {
  std::string bytes;
  for (size_t length = 0; length < 100; ++length) {
    EXPECT_EQ(Crc32c(3, bytes), ::lockstep::internal::Crc32cWithTables(3, bytes)) << length;
    bytes.push_back(static_cast<char>(length * 37));
  }
  // Long ones are read in lanes.
  uint32_t random = 1;
  while (bytes.size() < 20'000) {
    random = random * 1664525 + 1013904223;
    bytes.push_back(static_cast<char>(random >> 24));
  }
  for (size_t length = 3000; length < bytes.size(); length += 71) {
    const std::string_view part = std::string_view(bytes).substr(length % 9, length);
    EXPECT_EQ(Crc32c(random, part), ::lockstep::internal::Crc32cWithTables(random, part)) << length;
  }
}

TEST(Frame, LiesOnTheWireAsDocumented) {
  std::string bytes;
  EXPECT_EQ(AppendFrame(RequestOf(0x0102030405060708, ""), "hi", 0, bytes), 2u);
  const std::string header = {'L', 'S', 'T', 'P', 1, 4, 2, 0, 7, 0, 0, 0, 2, 0,
                              0,   0,   8,   7,   6, 5, 4, 3, 2, 1, 2, 0, 0, 0};
  EXPECT_EQ(bytes.substr(0, 28), header);
  EXPECT_EQ(bytes.substr(32), "hi");
}

TEST(Frame, MessagesOfAllSizesComeBackAsTheyWere) {
  for (const size_t size :
       {size_t{0}, size_t{1}, kFramePayloadMax, kFramePayloadMax + 1, size_t{20} << 20}) {
    const Message sent = RequestOf(9, std::string(size, 'x'));
    const std::string bytes = EncodeMessage(sent);
    const size_t frames = std::max<size_t>(1, (size + kFramePayloadMax - 1) / kFramePayloadMax);
    EXPECT_EQ(bytes.size(), size + frames * kFrameHeaderBytes);
    const ReadResult read = ReadAll(bytes);
    ASSERT_EQ(read.messages.size(), 1u) << read.error;
    EXPECT_EQ(read.messages[0].type, FrameType::kRequest);
    EXPECT_EQ(read.messages[0].kind, 7u);
    EXPECT_EQ(read.messages[0].id, 9u);
    EXPECT_TRUE(read.messages[0].must_understand);
    EXPECT_TRUE(read.messages[0].payload == sent.payload);
  }
}

TEST(MessageReader, WaitsForTheRestWhereverTheBytesStop) {
  const std::string bytes = EncodeMessage(RequestOf(1, "hello")) + EncodeMessage(RequestOf(2, ""));
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    MessageReader reader(kLimits);
    size_t count = 0;
    for (const auto& part : {bytes.substr(0, cut), bytes.substr(cut)}) {
      reader.Append(part);
      while (true) {
        auto message = reader.Next();
        ASSERT_TRUE(message.ok()) << cut << ": " << message.status();
        if (!message->has_value()) break;
        ++count;
      }
    }
    EXPECT_EQ(count, 2u) << cut;
  }
}

TEST(MessageReader, ReadsLongFramesToTheirPlaceAndWhatFollowsBehind) {
  std::string long_payload;
  for (size_t i = 0; i < 3 * kFramePayloadMax; ++i) long_payload += static_cast<char>(i * i >> 7);
  std::string bytes = EncodeMessage(RequestOf(1, long_payload));
  bytes += EncodeMessage(RequestOf(2, "short")) + EncodeMessage(RequestOf(3, long_payload));
  MessageReader reader(kLimits);
  std::vector<Message> messages;
  std::string_view rest = bytes;
  size_t to_place = 0;

  // As a socket does: the first buffer is filled, then the second.
  while (!rest.empty()) {
    const MessageReader::Room room = reader.Prepare(4096);
    const size_t first = rest.copy(room.payload.data(), room.payload.size());
    const size_t second = rest.substr(first).copy(room.buffer.data(), room.buffer.size());
    reader.Commit(first + second);
    rest.remove_prefix(first + second);
    to_place += first;
    for (auto next = reader.Next(); next->has_value(); next = reader.Next()) {
      messages.push_back(**std::move(next));
    }
  }

  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].payload, long_payload);
  EXPECT_EQ(messages[1].payload, "short");
  EXPECT_EQ(messages[2].payload, long_payload);
  EXPECT_GT(to_place, bytes.size() * 9 / 10);
}

TEST(MessageReader, NoticesEveryChangedByte) {
  const std::string good = EncodeMessage(RequestOf(1, "hello"));
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0x01, 0x80}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ bit);
      // A length that grew makes it wait for bytes, which then do not fit.
      bytes.append(kFrameBytesMax, 'z');
      const ReadResult read = ReadAll(bytes);
      EXPECT_TRUE(read.messages.empty()) << at;
      EXPECT_NE(read.error, "") << at;
    }
  }
}

TEST(MessageReader, StaysWithItsFirstError) {
  MessageReader reader(kLimits);
  reader.Append("GET / HTTP/1.1\r\n");
  const absl::Status first = reader.Next().status();
  EXPECT_THAT(std::string(first.message()), HasSubstr("not a frame of the link"));
  EXPECT_THAT(std::string(first.message()), HasSubstr("GET / HT"));
  reader.Append(EncodeMessage(RequestOf(1, "")));
  EXPECT_EQ(reader.Next().status(), first);
}

TEST(MessageReader, NoticesGarbageFromItsFirstByte) {
  EXPECT_THAT(ReadAll("G").error, HasSubstr("not a frame"));
  EXPECT_THAT(ReadAll(std::string("LST\0", 4)).error, HasSubstr("not a frame"));
  EXPECT_EQ(ReadAll("LST").error, "");
}

TEST(MessageReader, RefusesAnotherVersionOfTheFrame) {
  EXPECT_THAT(ReadAll(RawFrame{.version = 2}.Bytes()).error, HasSubstr("frame of version 2"));
}

TEST(MessageReader, RefusesAFrameThatIsTooLongBeforeItHasCome) {
  const std::string header =
      RawFrame{.payload = "x", .announced = kFramePayloadMax + 1, .total = 1 << 20}.Bytes();
  EXPECT_THAT(ReadAll(header).error, HasSubstr("frame_bytes_max"));
}

TEST(MessageReader, RefusesAMessageThatIsTooLong) {
  const std::string frame =
      RawFrame{.flags = kMoreFollows, .payload = "x", .total = kMessageBytesMax + 1}.Bytes();
  EXPECT_THAT(ReadAll(frame).error, HasSubstr("message_bytes_max"));
}

TEST(MessageReader, RefusesFragmentsThatMakeNoMessage) {
  const auto fragment = [](uint16_t flags, uint64_t id, std::string payload, uint32_t total) {
    return RawFrame{.flags = flags, .id = id, .payload = std::move(payload), .total = total}
        .Bytes();
  };
  EXPECT_THAT(ReadAll(fragment(0, 5, "abc", 4)).error, HasSubstr("ends after 3 of 4"));
  EXPECT_THAT(ReadAll(fragment(0, 5, "abc", 2)).error, HasSubstr("3 bytes in a message of 2"));
  EXPECT_THAT(ReadAll(fragment(kMoreFollows, 0, "abc", 4)).error, HasSubstr("without an id"));
  EXPECT_THAT(ReadAll(fragment(kMoreFollows, 5, "", 4)).error, HasSubstr("without bytes"));
  const std::string first = fragment(kMoreFollows, 5, "abc", 5);
  EXPECT_THAT(ReadAll(first + fragment(0, 5, "d", 5)).error, HasSubstr("ends after 4 of 5"));
  EXPECT_THAT(ReadAll(first + fragment(0, 5, "def", 5)).error, HasSubstr("does not continue"));
  EXPECT_THAT(ReadAll(first + fragment(0, 5, "de", 6)).error, HasSubstr("does not continue"));
}

TEST(MessageReader, BoundsMessagesThatAreUnderWay) {
  const auto fragment = [](uint64_t id, uint32_t total) {
    return RawFrame{.flags = kMoreFollows, .id = id, .payload = "x", .total = total}.Bytes();
  };
  EXPECT_EQ(ReadAll(fragment(1, 9) + fragment(2, 9)).error, "");
  EXPECT_THAT(ReadAll(fragment(1, 9) + fragment(2, 9) + fragment(3, 9)).error,
              HasSubstr("partial_messages_max"));
  EXPECT_THAT(ReadAll(fragment(1, kMessageBytesMax) + fragment(2, 2)).error,
              HasSubstr("message_bytes_max"));
}

std::string TakeFrom(Outbox& outbox, size_t bytes_max) {
  Batch batch;
  outbox.Take(bytes_max, batch);
  std::string out;
  for (const std::string_view piece : batch.Pieces()) out += piece;
  EXPECT_EQ(out.size(), batch.size);
  return out;
}

TEST(Outbox, LetsShortMessagesOvertakeALongOne) {
  Outbox outbox;
  outbox.Push(RequestOf(1, std::string(10 * kFramePayloadMax, 'x')));
  outbox.Push(RequestOf(2, "short"));
  outbox.Push(RequestOf(3, "also short"));

  std::string bytes;
  while (!outbox.empty()) bytes += TakeFrom(outbox, 1);

  const ReadResult read = ReadAll(bytes);
  ASSERT_EQ(read.messages.size(), 3u) << read.error;
  EXPECT_EQ(read.messages[0].id, 2u);
  EXPECT_EQ(read.messages[1].id, 3u);
  EXPECT_EQ(read.messages[2].id, 1u);
}

// One link may carry the long values of a whole host.
TEST(Outbox, BeginsNoMoreLongMessagesThanTheOtherEndTakes) {
  Outbox outbox;
  constexpr size_t kMessages = 200;
  constexpr size_t kBytes = 3 * kFramePayloadMax;
  for (uint64_t id = 1; id <= kMessages; ++id) outbox.Push(RequestOf(id, std::string(kBytes, 'x')));
  outbox.Push(RequestOf(kMessages + 1, "short"));
  MessageReader reader({.payload_bytes_max = kFramePayloadMax,
                        .message_bytes_max = Outbox::kTurnsBytesMax,
                        .partial_messages_max = Outbox::kTurnsMax});
  std::vector<uint64_t> ids;
  while (!outbox.empty()) {
    reader.Append(TakeFrom(outbox, 1));
    while (true) {
      auto message = reader.Next();
      ASSERT_TRUE(message.ok()) << message.status();
      if (!message->has_value()) break;
      ids.push_back((*message)->id);
    }
  }
  ASSERT_EQ(ids.size(), kMessages + 1);
  EXPECT_EQ(ids.front(), kMessages + 1) << "a short one waits for no long one";
  EXPECT_TRUE(std::is_sorted(ids.begin() + 1, ids.end()));
}

TEST(Outbox, SendsAMessageAloneThatIsLongerThanTheOthersTogether) {
  Outbox outbox;
  outbox.SetPeerMax(4 * kFramePayloadMax);
  for (uint64_t id = 1; id <= 4; ++id) {
    outbox.Push(RequestOf(id, std::string(3 * kFramePayloadMax, 'x')));
  }
  std::string bytes;
  while (!outbox.empty()) bytes += TakeFrom(outbox, 1);
  const ReadResult read = ReadAll(bytes, {.payload_bytes_max = kFramePayloadMax,
                                          .message_bytes_max = 4 * kFramePayloadMax,
                                          .partial_messages_max = 64});
  EXPECT_EQ(read.messages.size(), 4u) << read.error;
}

TEST(Outbox, WritesAPayloadOfManyFromWhereItIs) {
  const auto payload = std::make_shared<const std::string>(3 * kFramePayloadMax / 2, 'x');
  Outbox outbox;
  outbox.Push(RequestOf(1, "short"));
  outbox.Push(RequestOf(2, ""), payload);
  outbox.Push(RequestOf(3, "behind"));
  Batch batch;
  outbox.Take(size_t{1} << 20, batch);

  const std::vector<std::string_view> pieces = batch.Pieces();
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[1].data(), payload->data());
  EXPECT_EQ(pieces[3].data(), payload->data() + kFramePayloadMax);
  std::string bytes;
  for (const std::string_view piece : pieces) bytes += piece;
  const ReadResult read = ReadAll(bytes);
  ASSERT_EQ(read.messages.size(), 3u) << read.error;
  EXPECT_EQ(read.messages[0].id, 1u);
  EXPECT_EQ(read.messages[1].id, 3u);
  EXPECT_EQ(read.messages[2].payload, *payload);
}

TEST(Outbox, CountsWhatWaits) {
  Outbox outbox;
  EXPECT_EQ(outbox.bytes(), 0u);
  EXPECT_EQ(TakeFrom(outbox, 100), "");
  const Message message = RequestOf(1, std::string(kFramePayloadMax + 1, 'x'));
  outbox.Push(message);
  EXPECT_EQ(outbox.bytes(), EncodeMessage(message).size() + Outbox::kEntryBytes);
  EXPECT_EQ(TakeFrom(outbox, 1).size(), kFrameBytesMax);
  EXPECT_EQ(outbox.bytes(), kFrameHeaderBytes + 1 + Outbox::kEntryBytes);
  TakeFrom(outbox, 1);
  EXPECT_EQ(outbox.bytes(), 0u);
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, Finding10_EmptyMessagesCountAsWhatTheyCost) {
  Outbox outbox;
  outbox.Push(RequestOf(1, std::string(kFramePayloadMax, 'x')));  // in the way of those behind it
  const size_t before = outbox.bytes();
  for (uint64_t id = 2; id < 1002; ++id) outbox.Push(RequestOf(id, ""));
  EXPECT_GE(outbox.bytes() - before, 1000 * (kFrameHeaderBytes + 150));
  EXPECT_GE(outbox.memory(), outbox.bytes() - 1002 * kFrameHeaderBytes);
  while (!outbox.empty()) TakeFrom(outbox, 1 << 20);
  EXPECT_EQ(outbox.bytes(), 0u);
}

TEST(Outbox, WhatManySendIsCountedOnceAndSomeMore) {
  const auto payload = std::make_shared<const std::string>(100'000, 'x');
  std::array<Outbox, 100> outboxes;
  size_t memory = 0;
  for (Outbox& outbox : outboxes) {
    outbox.Push({.type = FrameType::kAnswer, .id = 1}, payload);
    memory += outbox.memory();
  }
  EXPECT_GT(memory, payload->size());
  EXPECT_LT(memory, 10 * payload->size());
}

TEST(MessageReader, Finding15_WhatThereIsNoRoomForIsReadToItsEndAndNotKept) {
  MessageReader reader({.payload_bytes_max = kFramePayloadMax,
                        .message_bytes_max = size_t{64} << 20,
                        .partial_messages_max = 4});
  bool room = true;
  reader.SetRoom([&](size_t) { return room; });
  const std::string bytes = EncodeMessage(RequestOf(7, std::string(10 * kFramePayloadMax, 'x')));
  reader.Append(std::string_view(bytes).substr(0, bytes.size() / 2));
  ASSERT_TRUE(reader.Next().ok());
  EXPECT_GT(reader.memory(), 4 * kFramePayloadMax);
  room = false;
  size_t most = 0;
  for (size_t at = bytes.size() / 2; at < bytes.size(); at += 1000) {
    reader.Append(std::string_view(bytes).substr(at, 1000));
    auto message = reader.Next();
    ASSERT_TRUE(message.ok()) << message.status();
    most = std::max(most, reader.memory());
    if (!message->has_value()) continue;
    EXPECT_TRUE((*message)->dropped);
    EXPECT_EQ((*message)->id, 7u);
    EXPECT_TRUE((*message)->payload.empty());
    EXPECT_EQ(at + 1000 >= bytes.size(), true);
  }
  // The next one finds room again.
  room = true;
  reader.Append(EncodeMessage(RequestOf(8, std::string(2 * kFramePayloadMax, 'y'))));
  auto next = reader.Next();
  ASSERT_TRUE(next.ok() && next->has_value());
  EXPECT_FALSE((*next)->dropped);
  EXPECT_EQ((*next)->payload.size(), 2 * kFramePayloadMax);
}

TEST(MessageReader, Finding15_KnowsWhichUnfinishedMessageDoesNotGoOn) {
  MessageReader reader({.payload_bytes_max = kFramePayloadMax,
                        .message_bytes_max = size_t{64} << 20,
                        .partial_messages_max = 4});
  const std::string bytes = EncodeMessage(RequestOf(7, std::string(10 * kFramePayloadMax, 'x')));
  const size_t part = 2 * kFrameBytesMax;
  EXPECT_FALSE(reader.Stalled(kFramePayloadMax));
  reader.Append(std::string_view(bytes).substr(0, part));
  ASSERT_TRUE(reader.Next().ok());
  EXPECT_FALSE(reader.Stalled(kFramePayloadMax)) << "it has just begun";
  reader.Append(std::string_view(bytes).substr(part, part));
  ASSERT_TRUE(reader.Next().ok());
  EXPECT_FALSE(reader.Stalled(kFramePayloadMax)) << "it has come on";
  reader.Append(EncodeMessage(RequestOf(9, "another")));
  ASSERT_TRUE(reader.Next()->has_value());
  EXPECT_TRUE(reader.Stalled(kFramePayloadMax)) << "what others do does not help it";
}

}  // namespace
}  // namespace lockstep::link
