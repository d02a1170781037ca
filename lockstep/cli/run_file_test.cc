#include "lockstep/cli/run_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using ::testing::IsEmpty;

class RunFileTest : public ::testing::Test {
 protected:
  RunFileTest() : folder_(absl::StrCat(::testing::TempDir(), "/runs-", ::getpid())) {
    std::filesystem::remove_all(folder_);
  }
  ~RunFileTest() override { std::filesystem::remove_all(folder_); }

  mode_t ModeOf(const std::string& path) {
    struct stat found = {};
    EXPECT_EQ(::stat(path.c_str(), &found), 0);
    return found.st_mode & 0777;
  }

  const std::string folder_;
};

TEST_F(RunFileTest, TellsOfARunAsLongAsItLives) {
  {
    const auto file = RunFile::Write("digits", "127.0.0.1:4711", {folder_});
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(ModeOf(folder_), 0700u);
    EXPECT_EQ(ModeOf(file->path()), 0600u);
    const auto runs = LivingRuns({folder_});
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].job, "digits");
    EXPECT_EQ(runs[0].coordinator, "127.0.0.1:4711");
    EXPECT_EQ(runs[0].pid, ::getpid());
  }
  EXPECT_THAT(LivingRuns({folder_}), IsEmpty());
}

TEST_F(RunFileTest, IgnoresAndRemovesWhatIsStale) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  const std::string stale = folder_ + "/run-1.json";
  // Process 1 lives, and was started at another time.
  std::ofstream(stale) << R"({"pid":1,"started":18446744073709551615,"job":"j","coordinator":"a"})";
  EXPECT_THAT(LivingRuns({folder_}), IsEmpty());
  ASSERT_TRUE(RunFile::Write("digits", "127.0.0.1:4711", {folder_}).ok());
  EXPECT_FALSE(std::filesystem::exists(stale));
}

TEST_F(RunFileTest, ReadsNothingThatSomebodyElseMayHaveWritten) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  std::ofstream(folder_ + "/run-1.json")
      << absl::StrCat(R"({"pid":)", ::getpid(), R"(,"started":)", *StartTimeOf(::getpid()),
                      R"(,"job":"j","coordinator":"a:1"})");
  EXPECT_THAT(LivingRuns({folder_}), IsEmpty());
  EXPECT_FALSE(RunFile::Write("digits", "127.0.0.1:4711", {folder_}).ok());
  ASSERT_EQ(::chmod(folder_.c_str(), 0700), 0);
  EXPECT_EQ(LivingRuns({folder_}).size(), 1u);
}

TEST_F(RunFileTest, BadFilesTellOfNoRun) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  for (const char* text : {"", "{", "[]", R"({"pid":"1"})", R"({"pid":1e99,"started":1})"}) {
    std::ofstream(folder_ + "/run-1.json") << text;
    EXPECT_THAT(LivingRuns({folder_}), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace lockstep::cli
