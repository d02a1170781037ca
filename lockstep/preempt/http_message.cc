#include "lockstep/preempt/http_message.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace lockstep::preempt {
namespace {

bool IsPlain(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

std::string BaseUrl::authority() const {
  const std::string shown = absl::StrContains(host, ":") ? absl::StrCat("[", host, "]") : host;
  return port == (tls ? 443 : 80) ? shown : absl::StrCat(shown, ":", port);
}

std::string BaseUrl::text() const {
  return absl::StrCat(tls ? "https://" : "http://", authority(), prefix);
}

absl::StatusOr<BaseUrl> ParseBaseUrl(absl::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(
      "is no base URL: http://HOST, http://HOST:PORT/PREFIX, https://[::1]:6443");
  BaseUrl url;
  if (absl::ConsumePrefix(&text, "https://")) {
    url.tls = true;
    url.port = 443;
  } else if (!absl::ConsumePrefix(&text, "http://")) {
    return wrong;
  }
  const size_t slash = std::min(text.find('/'), text.size());
  url.prefix = std::string(absl::StripSuffix(text.substr(slash), "/"));
  absl::string_view authority = text.substr(0, slash);
  if (absl::StrContains(authority, "@")) {
    return absl::InvalidArgumentError("must not carry a user name or password");
  }
  if (absl::ConsumePrefix(&authority, "[")) {
    const size_t bracket = authority.find(']');
    if (bracket == absl::string_view::npos) return wrong;
    url.host = std::string(authority.substr(0, bracket));
    authority.remove_prefix(bracket + 1);
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    url.host = std::string(authority.substr(0, colon));
    authority.remove_prefix(colon);
  }
  if (absl::ConsumePrefix(&authority, ":")) {
    if (!absl::SimpleAtoi(authority, &url.port) || url.port < 1 || url.port > 65535) return wrong;
  } else if (!authority.empty()) {
    return wrong;
  }
  const bool plain = IsPlain(url.host) && IsPlain(url.prefix) &&
                     url.prefix.find_first_of("?#") == std::string::npos;
  if (url.host.empty() || !plain) return wrong;
  return url;
}

std::string HttpMessage::header(absl::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

}  // namespace lockstep::preempt
