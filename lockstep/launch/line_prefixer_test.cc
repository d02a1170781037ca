#include "lockstep/launch/line_prefixer.h"

#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

// What comes out when `text` comes in, cut into pieces of `piece` bytes.
std::string Through(std::string_view text, size_t piece, int color = -1) {
  LinePrefixer prefixer("task/2", color);
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece) {
    prefixer.Feed(text.substr(at, piece), out);
  }
  prefixer.Finish(out);
  return out;
}

TEST(LinePrefixerTest, PrefixesLinesHoweverTheyAreCut) {
  for (size_t piece = 1; piece < 12; ++piece) {
    EXPECT_EQ(Through("one\n\ntwo\r\nthree", piece),
              "[task/2] one\n[task/2] \n[task/2] two\r\n[task/2] three\n");
  }
}

TEST(LinePrefixerTest, HoldsBackWhatIsNotALine) {
  LinePrefixer prefixer("task/2", -1);
  std::string out;
  prefixer.Feed("half a", out);
  EXPECT_EQ(out, "");
  prefixer.Feed(" line\nand", out);
  EXPECT_EQ(out, "[task/2] half a line\n");
}

TEST(LinePrefixerTest, ProgressBarShowsItsSteps) {
  for (size_t piece = 1; piece < 6; ++piece) {
    EXPECT_EQ(Through("\r10%\r20%\r30%\n", piece), "[task/2] 10%\n[task/2] 20%\n[task/2] 30%\n");
  }
}

TEST(LinePrefixerTest, LongLineIsPassedOnInMarkedPieces) {
  const std::string piece(kOutputLineBytesMax, 'x');
  EXPECT_EQ(Through(piece + "\n", 1000), "[task/2] " + piece + "\n");
  EXPECT_EQ(Through(piece + piece + "y\nz\n", 1000),
            "[task/2] " + piece + "\n[task/2]+" + piece + "\n[task/2]+y\n[task/2] z\n");
}

TEST(LinePrefixerTest, OtherBytesPassUnchanged) {
  const std::string bytes("\0\xff\x1b[1m\t", 7);
  EXPECT_EQ(Through(bytes + "\n", 2), "[task/2] " + bytes + "\n");
}

TEST(LinePrefixerTest, ColoursThePrefixOnly) {
  EXPECT_EQ(Through("a\n", 1, 36), "\x1b[36m[task/2]\x1b[0m a\n");
}

TEST(LinePrefixerTest, NothingInNothingOut) { EXPECT_EQ(Through("", 1), ""); }

}  // namespace
}  // namespace lockstep::launch
