#include "lockstep/coord/key_name.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

std::string NormalKey(absl::string_view key) {
  return absl::StrJoin(absl::StrSplit(key, '/', absl::SkipEmpty()), "/");
}

KeyName::KeyName(absl::string_view key) {
  while (!key.empty() && key.front() == '/') key.remove_prefix(1);
  while (!key.empty() && key.back() == '/') key.remove_suffix(1);
  view_ = key;
  // The usual case costs no copy.
  if (!absl::StrContains(key, "//")) return;
  copy_ = NormalKey(key);
  view_ = copy_;
  LOCKSTEP_DCHECK(view_.empty() || (view_.front() != '/' && view_.back() != '/'));
}

bool IsAtOrBelow(absl::string_view key, absl::string_view directory) {
  if (directory.empty()) return true;
  if (!absl::StartsWith(key, directory)) return false;
  // `ab` begins with `a`, and is not below it.
  return key.size() == directory.size() || key[directory.size()] == '/';
}

std::string QuotedKey(absl::string_view key) {
  constexpr size_t kShown = 200;
  return absl::StrCat("'", absl::CHexEscape(key.substr(0, kShown)),
                      key.size() > kShown ? "..." : "", "'");
}

}  // namespace lockstep::coord
