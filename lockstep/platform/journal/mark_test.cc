#include "lockstep/platform/journal/mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/journal/mark_writer.h"
#include "lockstep/platform/journal/testing.h"

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

TEST(Mark, TheNewerSlotCounts) {
  const auto slot = [](uint64_t through) {
    std::string bytes = MarkText({.through = through});
    bytes.resize(kMarkSlotBytes);
    return bytes;
  };
  for (const bool swapped : {false, true}) {
    const auto newest = ParseMarkFile(swapped ? slot(8) + slot(7) : slot(7) + slot(8));
    ASSERT_TRUE(newest.ok());
    EXPECT_EQ(newest->mark.through, 8u);
    EXPECT_EQ(newest->slot, swapped ? 0u : 1u);
  }
  // One that was being written, or is not there.
  for (const std::string& torn : {slot(8).substr(0, 20), std::string(), std::string(4096, 'x')}) {
    const auto newest = ParseMarkFile(slot(7) + torn);
    ASSERT_TRUE(newest.ok());
    EXPECT_EQ(newest->mark.through, 7u);
  }
  for (const std::string& none :
       {std::string(), std::string(8192, '\0'), "x" + slot(7) + slot(8), slot(7) + slot(8) + "x"}) {
    EXPECT_FALSE(ParseMarkFile(none).ok()) << none.size();
  }
}

class InDirectory : public testing::Test {
 protected:
  InDirectory() : fd_(open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~InDirectory() override { close(fd_); }

  std::optional<Mark> Read() {
    const auto file = MarkFile::Open(fd_);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? (*file)->found() : std::nullopt;
  }

  const TemporaryDirectory directory_;
  const int fd_;
};

TEST_F(InDirectory, AMarkIsWrittenInTurns) {
  EXPECT_EQ(Read(), std::nullopt);
  // What a writer left that died while it made the file.
  WriteFile(directory_.path("mark.new"), std::string(200, 'x'));
  for (uint64_t through = 1; through < 9;) {
    // Opened anew, it goes on in the other slot.
    const auto file = MarkFile::Open(fd_);
    ASSERT_TRUE(file.ok());
    for (int i = 0; i < 3; ++i, ++through) {
      ASSERT_TRUE((*file)->Write({.through = through}).ok());
      EXPECT_EQ(Read(), (Mark{.through = through}));
      if (through == 1) continue;
      // While it was written, the one before was whole.
      std::string torn = ReadFile(directory_.path("mark"));
      const auto newest = ParseMarkFile(torn);
      ASSERT_TRUE(newest.ok());
      torn[newest->slot * kMarkSlotBytes + 30] = 'x';
      const auto before = ParseMarkFile(torn);
      ASSERT_TRUE(before.ok());
      EXPECT_EQ(before->mark.through, through - 1);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(directory_.path("mark.new")));
}

TEST_F(InDirectory, TheWriterWritesTheNewestWithinItsDelay) {
  auto file = MarkFile::Open(fd_);
  ASSERT_TRUE(file.ok());
  const auto failed = [](const absl::Status& status) { ADD_FAILURE() << status; };
  MarkWriter writer(*std::move(file), absl::Milliseconds(1), failed);
  for (uint64_t through = 1; through < 1000; ++through) writer.Durable({.through = through});
  while (Read() != (Mark{.through = 999})) std::this_thread::yield();
  writer.Durable({.through = 1000});
  EXPECT_TRUE(writer.Stop().ok());
  EXPECT_EQ(Read(), (Mark{.through = 1000}));
}

TEST_F(InDirectory, TheWriterTellsOnceThatItCannotWrite) {
  auto file = MarkFile::Open(fd_);
  ASSERT_TRUE(file.ok());
  std::filesystem::remove_all(directory_.path());
  std::atomic<int> failures = 0;
  MarkWriter writer(*std::move(file), absl::ZeroDuration(),
                    [&](const absl::Status&) { ++failures; });
  writer.Durable({.through = 1});
  while (failures == 0) std::this_thread::yield();
  writer.Durable({.through = 2});
  EXPECT_FALSE(writer.Stop().ok());
  EXPECT_EQ(failures, 1);
}

TEST_F(InDirectory, AMarkIsNotFollowedElsewhere) {
  WriteFile(directory_.path("other"), MarkText({.through = 1}));
  std::filesystem::create_symlink("other", directory_.path("mark"));
  EXPECT_FALSE(MarkFile::Open(fd_).ok());
}

}  // namespace
}  // namespace lockstep::journal
