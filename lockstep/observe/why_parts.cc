#include "lockstep/observe/why_parts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/limits.h"
#include "lockstep/observe/text_parts.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

// "task/2#1 (host7:4711), connected, heard 12ms ago, at step 99, 'loading data'"
std::string Portrait(const MemberStatus& member) {
  std::string text = CleanText(member.name);
  const std::string process = ProcessText(member);
  if (!process.empty()) absl::StrAppend(&text, " (", process, ")");
  absl::StrAppend(&text, ", ", std::string(NameOf(member.condition)));
  if (member.last_heard_ago_us) {
    absl::StrAppend(&text, ", heard ", DurationText(*member.last_heard_ago_us), " ago");
  } else {
    absl::StrAppend(&text, ", never heard");
  }
  if (member.step) absl::StrAppend(&text, ", at step ", *member.step);
  if (!member.phase.empty()) absl::StrAppend(&text, ", '", CleanText(member.phase, 80), "'");
  return text;
}

}  // namespace

std::vector<int32_t> IndicesOf(const std::vector<const MemberStatus*>& members) {
  std::vector<int32_t> indices;
  for (const MemberStatus* member : members) indices.push_back(member->index);
  return indices;
}

void TellEach(const JobStatus& job, const std::vector<int32_t>& indices,
              std::vector<std::string>& out) {
  for (size_t i = 0; i < std::min(indices.size(), kNamesInErrorMax); ++i) {
    const MemberStatus* member = MemberAt(job, indices[i]);
    if (member == nullptr) continue;
    std::string text = "  " + Portrait(*member);
    if (const std::string doing = DoingText(job, *member); !doing.empty()) {
      absl::StrAppend(&text, ": ", doing);
    } else if (!member->why.empty()) {
      absl::StrAppend(&text, ": ", CleanText(member->why));
    }
    out.push_back(std::move(text));
  }
  if (indices.size() > kNamesInErrorMax) {
    const std::vector<int32_t> rest(indices.begin() + kNamesInErrorMax, indices.end());
    out.push_back(absl::StrFormat("  +%d more: %s", rest.size(), MembersRangesText(job, rest)));
  }
}

}  // namespace lockstep::observe
