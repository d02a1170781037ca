#include "lockstep/platform/config/values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep::config {
namespace {

constexpr std::array kUnits = {"", "KiB", "MiB", "GiB", "TiB"};

absl::Status Wrong(const std::string& text, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("'", text, "': ", what));
}

}  // namespace

absl::StatusOr<absl::Duration> ParseDuration(const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration() ||
      duration == absl::InfiniteDuration()) {
    return Wrong(text, "not a duration; write a number and a unit, such as 90s, 5m, 200ms");
  }
  return duration;
}

std::string DurationText(absl::Duration duration) { return absl::FormatDuration(duration); }

absl::StatusOr<int64_t> ParseCount(const std::string& text) {
  std::string digits = text;
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  int64_t count = 0;
  if (!absl::SimpleAtoi(digits, &count)) return Wrong(text, "not a whole number");
  return count;
}

absl::StatusOr<int64_t> ParseBytes(const std::string& text) {
  const size_t end = text.find_first_not_of("0123456789.");
  double number = 0;
  if (end == 0 || !absl::SimpleAtod(text.substr(0, end), &number)) {
    return Wrong(text, "not a size; write bytes, or a number and a unit, such as 64KiB, 4GiB");
  }
  std::string unit = end == std::string::npos ? "" : text.substr(end);
  unit = absl::AsciiStrToLower(std::string(absl::StripAsciiWhitespace(unit)));
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  if (!unit.empty() && unit.back() == 'i') unit.pop_back();
  const std::string letters = "kmgt";
  const size_t power = unit.empty() ? 0 : letters.find(unit) + 1;
  if (unit.size() > 1 || (!unit.empty() && power == 0)) {
    return Wrong(text, "unknown unit; the units are KiB, MiB, GiB and TiB");
  }
  const double bytes = number * std::pow(1024.0, static_cast<double>(power));
  if (!(bytes < 9e18) || bytes != std::floor(bytes)) {
    return Wrong(text, "not a whole number of bytes that fits into 64 bits");
  }
  return static_cast<int64_t>(bytes);
}

std::string BytesText(int64_t bytes) {
  size_t power = 0;
  while (bytes != 0 && bytes % 1024 == 0 && power + 1 < kUnits.size()) {
    bytes /= 1024;
    ++power;
  }
  return absl::StrCat(bytes, kUnits[power]);
}

absl::StatusOr<bool> ParseSwitch(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* yes : {"true", "yes", "on", "1"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"false", "no", "off", "0"}) {
    if (lower == no) return false;
  }
  return Wrong(text, "neither true nor false");
}

}  // namespace lockstep::config
