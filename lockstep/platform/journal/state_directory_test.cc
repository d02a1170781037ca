#include "lockstep/platform/journal/state_directory.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/journal/testing.h"

namespace lockstep::journal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string WhyNot(const std::string& path) {
  const auto taken = StateDirectory::Take(path);
  if (taken.ok()) return "taken";
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kFailedPrecondition);
  return std::string(taken.status().message());
}

TEST(StateDirectory, IsMadeForItsOwnerAlone) {
  const TemporaryDirectory temporary;
  const std::string path = temporary.path("a/b/state");
  const auto taken = StateDirectory::Take(path + "/");
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ((*taken)->path(), path);
  struct stat about;
  ASSERT_EQ(stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700u);
}

TEST(StateDirectory, Finding19_OneThatOthersMayWriteIsRefused) {
  for (const mode_t mode : {0777, 0770, 0720, 0702}) {
    const TemporaryDirectory temporary;
    const std::string path = temporary.path("state");
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_THAT(WhyNot(path), AllOf(HasSubstr("other users may change"), HasSubstr("chmod 700")));
  }
}

TEST(StateDirectory, Finding19_OneThatOthersMayReadIsUsedAndToldOf) {
  const TemporaryDirectory temporary;
  const std::string path = temporary.path("state");
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ((*StateDirectory::Take(path))->warning(), "");
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  const auto taken = StateDirectory::Take(path);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT((*taken)->warning(), AllOf(HasSubstr("0755"), HasSubstr("chmod 700")));
}

TEST(StateDirectory, HasOneOwnerWhoIsNamed) {
  const TemporaryDirectory temporary;
  {
    const auto first = StateDirectory::Take(temporary.path());
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_THAT(WhyNot(temporary.path()), AllOf(HasSubstr("in use by another server"),
                                                HasSubstr(absl::StrCat("process ", getpid()))));
  }
  EXPECT_EQ(WhyNot(temporary.path()), "taken");
}

TEST(StateDirectory, TheLockGoesWithTheProcess) {
  const TemporaryDirectory temporary;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto taken = StateDirectory::Take(temporary.path());
    if (!taken.ok() || write(ready[1], "x", 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(WhyNot(temporary.path()), HasSubstr(absl::StrCat("process ", child)));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(WhyNot(temporary.path()), "taken");
  close(ready[0]);
  close(ready[1]);
}

TEST(StateDirectory, WhatIsNotFitIsRefusedWithTheReason) {
  const TemporaryDirectory temporary;
  WriteFile(temporary.path("file"), "");
  EXPECT_THAT(WhyNot(temporary.path("file")), HasSubstr("is not a directory"));
  EXPECT_THAT(WhyNot(temporary.path("file/below")), HasSubstr("cannot be"));
  std::filesystem::create_directory(temporary.path("real"));
  std::filesystem::create_symlink("real", temporary.path("link"));
  EXPECT_THAT(WhyNot(temporary.path("link")), HasSubstr("is a symbolic link"));
  EXPECT_THAT(WhyNot(temporary.path("link/")), HasSubstr("is a symbolic link"));
  std::filesystem::create_symlink("nowhere", temporary.path("real/lock"));
  EXPECT_THAT(WhyNot(temporary.path("real")), HasSubstr("cannot be locked"));
}

TEST(StateDirectory, AnotherUsersIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const TemporaryDirectory temporary;
  ASSERT_EQ(chown(temporary.path().c_str(), 12345, 12345), 0);
  EXPECT_THAT(WhyNot(temporary.path()), HasSubstr("belongs to user 12345"));
}

TEST(StateDirectory, WhatCannotBeWrittenToIsRefused) {
  // As another user, whom permissions bind; root they do not.
  const TemporaryDirectory temporary;
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0) {
      if (chown(temporary.path().c_str(), 12345, 12345) != 0 || setuid(12345) != 0) _exit(2);
    }
    if (chmod(temporary.path().c_str(), 0500) != 0) _exit(3);
    const auto taken = StateDirectory::Take(temporary.path());
    const std::string why(taken.status().message());
    _exit(why.find("is read-only") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(StateDirectory, FileSystemsOfOtherHostsAreKnown) {
  EXPECT_STREQ(NetworkFileSystem(0x6969), "NFS");
  EXPECT_STREQ(NetworkFileSystem(0xFF534D42), "CIFS");
  EXPECT_EQ(NetworkFileSystem(0xEF53), nullptr);      // ext4
  EXPECT_EQ(NetworkFileSystem(0x01021994), nullptr);  // tmpfs
}

}  // namespace
}  // namespace lockstep::journal
