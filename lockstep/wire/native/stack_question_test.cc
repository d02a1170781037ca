#include "lockstep/wire/native/stack_question.h"

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

}  // namespace
}  // namespace lockstep::wire::native
