#include "lockstep/launch/last_lines.h"

#include <algorithm>

namespace lockstep::launch {

namespace {

// "    @     0x7f7d00000000  absl::log_internal::..." of a failed CHECK: what stands above it tells
// more, and there would be no room for it.
bool IsFrameOfCheck(const std::string& line) {
  const size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '@') return false;
  const size_t address = line.find_first_not_of(" \t", at + 1);
  return address != std::string::npos && line.compare(address, 2, "0x") == 0;
}

}  // namespace

void LastLines::Feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (c != '\n' && c != '\r') {
      const auto byte = static_cast<unsigned char>(c);
      if (line_.size() < kLastLineBytesMax) line_ += byte < 0x20 && c != '\t' ? '?' : c;
      continue;
    }
    if (line_.empty()) continue;
    if (IsFrameOfCheck(line_)) {
      line_.clear();
      continue;
    }
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
