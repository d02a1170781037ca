#include "lockstep/server/member_uri.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/limits.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

constexpr std::string_view kJob = "{job}";
constexpr std::string_view kMember = "{member}";
constexpr std::string_view kExample = "spiffe://example.org/job/{job}/member/{member}";

// Of a URI in an error: `uri_bytes_shown_max`.
constexpr size_t kUriBytesShownMax = 256;

// What SPIFFE allows in a path, where names of jobs have the same signs.
bool IsOfPart(char sign) {
  return absl::ascii_isalnum(static_cast<unsigned char>(sign)) || sign == '.' || sign == '_' ||
         sign == '-';
}
// Of the name behind "://": there are no capitals, by which two texts would be one name.
bool IsOfName(char sign) {
  return IsOfPart(sign) && !absl::ascii_isupper(static_cast<unsigned char>(sign));
}
bool IsOfScheme(char sign) {
  return absl::ascii_islower(static_cast<unsigned char>(sign)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(sign)) || sign == '+' || sign == '.' ||
         sign == '-';
}

// Not empty, and no step to another place in a tree.
bool IsPart(std::string_view part) {
  return !part.empty() && part != "." && part != ".." &&
         std::all_of(part.begin(), part.end(), IsOfPart);
}

// One spelling for each number: no sign, no leading zero.
std::optional<MemberIndex> ReadMember(std::string_view digits) {
  static_assert(kMembersMax <= 999'999);
  if (digits.empty() || digits.size() > 6 || (digits.size() > 1 && digits.front() == '0')) {
    return std::nullopt;
  }
  int32_t number = 0;
  for (const char digit : digits) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(digit))) return std::nullopt;
    number = 10 * number + (digit - '0');
  }
  if (number >= kMembersMax) return std::nullopt;
  return MemberIndex(number);
}

// "'spiffe://...'": whatever an authority has signed, as text.
std::string Shown(std::string_view uri) {
  return absl::StrCat("'", absl::CHexEscape(std::string(uri.substr(0, kUriBytesShownMax))), "'",
                      uri.size() > kUriBytesShownMax ? "..." : "");
}

absl::Status Unclear(std::string text) {
  return wire::native::WithReason(absl::PermissionDeniedError(std::move(text)), "not_permitted");
}

// What is wrong with the parts; empty: nothing.
std::string FaultOf(const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (part == kJob || part == kMember || IsPart(part)) continue;
    if (part.find('{') != std::string::npos || part.find('}') != std::string::npos) {
      return "{job} and {member} must each be a whole part between slashes";
    }
    return "a part between slashes has letters, digits, '.', '_' and '-', at least one of them, "
           "and is not '.' or '..'";
  }
  const bool both = std::count(parts.begin(), parts.end(), kJob) == 1 &&
                    std::count(parts.begin(), parts.end(), kMember) == 1;
  return both ? "" : "{job} and {member} must each stand in it once";
}

}  // namespace

absl::StatusOr<MemberUri> MemberUri::Parse(std::string_view pattern) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(Shown(pattern), ": ", std::string(what),
                                                   "; write one such as ", std::string(kExample)));
  };
  if (pattern.size() > kMemberUriPatternBytesMax) {
    return wrong(absl::StrCat("the pattern has ", pattern.size(), " bytes, more than the ",
                              kMemberUriPatternBytesMax,
                              " that are allowed (member_uri_pattern_bytes_max)"));
  }
  const size_t colon = pattern.find("://");
  const size_t slash =
      colon == std::string_view::npos ? std::string_view::npos : pattern.find('/', colon + 3);
  if (slash == std::string_view::npos) return wrong("the pattern is not a URI with a path");
  const std::string_view scheme = pattern.substr(0, colon);
  const std::string_view name = pattern.substr(colon + 3, slash - colon - 3);
  if (scheme.empty() || !absl::ascii_islower(static_cast<unsigned char>(scheme.front())) ||
      !std::all_of(scheme.begin(), scheme.end(), IsOfScheme)) {
    return wrong("the pattern begins with no scheme in small letters, such as spiffe://");
  }
  if (name.empty() || !std::all_of(name.begin(), name.end(), IsOfName)) {
    return wrong(
        "between :// and the next slash stands a name of small letters, digits, '.', '_' and '-', "
        "without {job}, {member}, user or port");
  }
  MemberUri made(pattern);
  made.head_ = std::string(pattern.substr(0, slash + 1));
  made.parts_ = absl::StrSplit(std::string(pattern.substr(slash + 1)), '/');
  if (const std::string fault = FaultOf(made.parts_); !fault.empty()) return wrong(fault);
  return made;
}

std::optional<MemberUri::Named> MemberUri::Match(std::string_view uri) const {
  if (uri.size() > kMemberUriBytesMax || uri.substr(0, head_.size()) != head_) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(std::string(uri.substr(head_.size())), '/');
  if (parts.size() != parts_.size()) return std::nullopt;
  Named named;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts_[i] == kJob) {
      if (!IsPart(parts[i])) return std::nullopt;
      named.job = parts[i];
    } else if (parts_[i] == kMember) {
      const std::optional<MemberIndex> member = ReadMember(parts[i]);
      if (!member) return std::nullopt;
      named.member = *member;
    } else if (parts[i] != parts_[i]) {
      return std::nullopt;
    }
  }
  return named;
}

absl::StatusOr<std::optional<MemberUri::Named>> MemberUri::Find(
    const std::vector<std::string>& uris) const {
  if (uris.empty()) return std::nullopt;
  if (uris.size() > 1) {
    return Unclear(absl::StrCat(
        "the client's certificate has several URIs, of which the first are ", Shown(uris[0]),
        " and ", Shown(uris[1]), ": one that names a member (--member-uri) has one URI"));
  }
  const std::string& uri = uris.front();
  std::optional<Named> named = Match(uri);
  if (named) return named;
  // Up to the first part that differs from member to member.
  const std::string_view fixed = std::string_view(pattern_).substr(0, pattern_.find('{'));
  if (uri.substr(0, fixed.size()) != fixed) return std::nullopt;
  return Unclear(absl::StrCat("the URI of the client's certificate, ", Shown(uri),
                              ", begins as those of members do and names none: it must be as "
                              "--member-uri ",
                              pattern_, " says, with a job's name and a number from 0 to ",
                              kMembersMax - 1));
}

std::variant<MemberIndex, coord::ErrorPtr> MemberUri::FindIn(
    const std::string& job, const std::vector<std::string>& uris) const {
  const auto refused = [](std::string text) {
    return coord::MakeError(absl::StatusCode::kPermissionDenied, coord::Reason::kNotPermitted,
                            std::move(text));
  };
  const auto named = Find(uris);
  if (!named.ok()) return refused(std::string(named.status().message()));
  if (!*named) {
    return refused(
        absl::StrCat(uris.empty() ? std::string("the client's certificate has no URI")
                                  : absl::StrCat("the URI of the client's certificate, ",
                                                 Shown(uris.front()), ", names no member"),
                     ", and this address is for members of job '", job,
                     "': use a certificate whose URI is as --member-uri ", pattern_, " says"));
  }
  if ((*named)->job == job) return (*named)->member;
  return refused(absl::StrCat("the client's certificate names member ", (*named)->member.value(),
                              " of job '", (*named)->job, "' (", Shown(uris.front()),
                              "), and this address is for members of job '", job,
                              "': use a certificate of that job, or its own address"));
}

}  // namespace lockstep::server
