#include "lockstep/platform/etcd/location.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace lockstep::etcd {
namespace {

constexpr std::string_view kScheme = "etcd://";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

absl::Status Wrong(std::string_view text, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", View(text), "': ", what,
                   "; give etcd://HOST:PORT,HOST:PORT,.../PREFIX, with USER@ before the first host "
                   "if etcd asks for a user"));
}

bool IsEndpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0) return false;
  const bool bare_ipv6 = text.find(':') != colon && text.front() != '[';
  const auto fits = [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("-._:[]", absl::string_view(&c, 1));
  };
  return !bare_ipv6 && std::all_of(text.begin(), text.end(), fits) &&
         absl::SimpleAtoi(text.substr(colon + 1), &port) && port > 0 && port <= 65535;
}

// Keys are printed, and come from command lines.
bool IsPrefix(std::string_view text) {
  return !text.empty() && text.size() <= kPrefixBytesMax && text.front() != '/' &&
         text.back() != '/' && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) || absl::StrContains("-._/", absl::string_view(&c, 1));
         });
}

}  // namespace

bool IsLocation(std::string_view text) { return text.substr(0, kScheme.size()) == kScheme; }

absl::StatusOr<Location> ParseLocation(std::string_view text) {
  if (!IsLocation(text)) return Wrong(text, "it does not begin with etcd://");
  std::string_view rest = text.substr(kScheme.size());
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return Wrong(text, "it names no prefix");
  Location location;
  location.prefix = rest.substr(slash + 1);
  rest = rest.substr(0, slash);
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    location.user = rest.substr(0, at);
    rest = rest.substr(at + 1);
    if (location.user.empty() || location.user.find(':') != std::string::npos) {
      return Wrong(text, "before '@' stands the name of a user, without a password");
    }
  }
  location.endpoints = absl::StrSplit(View(rest), ',');
  if (location.endpoints.size() > kEndpointsMax) {
    return Wrong(text, absl::StrCat("it names more than ", kEndpointsMax, " hosts"));
  }
  for (const std::string& endpoint : location.endpoints) {
    if (!IsEndpoint(endpoint)) return Wrong(text, absl::StrCat("'", endpoint, "' is no HOST:PORT"));
  }
  if (!IsPrefix(location.prefix)) {
    return Wrong(text, absl::StrCat("the prefix has 1 to ", kPrefixBytesMax,
                                    " letters, digits, '-', '.', '_' and inner '/'"));
  }
  return location;
}

std::string ToString(const Location& location) {
  return absl::StrCat(View(kScheme), location.user, location.user.empty() ? "" : "@",
                      absl::StrJoin(location.endpoints, ","), "/", location.prefix);
}

}  // namespace lockstep::etcd
