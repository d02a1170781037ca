#include "lockstep/rendezvous/transport/bulk_wire.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

// What comes of `bytes` when they come in pieces; fewer messages: one was refused.
std::vector<std::string> TakeInPieces(const std::string& bytes, size_t piece, std::string& buffer) {
  std::vector<std::string> messages;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    buffer += bytes.substr(at, piece);
    while (true) {
      auto message = TakeMessage(buffer);
      if (!message.ok()) return messages;
      if (!message->has_value()) break;
      messages.push_back(**std::move(message));
    }
  }
  return messages;
}

TEST(BulkWire, RendezvousRow92_MessagesAreTheSameInHoweverManyPiecesTheyCome) {
  const std::vector<std::string> sent = {std::string(3000, 'a'), "", "b",
                                         std::string(kBulkMessageBytesMax, 'c'),
                                         std::string(1020, 'd')};
  std::string bytes;
  for (const std::string& message : sent) bytes += WithLength(message);
  std::string buffer;  // used again for each
  for (const size_t piece : {size_t{1}, size_t{3}, size_t{1024}, bytes.size()}) {
    EXPECT_EQ(TakeInPieces(bytes, piece, buffer), sent) << piece;
    EXPECT_EQ(buffer, "");
  }
}

TEST(BulkWire, RendezvousRow96_AMessageThatIsTooLongIsRefusedBeforeItComes) {
  for (const char* length : {"\x01\x10\x00\x00", "\xff\xff\xff\xff", "\x00\x00\x00\x80"}) {
    std::string buffer(length, 4);
    EXPECT_EQ(TakeMessage(buffer).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(BulkWire, ReadsAHeaderAsItWasWritten) {
  for (const BulkCode code : {BulkCode::kBytes, BulkCode::kUnknown, BulkCode::kRange}) {
    const auto header = DecodeBulkHeader(
        EncodeBulkHeader({.code = code, .lease = UINT64_MAX, .offset = 1, .bytes = 1ULL << 63}));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->code, code);
    EXPECT_EQ(header->lease, UINT64_MAX);
    EXPECT_EQ(header->offset, 1);
    EXPECT_EQ(header->bytes, 1ULL << 63);
  }
}

TEST(BulkWire, RendezvousRow96_WhatDoesNotBeginAsAnAnswerIsRefused) {
  const BulkHeaderBytes good = EncodeBulkHeader({.bytes = 5});
  for (const size_t at : {size_t{0}, size_t{3}, size_t{4}, size_t{7}}) {  // the mark and the code
    BulkHeaderBytes bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x44);
    EXPECT_EQ(DecodeBulkHeader(bytes).status().code(), absl::StatusCode::kInvalidArgument) << at;
  }
}

}  // namespace
}  // namespace lockstep::transport
