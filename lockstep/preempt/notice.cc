#include "lockstep/preempt/notice.h"

#include <cstdint>
#include <iterator>

#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"

namespace lockstep::preempt {
namespace {

constexpr size_t kTextBytesMax = 300;

struct KindName {
  NoticeKind kind;
  absl::string_view name;
};
constexpr KindName kKindNames[] = {
    {NoticeKind::kPreempt, "preempt"},     {NoticeKind::kMaintenance, "maintenance"},
    {NoticeKind::kRebalance, "rebalance"}, {NoticeKind::kTimeLimit, "time-limit"},
    {NoticeKind::kOperator, "operator"},   {NoticeKind::kHealth, "health"},
};

constexpr bool EachKindHasItsRow() {
  for (size_t i = 0; i < std::size(kKindNames); ++i) {
    if (kKindNames[i].kind != static_cast<NoticeKind>(i)) return false;
  }
  return kKindNames[std::size(kKindNames) - 1].kind == NoticeKind::kHealth;
}
static_assert(EachKindHasItsRow());

}  // namespace

absl::string_view NoticeKindName(NoticeKind kind) {
  for (const KindName& row : kKindNames) {
    if (row.kind == kind) return row.name;
  }
  return "unknown";
}

std::optional<NoticeKind> FindNoticeKind(absl::string_view name) {
  for (const KindName& row : kKindNames) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

std::string HashOf(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: names things, guards nothing
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return absl::StrFormat("%016x", hash);
}

std::string Presentable(absl::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kTextBytesMax)) {
    const bool printable = c >= ' ' && c <= '~';
    if (printable || shown.empty() || shown.back() != ' ') shown += printable ? c : ' ';
  }
  while (!shown.empty() && shown.back() == ' ') shown.pop_back();
  if (text.size() > kTextBytesMax) shown += "...";
  LOCKSTEP_DCHECK(shown.size() <= kTextBytesMax + 3);
  return shown;
}

}  // namespace lockstep::preempt
