#include "lockstep/launch/log_writer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/launch/process_test_util.h"

namespace lockstep::launch {
namespace {

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void Flush(LogWriter& writer) {
  std::promise<void> done;
  writer.Flush([&done] { done.set_value(); });
  done.get_future().wait();
}

TEST(LogWriterTest, WritesEachFileInOrderAndAddsToWhatIsThere) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/log_writer_", ::getpid(), "/a/b");
  for (int run = 0; run < 2; ++run) {
    LogWriter writer([] {}, [](int) { FAIL(); });
    const auto out = LogWriter::Open(folder, "out");
    const auto err = LogWriter::Open(folder, "err");
    ASSERT_TRUE(out.ok() && err.ok());
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(writer.Push(*out, absl::StrCat("o", i, "\n")));
      EXPECT_TRUE(writer.Push(*err, absl::StrCat("e", i, "\n")));
    }
    Flush(writer);
  }
  EXPECT_EQ(Contents(folder + "/out"), "o0\no1\no2\no0\no1\no2\n");
  EXPECT_EQ(Contents(folder + "/err"), "e0\ne1\ne2\ne0\ne1\ne2\n");
}

// What processes print may be nobody else's business: tokens, paths, data.
TEST(LogWriterTest, Finding20_OnlyItsOwnerReadsAFileOfOutput) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/log_writer_mode_", ::getpid());
  const mode_t mask = ::umask(0);
  const auto file = LogWriter::Open(folder, "out");
  ::umask(mask);
  ASSERT_TRUE(file.ok()) << file.status();
  struct stat about = {};
  ASSERT_EQ(::fstat((*file)->get(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  std::filesystem::remove_all(folder);
}

TEST(LogWriterTest, AFolderThatCannotBeMadeIsTold) {
  EXPECT_EQ(LogWriter::Open("/proc/none/such", "out").status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(LogWriterTest, AFullDiskIsToldOnceAndHoldsUpNobody) {
  std::atomic<int> told = 0;
  LogWriter writer([] {},
                   [&told](int error) {
                     EXPECT_EQ(error, ENOSPC);
                     ++told;
                   });
  const auto full = std::make_shared<const runtime::UniqueFd>(::open("/dev/full", O_WRONLY));
  for (int i = 0; i < 3; ++i) {
    writer.Push(full, "x");
    Flush(writer);
  }
  EXPECT_EQ(told, 1);
}

TEST(LogWriterTest, RunsThatShareAFolderShareNoFile) {
  const std::string folder = testing::TempDir() + "/log-writer-runs-" + std::to_string(::getpid());
  ASSERT_TRUE(LogWriter::Prepare(folder).ok());
  EXPECT_EQ(LogWriter::FolderOfRun(folder).value(), folder);
  EXPECT_EQ(LogWriter::FolderOfRun(folder).value(), folder + "/run_2");
  EXPECT_EQ(LogWriter::FolderOfRun(folder).value(), folder + "/run_3");
  std::filesystem::remove_all(folder);
}

TEST(LogWriterTest, AnOutcomeAloneIsAnEarlierRunToo) {
  const std::string folder =
      testing::TempDir() + "/log-writer-outcome-" + std::to_string(::getpid());
  ASSERT_TRUE(LogWriter::Prepare(folder).ok());
  std::ofstream(folder + "/" + kResultFile) << "{}";
  EXPECT_EQ(LogWriter::FolderOfRun(folder).value(), folder + "/run_2");
  std::filesystem::remove_all(folder);
  EXPECT_EQ(LogWriter::FolderOfRun(folder).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LogWriterTest, AFolderIsPreparedOrRefused) {
  const std::string folder =
      testing::TempDir() + "/log-writer-prepare-" + std::to_string(::getpid());
  EXPECT_TRUE(LogWriter::Prepare(folder + "/deep/logs").ok());
  EXPECT_TRUE(LogWriter::Prepare(folder + "/deep/logs").ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder + "/deep/logs"));
  std::ofstream(folder + "/file") << "no folder";
  for (const std::string& wrong : {folder + "/file", folder + "/file/logs", std::string("/proc")}) {
    const absl::Status refused = LogWriter::Prepare(wrong);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_NE(refused.message().find(wrong), std::string::npos) << refused;
  }
  std::filesystem::remove_all(folder);
}

TEST(LogWriterTest, TellsWhenThereIsRoomAgain) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  runtime::UniqueFd read_end(ends[0]);
  std::promise<void> room;
  std::atomic<bool> told = false;
  LogWriter writer(
      [&] {
        if (!told.exchange(true)) room.set_value();
      },
      [](int) {});
  const auto slow = std::make_shared<const runtime::UniqueFd>(ends[1]);
  // Nobody reads: the pipe fills, then the queue.
  size_t written = 0;
  do {
    written += 100'000;
    ASSERT_LT(written, 4 * kLogQueueBytesMax);
  } while (writer.Push(slow, std::string(100'000, 'x')));
  std::string buffer(100'000, ' ');
  for (size_t left = written; left > 0;) {
    const ssize_t n = ::read(read_end.get(), buffer.data(), buffer.size());
    ASSERT_GT(n, 0);
    left -= static_cast<size_t>(n);
  }
  room.get_future().wait();
}

}  // namespace
}  // namespace lockstep::launch
