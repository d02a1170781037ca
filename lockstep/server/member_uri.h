// Which member of which job a client's certificate names, by the one URI in it: a SPIFFE ID, such
// as `spiffe://example.org/job/digits/member/3`. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/error.h"

namespace lockstep::server {

// Of a pattern: `member_uri_pattern_bytes_max`.
inline constexpr size_t kMemberUriPatternBytesMax = 1024;
// Of a URI in a certificate, as SPIFFE has it: `member_uri_bytes_max`.
inline constexpr size_t kMemberUriBytesMax = 2048;

// The operator's pattern for such URIs: SCHEME://NAME/PART/..., where one part is `{job}` and
// another one `{member}`. A URI matches when it has the same parts, byte for byte, with the name of
// a job and a decimal number there. Nothing is decoded and nothing is left out, so that two
// different URIs never name the same member.
//
// A certificate with two URIs, or with one that begins as the pattern does and goes on otherwise,
// could be meant for anything: it is refused, and not taken for one that names no member.
//
// Threads: immutable. Bounds: kMemberUriPatternBytesMax.
class MemberUri {
 public:
  struct Named {
    std::string job;
    MemberIndex member;
  };

  // INVALID_ARGUMENT says what is wrong with the pattern.
  static absl::StatusOr<MemberUri> Parse(std::string_view pattern);

  // The member that the URIs of a certificate name; nothing: it has none, or one of another kind.
  // PERMISSION_DENIED (`not_permitted`): they may name one, but do not do so clearly.
  absl::StatusOr<std::optional<Named>> Find(const std::vector<std::string>& uris) const;

  // The same for clients that only members of this job may be: the member, or PERMISSION_DENIED
  // (not_permitted), which says what the certificate names.
  std::variant<MemberIndex, coord::ErrorPtr> FindIn(const std::string& job,
                                                    const std::vector<std::string>& uris) const;

  const std::string& pattern() const { return pattern_; }

 private:
  explicit MemberUri(std::string_view pattern) : pattern_(pattern) {}
  std::optional<Named> Match(std::string_view uri) const;

  std::string pattern_;
  std::string head_;                // SCHEME://NAME/
  std::vector<std::string> parts_;  // what stands behind it, between slashes
};

}  // namespace lockstep::server
