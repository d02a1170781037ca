#include <unistd.h>

#include "absl/strings/match.h"
#include "lockstep/testing/running_source.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::Running;
using lockstep::testing::TestDirectory;
using lockstep::testing::WriteFile;

TEST(FileSource, TheFileIsANoticeAndItsRemovalWithdrawsIt) {
  const TestDirectory directory;
  const std::string path = directory / "drain";
  Running file("file:interval=1ms,path=" + path);
  EXPECT_TRUE(file.log.NextHealth(true).healthy);
  WriteFile(path, "");
  const SourceEvent given = file.log.Next();
  EXPECT_EQ(given.left, std::nullopt);
  EXPECT_TRUE(absl::StrContains(given.text, path));
  ASSERT_EQ(::unlink(path.c_str()), 0);
  const SourceEvent gone = file.log.Next();
  EXPECT_TRUE(gone.withdrawn);
  EXPECT_EQ(gone.id, given.id);
}

TEST(FileSource, AnotherContentIsTheSameNoticeAtAnotherTime) {
  const TestDirectory directory;
  const std::string path = directory / "drain";
  WriteFile(path, "30s\n");
  Running file("file:interval=1ms,path=" + path);
  const SourceEvent first = file.log.Next();
  EXPECT_LE(first.left, absl::Seconds(30));
  EXPECT_GT(first.left, absl::ZeroDuration());
  WriteFile(path, R"({"left": "1h", "kind": "maintenance", "text": "rack 12"})");
  const SourceEvent second = file.log.Next();
  EXPECT_EQ(second.id, first.id);
  EXPECT_GT(second.left, absl::Minutes(50));
  EXPECT_EQ(second.kind, NoticeKind::kMaintenance);
  EXPECT_EQ(second.text, "rack 12");
}

TEST(FileSource, WhatIsHalfWrittenIsReadAgain) {
  const TestDirectory directory;
  const std::string path = directory / "drain";
  WriteFile(path, R"({"left": "S3CRET)");
  Running file("file:interval=1ms,path=" + path);
  EXPECT_FALSE(absl::StrContains(file.log.NextHealth(false).last_error, "S3CRET"));
  WriteFile(path, R"({"left": "10m"})");
  EXPECT_GT(file.log.Next().left, absl::Minutes(9));
  file.log.NextHealth(true);
}

TEST(FileSource, AFolderIsNoNotice) {
  const TestDirectory directory;
  Running file("file:interval=1ms,path=" + directory / "");
  EXPECT_TRUE(absl::StrContains(file.log.NextHealth(false).last_error, "no regular file"));
  EXPECT_EQ(file.log.size(), 0);
}

}  // namespace
}  // namespace lockstep::preempt
