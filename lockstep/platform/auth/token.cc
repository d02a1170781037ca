#include "lockstep/platform/auth/token.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/role_names.h"

namespace lockstep::auth {
namespace {

using wire::native::kNamedRoles;
using wire::native::NamedRole;
using wire::native::Role;

constexpr char kPrefix[] = "lst1";
constexpr size_t kKeyBytesMax = 64;
// Of a second in the far future, whose digits can still be read.
constexpr int64_t kUntilMax = 253'402'300'799;

absl::Status Invalid() {
  return wire::native::WithReason(
      absl::UnauthenticatedError("the token is cut off or altered, or is not a token of Lockstep: "
                                 "create one with `lockstep token create`; the server accepts "
                                 "tokens of Kubernetes with --kubernetes-account"),
      "token_invalid");
}

// A field is between two line ends, so it must hold none.
bool IsPlain(const std::string& text) {
  for (const char sign : text) {
    if (static_cast<unsigned char>(sign) < 0x20 || sign == 0x7f) return false;
  }
  return true;
}

std::optional<Claims> ParseClaims(const std::string& text) {
  const std::vector<std::string> fields = absl::StrSplit(text, '\n');
  if (fields.size() != 4) return std::nullopt;
  auto role = ParseRole(fields[0]);
  int64_t until = 0;
  if (!role.ok() || !absl::SimpleAtoi(fields[2], &until) || until < 0 || until > kUntilMax) {
    return std::nullopt;
  }
  Claims claims = {
      .role = *role, .job = fields[1], .until = absl::FromUnixSeconds(until), .key = fields[3]};
  // One way to write each: what is read is what was signed.
  const auto again = TextToSign(claims);
  if (!again.ok() || *again != text) return std::nullopt;
  return claims;
}

std::string Encode(std::string_view bytes) {
  return absl::WebSafeBase64Escape({bytes.data(), bytes.size()});
}

std::optional<std::string> Decode(const std::string& text) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(text, &bytes) || Encode(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace

std::string RoleName(Role role) {
  for (const NamedRole& named : kNamedRoles) {
    if (named.role == role) return named.name;
  }
  return "nobody";
}

absl::StatusOr<Role> ParseRole(std::string_view name) {
  for (const NamedRole& named : kNamedRoles) {
    if (name == named.name) return named.role;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no role '", std::string(name), "'; there are ",
      absl::StrJoin(kNamedRoles, ", ",
                    [](std::string* out, const NamedRole& named) { *out += named.name; })));
}

absl::StatusOr<std::string> TextToSign(const Claims& claims) {
  if (!IsPlain(claims.job) || claims.job.size() > kTokenBytesMax / 2) {
    return absl::InvalidArgumentError("no job can have that name");
  }
  if (!IsPlain(claims.key) || claims.key.size() > kKeyBytesMax) {
    return absl::InvalidArgumentError("no key can have that name");
  }
  return absl::StrJoin({RoleName(claims.role), claims.job,
                        absl::StrCat(absl::ToUnixSeconds(claims.until)), claims.key},
                       "\n");
}

std::string TokenText(std::string_view signed_text, std::string_view signature) {
  return absl::StrCat(kPrefix, ".", Encode(signed_text), ".", Encode(signature));
}

absl::StatusOr<Token> ParseToken(std::string_view text) {
  if (text.size() > kTokenBytesMax) return Invalid();
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()), '.');
  if (parts.size() != 3 || parts[0] != kPrefix) return Invalid();
  auto signed_text = Decode(parts[1]);
  auto signature = Decode(parts[2]);
  if (!signed_text || !signature) return Invalid();
  auto claims = ParseClaims(*signed_text);
  if (!claims) return Invalid();
  return Token{.claims = *std::move(claims),
               .signed_text = *std::move(signed_text),
               .signature = *std::move(signature)};
}

}  // namespace lockstep::auth
