// Holds messages that list their fields against a .proto with real protobuf: the same fields with
// the same numbers and types, the same bytes, and the same values read back, both ways. For tests:
//   INSTANTIATE_TYPED_TEST_SUITE_P(Native, Contract, testing::Types<Pair<Hello, v1::Hello>, ...>);
#pragma once

#include <memory>
#include <random>
#include <string>

#include "absl/strings/ascii.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::wire::native {
namespace contract {

namespace pb = google::protobuf;
using FieldType = pb::FieldDescriptor::Type;

template <class T>
struct ElementOf {
  using Type = T;
};
template <class T>
struct ElementOf<std::optional<T>> {
  using Type = T;
};
template <class T>
struct ElementOf<std::vector<T>> {
  using Type = T;
};

template <class T>
constexpr FieldType TypeOnPaper() {
  if constexpr (std::is_same_v<T, bool>) return FieldType::TYPE_BOOL;
  if constexpr (std::is_same_v<T, int32_t>) return FieldType::TYPE_INT32;
  if constexpr (std::is_same_v<T, int64_t>) return FieldType::TYPE_INT64;
  if constexpr (std::is_same_v<T, uint32_t>) return FieldType::TYPE_UINT32;
  if constexpr (std::is_same_v<T, uint64_t>) return FieldType::TYPE_UINT64;
  if constexpr (std::is_same_v<T, std::string>) return FieldType::TYPE_STRING;
  if constexpr (std::is_same_v<T, lockstep::wire::native::Bytes>) return FieldType::TYPE_BYTES;
  if constexpr (std::is_same_v<T, SharedBytes>) return FieldType::TYPE_BYTES;
  if constexpr (std::is_same_v<T, BytesView>) return FieldType::TYPE_BYTES;
  if constexpr (std::is_enum_v<T>) return FieldType::TYPE_ENUM;
  return FieldType::TYPE_MESSAGE;
}

// Fills messages with values that are often at the edges of their types.
class Filler {
 public:
  explicit Filler(uint32_t seed) : random_(seed) {}

  template <class T>
  void Fill(T& value) {
    if constexpr (IsOptional<T>::value) {
      value.reset();
      if (Below(2) == 0) Fill(value.emplace());
    } else if constexpr (IsVector<T>::value) {
      value.resize(Below(4));
      for (auto& element : value) Fill(element);
    } else if constexpr (IsMessage<T>) {
      ForEachField<T>([&](const auto& field) {
        Fill(value.*field.member);
        Fit(value.*field.member, field.range);
      });
    } else if constexpr (std::is_same_v<T, std::string>) {
      static const std::string kTexts[] = {"", "task/4#1", "Zürich ☃ \U0001F600",
                                           std::string(200, 'x'), std::string("a\0b", 3)};
      value = kTexts[Below(std::size(kTexts))];
    } else if constexpr (std::is_same_v<T, Bytes>) {
      static const std::string kBytes[] = {"", "plain", std::string("\0\xff\xc0", 3)};
      value.data = kBytes[Below(std::size(kBytes))];
    } else if constexpr (std::is_same_v<T, BytesView>) {
      static const std::string kViews[] = {"", "plain", std::string("\0\xff\xc0", 3)};
      value.view = kViews[Below(std::size(kViews))];
    } else if constexpr (std::is_same_v<T, SharedBytes>) {
      Bytes bytes;
      Fill(bytes);
      value.data = bytes.data.empty() ? nullptr : std::make_shared<std::string>(bytes.data);
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(static_cast<int32_t>(Below(20)) - 2);  // also values without a name
    } else if constexpr (std::is_same_v<T, bool>) {
      value = Below(2) == 1;
    } else {
      const T kValues[] = {0, 1, std::numeric_limits<T>::max(), std::numeric_limits<T>::min(),
                           static_cast<T>(random_())};
      value = kValues[Below(std::size(kValues))];
    }
  }

 private:
  // A number outside of its field's range becomes 0, which each range holds, or the greatest.
  template <class T>
  void Fit(T& value, const Range& range) {
    if constexpr (IsOptional<T>::value) {
      if (value) Fit(*value, range);
    } else if constexpr (IsVector<T>::value) {
      for (auto& element : value) Fit(element, range);
    } else if constexpr (kIsNumber<T>) {
      if (!range.Holds(value)) value = value < T{1} ? T{0} : static_cast<T>(range.max);
    }
  }

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  std::mt19937_64 random_;
};

// Protobuf's own bytes, in the order of the fields.
inline std::string BytesOf(const pb::Message& message) {
  std::string bytes;
  pb::io::StringOutputStream stream(&bytes);
  pb::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&out);
  out.Trim();
  return bytes;
}

template <class Mine, class Theirs>
struct Pair {
  using Native = Mine;
  using Protobuf = Theirs;
};

template <class P>
class Contract : public testing::Test {};

TYPED_TEST_SUITE_P(Contract);

TYPED_TEST_P(Contract, ListsTheFieldsOfTheProto) {
  using Native = typename TypeParam::Native;
  const pb::Descriptor* descriptor = TypeParam::Protobuf::descriptor();
  EXPECT_EQ(Native::kName, descriptor->full_name());
  int count = 0;
  ForEachField<Native>([&](const auto& field) {
    using T = typename std::decay_t<decltype(field)>::Type;
    using Element = typename ElementOf<T>::Type;
    ++count;
    const auto* on_paper = descriptor->FindFieldByNumber(static_cast<int>(field.number));
    ASSERT_NE(on_paper, nullptr) << field.name;
    EXPECT_EQ(field.name, on_paper->name());
    EXPECT_EQ(TypeOnPaper<Element>(), on_paper->type()) << field.name;
    EXPECT_EQ(IsVector<T>::value, on_paper->is_repeated()) << field.name;
    EXPECT_EQ(IsOptional<T>::value, on_paper->has_optional_keyword()) << field.name;
    if constexpr (std::is_enum_v<Element>) {
      const auto names = EnumNames(Element{});
      EXPECT_EQ(static_cast<int>(names.size()), on_paper->enum_type()->value_count());
      for (const auto& entry : names) {
        const auto* value = on_paper->enum_type()->FindValueByNumber(static_cast<int>(entry.value));
        ASSERT_NE(value, nullptr) << entry.name;
        EXPECT_THAT(value->name(),
                    testing::EndsWith("_" + absl::AsciiStrToUpper(std::string(entry.name))));
      }
    }
  });
  EXPECT_EQ(count, descriptor->field_count());
}

TYPED_TEST_P(Contract, ProtobufReadsWhatWeWriteAndWritesTheSameBytes) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    typename TypeParam::Native mine;
    Filler(seed).Fill(mine);
    const std::string bytes = Encode(mine);
    typename TypeParam::Protobuf theirs;
    ASSERT_TRUE(theirs.ParseFromString(bytes)) << "seed " << seed;
    EXPECT_TRUE(theirs.GetReflection()->GetUnknownFields(theirs).empty()) << "seed " << seed;
    ASSERT_EQ(BytesOf(theirs), bytes) << "seed " << seed << ": " << theirs.ShortDebugString();
  }
}

TYPED_TEST_P(Contract, WeReadWhatProtobufWrites) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    typename TypeParam::Native mine;
    Filler(seed).Fill(mine);
    typename TypeParam::Protobuf theirs;
    ASSERT_TRUE(theirs.ParseFromString(Encode(mine)));
    const std::string bytes = BytesOf(theirs);
    auto read = DecodeUnbounded<typename TypeParam::Native>(bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == mine) << "seed " << seed << ": " << theirs.ShortDebugString();
  }
}

// Bytes changed at random: what we accept, protobuf accepts, and both have read the same.
TYPED_TEST_P(Contract, ReadsDamagedBytesAsProtobufDoes) {
  std::mt19937_64 random(1);
  int accepted = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    typename TypeParam::Native mine;
    Filler(seed).Fill(mine);
    std::string bytes = Encode(mine);
    for (uint64_t change = random() % 3 + 1; change > 0 && !bytes.empty(); --change) {
      const size_t at = random() % bytes.size();
      if (random() % 4 == 0) {
        bytes.erase(at, 1 + random() % 3);
      } else {
        bytes[at] = static_cast<char>(random());
      }
    }
    auto read = DecodeUnbounded<typename TypeParam::Native>(bytes);
    if (!read.ok()) continue;
    ++accepted;
    typename TypeParam::Protobuf theirs;
    ASSERT_TRUE(theirs.ParseFromString(bytes))
        << "seed " << seed << ": " << testing::PrintToString(bytes);
    const std::string rewritten = BytesOf(theirs);
    auto reread = DecodeUnbounded<typename TypeParam::Native>(rewritten);
    ASSERT_TRUE(reread.ok()) << reread.status();
    EXPECT_TRUE(*reread == *read) << "seed " << seed << ": " << testing::PrintToString(bytes);
  }
  EXPECT_GT(accepted, 0);
}

REGISTER_TYPED_TEST_SUITE_P(Contract, ListsTheFieldsOfTheProto,
                            ProtobufReadsWhatWeWriteAndWritesTheSameBytes, WeReadWhatProtobufWrites,
                            ReadsDamagedBytesAsProtobufDoes);

}  // namespace contract
}  // namespace lockstep::wire::native
