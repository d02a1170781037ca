// Cuts the output of a process into lines and says whose they are. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::launch {

// The longest line passed on in one piece: `output_line_bytes_max`.
inline constexpr size_t kOutputLineBytesMax = 64 << 10;

// Turns bytes into whole lines that begin with `[task/2] `.
//
// What is not yet a whole line is held back, at most kOutputLineBytesMax; a longer line is passed
// on in pieces, each a line of its own, and all but the first are marked `[task/2]+`. A bare
// carriage return ends a line too, since that is how progress bars are drawn. Otherwise no byte is
// changed.
//
// Threads: thread-compatible.
class LinePrefixer {
 public:
  // Says of no line whose it is.
  LinePrefixer() = default;
  // `name` is what stands in the brackets; `color` is a terminal's number for it, negative for
  // none.
  LinePrefixer(std::string_view name, int color);

  // Appends to `out` the lines that `bytes` completes.
  void Feed(std::string_view bytes, std::string& out);

  // The output has ended: passes on what is left, as a line.
  void Finish(std::string& out);

 private:
  void Emit(std::string_view end, std::string& out);

  std::string prefix_;
  std::string continued_prefix_;
  std::string line_;
  bool continues_ = false;        // `line_` goes on a line whose beginning has been passed on
  bool carriage_return_ = false;  // the last byte was one; the next tells what it meant
};

}  // namespace lockstep::launch
