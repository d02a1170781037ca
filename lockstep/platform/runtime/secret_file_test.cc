#include "lockstep/platform/runtime/secret_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

using ::testing::HasSubstr;

// A folder of its own, gone afterwards.
class SecretFile : public testing::Test {
 protected:
  SecretFile() { std::filesystem::create_directory(folder_); }
  ~SecretFile() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  const std::string folder_ = testing::TempDir() + "secret_file_test." + std::to_string(::getpid());
};

mode_t ModeOf(const std::string& path) {
  struct stat state = {};
  EXPECT_EQ(::stat(path.c_str(), &state), 0);
  return state.st_mode & 07777;
}

TEST_F(SecretFile, IsReadAsItWasWritten) {
  ASSERT_TRUE(WriteSecretFile(Path("a"), "secret").ok());
  EXPECT_EQ(ModeOf(Path("a")), 0600u);
  EXPECT_EQ(*ReadSecretFile(Path("a")), "secret");
  EXPECT_EQ(*ReadSmallFile(Path("a")), "secret");
}

TEST_F(SecretFile, IsNeverWrittenOver) {
  ASSERT_TRUE(WriteSecretFile(Path("a"), "first").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(WriteSecretFile(Path("a"), "second")));
  EXPECT_EQ(*ReadSecretFile(Path("a")), "first");
  // And nothing else is left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(SecretFile, IsRefusedWhenOthersMayReadIt) {
  ASSERT_TRUE(WriteSecretFile(Path("a"), "secret").ok());
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0777}) {
    ASSERT_EQ(::chmod(Path("a").c_str(), mode), 0);
    const auto read = ReadSecretFile(Path("a"));
    EXPECT_TRUE(absl::IsFailedPrecondition(read.status())) << std::oct << mode;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("chmod 600 " + Path("a")));
  }
}

TEST_F(SecretFile, NamesWhatIsNotThereOrTooLong) {
  EXPECT_TRUE(absl::IsNotFound(ReadSecretFile(Path("none")).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadSmallFile(Path("none")).status()));
  ASSERT_TRUE(WritePublicFile(Path("long"), std::string(kSmallFileBytesMax + 1, 'x')).ok());
  EXPECT_THAT(std::string(ReadSmallFile(Path("long")).status().message()),
              HasSubstr("small_file_bytes_max"));
  EXPECT_FALSE(ReadSmallFile(folder_).ok());
}

TEST_F(SecretFile, ItsStateTellsThatItHasChanged) {
  EXPECT_EQ(StateOf(Path("a")), FileState());
  ASSERT_TRUE(WritePublicFile(Path("a"), "1").ok());
  const FileState before = StateOf(Path("a"));
  EXPECT_EQ(StateOf(Path("a")), before);
  std::filesystem::remove(Path("a"));
  ASSERT_TRUE(WritePublicFile(Path("a"), "22").ok());
  EXPECT_NE(StateOf(Path("a")), before);
}

}  // namespace
}  // namespace lockstep::runtime
