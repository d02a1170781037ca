#include "lockstep/launch/last_lines.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LastLinesTest, TheLastOnesWhateverPiecesTheyCameIn) {
  LastLines lines;
  EXPECT_THAT(lines.Take(), IsEmpty());
  for (int i = 0; i < 100; ++i) lines.Feed(absl::StrCat("line ", i, "\nli"));
  std::vector<std::string> last = lines.Take();
  ASSERT_EQ(last.size(), kLastLinesMax);
  EXPECT_EQ(last.front(), "liline 91");
  EXPECT_EQ(last.back(), "li");
}

TEST(LastLinesTest, LongOnesAreCutAndTerminalsAreNotTold) {
  LastLines lines;
  lines.Feed(std::string(100'000, 'x'));
  lines.Feed("\r\n\n\x1b[2J\t!\r");
  EXPECT_THAT(lines.Take(), ElementsAre(std::string(kLastLineBytesMax, 'x'), "?[2J\t!"));
}

TEST(LastLines, UseA09_FramesOfAFailedCheckDoNotPushItOut) {
  LastLines lines;
  lines.Feed("F1123 09:01:46 1 client.h:80] Terminating process\n");
  lines.Feed("*** Check failure stack trace: ***\n");
  for (int i = 0; i < 30; ++i)
    lines.Feed("    @     0x7f7d12345678  absl::log_internal::Flush()\n");
  lines.Feed("@ me\n");
  EXPECT_EQ(lines.Take(),
            (std::vector<std::string>{"F1123 09:01:46 1 client.h:80] Terminating process",
                                      "*** Check failure stack trace: ***", "@ me"}));
}

}  // namespace
}  // namespace lockstep::launch
