#include "lockstep/journal/mark.h"

#include <fcntl.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/journal/testing.h"

namespace lockstep::journal {
namespace {

TEST(Mark, IsReadBack) {
  for (const Mark mark : {Mark{}, Mark{.through = 1, .checksum = 0xFFFFFFFF},
                          Mark{.through = ~uint64_t{0}, .checksum = 0x12}}) {
    const absl::StatusOr<Mark> read = ParseMark(MarkText(mark));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, mark);
  }
}

TEST(Mark, EveryBitAndEveryCutIsSeen) {
  const std::string text = MarkText({.through = 123456789, .checksum = 0xABCDEF01});
  for (size_t at = 0; at < text.size(); ++at) {
    EXPECT_FALSE(ParseMark(std::string_view(text).substr(0, at)).ok()) << at;
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      EXPECT_FALSE(ParseMark(damaged).ok()) << at << ", bit " << bit;
    }
  }
  EXPECT_FALSE(ParseMark(text + "\n").ok());
  EXPECT_FALSE(ParseMark("\n\n\n\n").ok());
}

TEST(Mark, IsReplacedWhole) {
  const TemporaryDirectory directory;
  const int fd = open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  absl::StatusOr<std::optional<Mark>> read = ReadMark(fd);
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(read->has_value());
  // What a writer left that died while it wrote.
  WriteFile(directory.path("mark.new"), std::string(200, 'x'));
  for (uint64_t through : {1u, 2u}) {
    ASSERT_TRUE(WriteMark(fd, {.through = through}).ok());
    read = ReadMark(fd);
    ASSERT_TRUE(read.ok() && read->has_value());
    EXPECT_EQ((*read)->through, through);
  }
  EXPECT_FALSE(std::filesystem::exists(directory.path("mark.new")));
  close(fd);
}

TEST(Mark, IsNotFollowedElsewhere) {
  const TemporaryDirectory directory;
  const int fd = open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  WriteFile(directory.path("other"), MarkText({.through = 1}));
  std::filesystem::create_symlink("other", directory.path("mark"));
  EXPECT_FALSE(ReadMark(fd).ok());
  close(fd);
}

}  // namespace
}  // namespace lockstep::journal
