#include "lockstep/stock/tcpstore/wire/outbox.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::wire::tcpstore {
namespace {

namespace machine = ::lockstep::tcpstore;

machine::ValuePtr Make(std::string value) {
  return std::make_shared<const std::string>(std::move(value));
}

std::string AllOf(const Outbox& outbox) {
  std::vector<absl::string_view> pieces;
  outbox.Peek(1000, pieces);
  std::string bytes;
  for (const absl::string_view piece : pieces) bytes.append(piece.data(), piece.size());
  return bytes;
}

std::string BytesOf(const machine::Answer& answer) {
  Outbox outbox;
  outbox.Push(answer);
  EXPECT_EQ(outbox.bytes(), AllOf(outbox).size());
  return AllOf(outbox);
}

template <size_t kSize>
std::string Bytes(const char (&text)[kSize]) {
  return {text, kSize - 1};
}

TEST(Outbox, WritesEachAnswerAsTorchReadsIt) {
  EXPECT_EQ(BytesOf(machine::Readiness::kReady), Bytes("\0"));
  EXPECT_EQ(BytesOf(machine::Readiness::kNotReady), Bytes("\1"));
  EXPECT_EQ(BytesOf(machine::WaitCancelled{}), Bytes("\1"));
  EXPECT_EQ(BytesOf(machine::Number{-2}), Bytes("\xfe\xff\xff\xff\xff\xff\xff\xff"));
  EXPECT_EQ(BytesOf(machine::Echo{77}), Bytes("M\0\0\0"));
  EXPECT_EQ(BytesOf(machine::Value{Make("abc")}), Bytes("\3\0\0\0\0\0\0\0abc"));
  EXPECT_EQ(BytesOf(machine::Value{nullptr}), Bytes("\0\0\0\0\0\0\0\0"));
  EXPECT_EQ(BytesOf(machine::SentValue{"e"}), Bytes("\1\0\0\0\0\0\0\0e"));
  EXPECT_EQ(BytesOf(machine::Values{{Make("a"), nullptr}}),
            Bytes("\1\0\0\0\0\0\0\0a\0\0\0\0\0\0\0\0"));
  EXPECT_EQ(BytesOf(machine::Values{}), "");
  EXPECT_EQ(BytesOf(machine::Popped{2, Make("x")}), Bytes("\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0x"));
  EXPECT_EQ(BytesOf(machine::Popped{1, Make("")}), Bytes("\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"));
  EXPECT_EQ(BytesOf(machine::Popped{}), Bytes("\0\0\0\0\0\0\0\0"));
  std::string packed;
  machine::PackName("/a", packed);
  EXPECT_EQ(BytesOf(machine::KeyNames{2, {Make(packed), Make(Bytes("\1\0\0\0\0\0\0\0b"))}}),
            Bytes("\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/a\1\0\0\0\0\0\0\0b"));
  EXPECT_EQ(BytesOf(machine::KeyNames{0, {Make("")}}), Bytes("\0\0\0\0\0\0\0\0"));
}

TEST(Outbox, CountsNamesUntilTheyAreSent) {
  const std::string slice(machine::kSharedBytesMin, 'n');
  Outbox outbox;
  const size_t before = outbox.memory();
  outbox.Push(machine::KeyNames{2, {Make(slice), Make(slice)}});
  EXPECT_GE(outbox.memory(), before + 2 * slice.size());
  outbox.Sent(outbox.bytes());
  EXPECT_LT(outbox.memory(), before + slice.size());
}

TEST(Outbox, GivesTheBytesInOrderHoweverTheyAreSent) {
  const std::string large(machine::kSharedBytesMin, 'L');
  for (const size_t at_once : {size_t{1}, size_t{7}, size_t{100'000}}) {
    Outbox outbox;
    std::string expected;
    for (int i = 0; i < 5; ++i) {
      const machine::Answer answers[] = {machine::Value{Make(large)}, machine::Echo{1},
                                         machine::Values{{Make(large), Make("s"), Make(large)}}};
      for (const machine::Answer& answer : answers) {
        outbox.Push(answer);
        expected += BytesOf(answer);
      }
    }
    std::string sent;
    std::vector<absl::string_view> pieces;
    while (!outbox.empty()) {
      outbox.Peek(2, pieces);
      ASSERT_FALSE(pieces.empty());
      const absl::string_view some = pieces.front().substr(0, at_once);
      sent.append(some.data(), some.size());
      outbox.Sent(some.size());
    }
    EXPECT_TRUE(sent == expected);
    EXPECT_EQ(outbox.bytes(), 0u);
  }
}

TEST(Outbox, SharesLongValues) {
  const machine::ValuePtr value = Make(std::string(machine::kSharedBytesMin, 'L'));
  Outbox outbox;
  outbox.Push(machine::Value{value});
  EXPECT_EQ(value.use_count(), 2);
  outbox.Sent(outbox.bytes());
  EXPECT_EQ(value.use_count(), 1) << "given back once it is sent";
}

TEST(Outbox, IsUsedAgainAfterAllIsSent) {
  Outbox outbox;
  for (int i = 0; i < 3; ++i) {
    outbox.Push(machine::Value{Make(std::string(machine::kSharedBytesMin, 'L'))});
    outbox.Push(machine::Echo{7});
    outbox.Sent(outbox.bytes());
    outbox.Push(machine::Echo{77});
    EXPECT_EQ(AllOf(outbox), Bytes("M\0\0\0"));
    outbox.Sent(4);
  }
}

}  // namespace
}  // namespace lockstep::wire::tcpstore
