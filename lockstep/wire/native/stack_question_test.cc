#include "lockstep/wire/native/stack_question.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::wire::native {
namespace {

TEST(StacksAsked, WhatIsEncodedIsDecoded) {
  for (const StacksAsked& asked :
       {StacksAsked{.id = "7", .members = {1, 2}, .native = true},
        StacksAsked{.id = "8", .because = "barrier 'x' timed out", .say = true}}) {
    const auto decoded = DecodeQuestion(EncodeQuestion(asked));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, asked);
  }
}

TEST(StacksAsked, ABarrierMayBeCalledAnything) {
  EXPECT_TRUE(DecodeQuestion(EncodeQuestion({.id = "7", .because = "barrier '\xff'"})).ok());
}

TEST(StacksAsked, WhatIsNoQuestionIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"id":1,"members":[],"native":false})",
                           R"({"id":"1","members":[],"native":false,"because":7})", "\xff"}) {
    EXPECT_EQ(DecodeQuestion(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(StacksAsked, Finding11_EightMegabytesOfBracketsAreRefusedUnparsed) {
  const absl::Status refused = DecodeQuestion(std::string(8 << 20, '[')).status();
  EXPECT_EQ(refused.message(),
            "a question for stacks has 8388608 bytes, and may have 65536 "
            "(stack_question_bytes_max)");
}

TEST(StacksAsked, Finding11_ADeepQuestionIsRefusedUnparsed) {
  const std::string deep =
      absl::StrCat(R"({"id":"1","members":[],"native":false,"because":"x","a":)",
                   std::string(8, '['), std::string(8, ']'), "}");
  EXPECT_THAT(std::string(DecodeQuestion(deep).status().message()),
              testing::HasSubstr("stack_question_depth_max"));
  // Brackets in a text are no depth, also behind an escaped quote.
  EXPECT_TRUE(DecodeQuestion(EncodeQuestion({.id = "1", .because = "\"[[[[[[[[[[{{{{"})).ok());
}

}  // namespace
}  // namespace lockstep::wire::native
