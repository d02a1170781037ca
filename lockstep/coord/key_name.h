// How keys are spelled, and what texts show of them. Pure.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace lockstep::coord {

// `///a//b/c//` and `a/b/c` are one key: no slashes at the ends, none repeated.
std::string NormalKey(absl::string_view key);

// A key in its normal spelling, for the length of a call: a copy is made only of a key that is
// spelled otherwise. The key must outlive it.
class KeyName {
 public:
  explicit KeyName(absl::string_view key);
  KeyName(const KeyName&) = delete;
  KeyName& operator=(const KeyName&) = delete;

  absl::string_view view() const { return view_; }
  bool empty() const { return view_.empty(); }

 private:
  std::string copy_;
  absl::string_view view_;  // of the caller's key, or of the copy
};

// Whether `key` is `directory` or below it; both in normal spelling. The empty directory has all.
bool IsAtOrBelow(absl::string_view key, absl::string_view directory);

// In quotes, escaped, and cut to what a text can bear.
std::string QuotedKey(absl::string_view key);

}  // namespace lockstep::coord
