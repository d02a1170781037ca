#include "lockstep/server/ready_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

namespace lockstep::server {
namespace {

std::string TestPath(const std::string& name) {
  return ::testing::TempDir() + name + "." + std::to_string(getpid());
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ReadyFile, TextIsTheDocumentedJson) {
  EXPECT_EQ(ReadyText({.listen = "127.0.0.1:27001",
                       .join = "lockstep://127.0.0.1:27001#sha256=00",
                       .pid = 17,
                       .jobs = {{"digits", {.grpc = "127.0.0.1:27002", .store = "127.0.0.1:27003"}},
                                {"plain", {.grpc = "127.0.0.1:27004", .store = ""}}},
                       .http = ""}),
            "{\"listen\":\"127.0.0.1:27001\","
            "\"join\":\"lockstep://127.0.0.1:27001#sha256=00\",\"pid\":17,"
            "\"jobs\":{\"digits\":{\"grpc\":\"127.0.0.1:27002\",\"store\":\"127.0.0.1:27003\"},"
            "\"plain\":{\"grpc\":\"127.0.0.1:27004\"}}}\n");
}

TEST(ReadyFile, LivesAsLongAsItsOwner) {
  const std::string path = TestPath("ready");
  std::ofstream(path) << "of a dead server";
  {
    ReadyFile file(path);
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE(file.Write("text").ok());
    EXPECT_EQ(Contents(path), "text");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ReadyFile, LeavesTheFileOfAServerThatLives) {
  const std::string path = TestPath("ready-of-another");
  const std::string theirs =
      ReadyText({.listen = "127.0.0.1:1", .join = "", .pid = getppid(), .jobs = {}, .http = ""});
  std::ofstream(path) << theirs;
  { ReadyFile second(path); }
  EXPECT_EQ(Contents(path), theirs);

  {
    ReadyFile first(path);
    ASSERT_TRUE(first.Write("text").ok());
    std::filesystem::remove(path);
    std::ofstream(path + ".new") << theirs;
    std::filesystem::rename(path + ".new", path);
  }
  EXPECT_EQ(Contents(path), theirs);
  std::filesystem::remove(path);
}

TEST(ReadyFile, WhatCannotBeWrittenIsNamed) {
  const std::string path = TestPath("no-such-folder") + "/ready";
  absl::Status status = ReadyFile(path).Write("text");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find(path), std::string::npos);
}

TEST(ReadyFile, WithoutAPathDoesNothing) { EXPECT_TRUE(ReadyFile("").Write("text").ok()); }

}  // namespace
}  // namespace lockstep::server
