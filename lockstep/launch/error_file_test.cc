#include "lockstep/launch/error_file.h"

#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

TEST(ErrorFileTest, WhatTorchWrites) {
  EXPECT_EQ(ErrorTextOf(R"({"message": {"message": "ValueError: no gradient",
                            "extraInfo": {"py_callstack": "...", "timestamp": "1"}}})"),
            "ValueError: no gradient");
  EXPECT_EQ(ErrorTextOf(R"({"message": "SIGTERM"})"), "SIGTERM");
}

TEST(ErrorFileTest, ATerminalCanShowIt) {
  EXPECT_EQ(ErrorTextOf(R"({"message": "a\nb\u001b[2J"})"), "a b [2J");
  EXPECT_EQ(ErrorTextOf("{\"message\": \"" + std::string(1000, 'x') + "\"}").size(),
            kErrorTextBytesMax);
}

TEST(ErrorFileTest, WhatIsNoneOfItSaysNothing) {
  for (const char* text : {"", "{", "[1]", "{}", R"({"message": 3})", R"({"message": {}})"}) {
    EXPECT_EQ(ErrorTextOf(text), "") << text;
  }
  EXPECT_EQ(ReadErrorFile("/nowhere/error.json"), "");
}

}  // namespace
}  // namespace lockstep::launch
