#include "lockstep/stock/wire/answers.h"

#include <map>
#include <string>

#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "lockstep/stock/wire/append.h"
#include "lockstep/stock/wire/hex_testing.h"

namespace lockstep::wire::stock {
namespace {

std::string Bytes(const EncodedAnswer& encoded) {
  return encoded.tail ? encoded.head + *encoded.tail : encoded.head;
}

std::shared_ptr<const std::string> Value(std::string value) {
  return std::make_shared<const std::string>(std::move(value));
}

// Read by a parser that shares nothing with how it was written.
std::string Block(const std::string& bytes, int field) {
  google::protobuf::UnknownFieldSet fields;
  EXPECT_TRUE(fields.ParseFromString(bytes));
  for (int i = 0; i < fields.field_count(); ++i) {
    if (fields.field(i).number() == field) return fields.field(i).length_delimited();
  }
  return "(no such field)";
}

TEST(Append, NumbersAsProtobufWritesThem) {
  std::string bytes;
  AppendInt64(1, 300, bytes);
  AppendInt64(2, 0, bytes);
  AppendInt64(3, -1, bytes);
  AppendFixed64(2, 0x11, bytes);
  AppendFixed64(1, 0, bytes);
  EXPECT_EQ(bytes, FromHex("08 ac 02 18 ff ff ff ff ff ff ff ff ff 01 11 11 00 00 00 00 00 00 00"));
}

TEST(Append, BlocksWithTheirLength) {
  std::string bytes;
  AppendBlock(20, std::string(200, 'x'), bytes);
  EXPECT_EQ(bytes, FromHex("a2 01 c8 01") + std::string(200, 'x'));
}

TEST(Answers, KeyReadIsAnEntryInFieldOne) {
  for (const std::string& key : {std::string(), std::string("k"), std::string(300, 'k')}) {
    for (const std::string& value : {std::string(), std::string("v"), std::string(70'000, '\0')}) {
      const std::string entry = Block(Bytes(Encode(coord::KeyRead{{key, Value(value)}})), 1);
      EXPECT_EQ(Block(entry, 1), key.empty() ? "(no such field)" : key);
      EXPECT_EQ(Block(entry, 2), value.empty() ? "(no such field)" : value);
    }
  }
}

TEST(Answers, KeyReadDoesNotCopyTheValue) {
  auto value = Value(std::string(1 << 20, 'v'));
  EXPECT_EQ(Encode(coord::KeyRead{{"k", value}}).tail, value);
}

TEST(Answers, ListingsKeepTheirOrder) {
  const coord::KeysListed listed{{{"d/a", Value("v")}, {"d/b", nullptr}}};
  EXPECT_EQ(Bytes(Encode(listed, "")),
            FromHex("12 08 0a 03 64 2f 61 12 01 76 12 05 0a 03 64 2f 62"));
  EXPECT_EQ(Bytes(Encode(listed, "d")),
            FromHex("0a 01 64 12 08 0a 03 64 2f 61 12 01 76 12 05 0a 03 64 2f 62"));
}

TEST(GoldenAnswers, IncarnationsAndCounters) {
  const std::string golden = FromHex("09 18 17 16 15 14 13 12 11");
  EXPECT_EQ(Bytes(Encode(coord::Registered{ServiceIncarnation(kServiceIncarnation)})), golden);
  EXPECT_EQ(Bytes(Encode(coord::HeartbeatTaken{ServiceIncarnation(kServiceIncarnation)})), golden);
  EXPECT_EQ(Bytes(Encode(coord::BarrierPassed{0})), "");
  EXPECT_EQ(Bytes(Encode(coord::BarrierPassed{300})), FromHex("08 ac 02"));
  EXPECT_EQ(Bytes(Encode(std::monostate())), "");
}

}  // namespace
}  // namespace lockstep::wire::stock
