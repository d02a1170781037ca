#include "lockstep/launch/line_prefixer.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace lockstep::launch {

LinePrefixer::LinePrefixer(std::string_view name, int color) {
  const std::string bracket = color < 0 ? absl::StrFormat("[%s]", name)
                                        : absl::StrFormat("\x1b[%dm[%s]\x1b[0m", color, name);
  prefix_ = bracket + " ";
  continued_prefix_ = bracket + "+";
}

void LinePrefixer::Feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    if (carriage_return_) {
      carriage_return_ = false;
      if (bytes.front() == '\n') {
        Emit("\r\n", out);
        bytes.remove_prefix(1);
        continue;
      }
      // A progress bar: it begins with a carriage return as often as it ends with one.
      if (!line_.empty()) Emit("\n", out);
    }
    const size_t end = bytes.find_first_of("\r\n");
    const size_t take = std::min(end, bytes.size());
    for (std::string_view text = bytes.substr(0, take); !text.empty();) {
      if (line_.size() == kOutputLineBytesMax) {
        Emit("\n", out);
        continues_ = true;
      }
      const size_t part = std::min(text.size(), kOutputLineBytesMax - line_.size());
      line_.append(text.substr(0, part));
      text.remove_prefix(part);
    }
    if (end == std::string_view::npos) return;
    if (bytes[end] == '\n') {
      Emit("\n", out);
    } else {
      carriage_return_ = true;
    }
    bytes.remove_prefix(end + 1);
  }
}

void LinePrefixer::Finish(std::string& out) {
  carriage_return_ = false;
  if (!line_.empty()) Emit("\n", out);
}

void LinePrefixer::Emit(std::string_view end, std::string& out) {
  out.append(continues_ ? continued_prefix_ : prefix_).append(line_).append(end);
  line_.clear();
  continues_ = false;
}

}  // namespace lockstep::launch
