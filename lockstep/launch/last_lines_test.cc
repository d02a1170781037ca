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

}  // namespace
}  // namespace lockstep::launch
