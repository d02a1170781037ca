#include "lockstep/launch/find_program.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/launch/process_test_util.h"

namespace lockstep::launch {
namespace {

using testing::HasSubstr;

TEST(FindProgramTest, LooksThroughThePathInOrder) {
  const TemporaryFolder first;
  const TemporaryFolder second;
  first.Write("data", "", 0644);
  const std::string program = second.Write("data", "#!/bin/sh\n", 0755);
  const auto found = FindProgram("data", "/nonexistent:" + first.path() + ":" + second.path());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, program);
}

TEST(FindProgramTest, NameWithASlashIsAPath) {
  const auto found = FindProgram("/bin/sh", "/nonexistent");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, "/bin/sh");
}

TEST(FindProgramTest, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string data = folder.Write("data", "", 0644);
  EXPECT_EQ(FindProgram("", "/bin").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FindProgram("no-such-thing", folder.path()).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(FindProgram(folder.path() + "/none", "").status().code(), absl::StatusCode::kNotFound);
  const auto found = FindProgram("data", folder.path());
  EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr(data));
  EXPECT_EQ(FindProgram(folder.path(), "").status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep::launch
