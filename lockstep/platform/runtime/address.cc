#include "lockstep/platform/runtime/address.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace lockstep::runtime {
namespace {

constexpr absl::string_view kScheme = "lockstep://";
constexpr absl::string_view kFingerprint = "#sha256=";
constexpr size_t kFingerprintDigits = 64;

absl::StatusOr<Address> ParseHostAndPort(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "address '%s': %s; write HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070", text, what));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong("has no port");
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong("an IPv6 number needs brackets");
  }
  if (host.empty()) return wrong("has no host");
  const std::string digits(text.substr(colon + 1));
  uint32_t port = 0;
  const bool only_digits = !digits.empty() && digits.size() <= 5 &&
                           digits.find_first_not_of("0123456789") == std::string::npos;
  if (!only_digits || !absl::SimpleAtoi(digits, &port) || port > 65535) {
    return wrong("the port is not a number from 0 to 65535");
  }
  return Address{.host = std::string(host), .port = static_cast<uint16_t>(port)};
}

}  // namespace

absl::StatusOr<JoinString> ParseJoinString(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "'%s': %s; write HOST:PORT or lockstep://HOST:PORT/JOB#sha256=DIGITS", text, what));
  };
  JoinString join;
  absl::string_view rest(text.data(), text.size());
  if (!absl::ConsumePrefix(&rest, kScheme)) {
    if (absl::StrContains(rest, "#")) return wrong("an address with # needs lockstep:// in front");
    auto address = ParseHostAndPort(text);
    if (!address.ok()) return address.status();
    join.address = *std::move(address);
    return join;
  }
  std::string fingerprint;
  if (const size_t at = rest.find('#'); at != absl::string_view::npos) {
    absl::string_view digits = rest.substr(at);
    rest = rest.substr(0, at);
    if (!absl::ConsumePrefix(&digits, kFingerprint)) return wrong("only sha256= may follow a #");
    fingerprint = absl::AsciiStrToLower(digits);
    if (fingerprint.size() != kFingerprintDigits ||
        fingerprint.find_first_not_of("0123456789abcdef") != std::string::npos) {
      return wrong("a certificate has 64 hexadecimal digits");
    }
  }
  if (const size_t at = rest.find('/'); at != absl::string_view::npos) {
    join.job = std::string(rest.substr(at + 1));
    rest = rest.substr(0, at);
  }
  auto address = ParseHostAndPort(std::string_view(rest.data(), rest.size()));
  if (!address.ok()) return address.status();
  join.address = *std::move(address);
  join.address.fingerprint = std::move(fingerprint);
  return join;
}

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  auto join = ParseJoinString(text);
  if (!join.ok()) return join.status();
  return std::move(join->address);
}

std::string ToString(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? absl::StrFormat("[%s]:%d", address.host, address.port)
            : absl::StrFormat("%s:%d", address.host, address.port);
}

std::string ToString(const JoinString& join) {
  std::string text = ToString(join.address);
  if (join.job.empty() && join.address.fingerprint.empty()) return text;
  text.insert(0, kScheme.data(), kScheme.size());
  if (!join.job.empty()) absl::StrAppend(&text, "/", join.job);
  if (!join.address.fingerprint.empty()) {
    absl::StrAppend(&text, kFingerprint, join.address.fingerprint);
  }
  return text;
}

}  // namespace lockstep::runtime
