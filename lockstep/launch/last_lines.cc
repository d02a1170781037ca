#include "lockstep/launch/last_lines.h"

#include <algorithm>

namespace lockstep::launch {

void LastLines::Feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (c != '\n' && c != '\r') {
      const auto byte = static_cast<unsigned char>(c);
      if (line_.size() < kLastLineBytesMax) line_ += byte < 0x20 && c != '\t' ? '?' : c;
      continue;
    }
    if (line_.empty()) continue;
    lines_.push_back(std::move(line_));
    line_.clear();
    if (lines_.size() > kLastLinesMax) lines_.pop_front();
  }
}

std::vector<std::string> LastLines::Take() const {
  std::vector<std::string> lines(lines_.begin(), lines_.end());
  if (!line_.empty()) lines.push_back(line_);
  if (lines.size() > kLastLinesMax) lines.erase(lines.begin());
  return lines;
}

}  // namespace lockstep::launch
