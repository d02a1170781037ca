#include "lockstep/cli/standard_output.h"

#include <fcntl.h>

#include <csignal>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

TEST(StandardOutput, WritesAllOfItOnceAndInOrder) {
  char path[] = "/tmp/lockstep-output-XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  const std::string large(200'001, 'x');
  std::ostringstream stream;
  {
    StandardOutput output(stream, fd);
    stream << "a" << std::flush << large << 'b';
    EXPECT_TRUE(output.Finish().ok());
    stream << "c";
  }
  stream << "not there";
  EXPECT_EQ(stream.str(), "not there");
  std::string text(large.size() + 4, '\0');
  EXPECT_EQ(::pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(large.size() + 3));
  EXPECT_EQ(text.substr(0, large.size() + 3), "a" + large + "bc");
  ::close(fd);
  ::unlink(path);
}

TEST(StandardOutput, SaysWhyALittleOrMuchCouldNotBeWritten) {
  for (const size_t bytes : {1, 1'000'000}) {
    const int fd = ::open("/dev/full", O_WRONLY);
    std::ostringstream stream;
    StandardOutput output(stream, fd);
    stream << std::string(bytes, 'x');
    const absl::Status status = output.Finish();
    EXPECT_THAT(std::string(status.message()), HasSubstr("No space left on device"));
    EXPECT_FALSE(stream.good());
    EXPECT_FALSE(output.Finish().ok());
    ::close(fd);
  }
}

TEST(StandardOutput, IsSilentWhenNobodyReadsAnyMore) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  std::ostringstream stream;
  StandardOutput output(stream, ends[1]);
  stream << "x" << std::flush;
  EXPECT_FALSE(stream.good());
  EXPECT_TRUE(output.Finish().ok());
  ::close(ends[1]);
}

}  // namespace
}  // namespace lockstep::cli
