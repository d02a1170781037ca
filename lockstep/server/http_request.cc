#include "lockstep/server/http_request.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "asio/ip/address.hpp"
#include "lockstep/wire/native/json.h"

namespace lockstep::server {
namespace {

using wire::native::Json;

std::string_view PhraseOf(int status) {
  constexpr std::array<std::pair<int, std::string_view>, 11> kPhrases = {
      {{200, "OK"},
       {400, "Bad Request"},
       {401, "Unauthorized"},
       {403, "Forbidden"},
       {404, "Not Found"},
       {405, "Method Not Allowed"},
       {408, "Request Timeout"},
       {413, "Content Too Large"},
       {421, "Misdirected Request"},
       {431, "Request Header Fields Too Large"},
       {503, "Service Unavailable"}}};
  const auto* const found = std::find_if(kPhrases.begin(), kPhrases.end(),
                                         [&](const auto& each) { return each.first == status; });
  return found == kPhrases.end() ? "Error" : found->second;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// False: a percent sign with no two hex digits behind it.
bool Unescape(absl::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out.push_back(' ');
    } else if (text[i] != '%') {
      out.push_back(text[i]);
    } else {
      const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = high < 0 ? -1 : HexDigit(text[i + 2]);
      if (low < 0) return false;
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    }
  }
  return true;
}

}  // namespace

std::string Encode(const HttpAnswer& answer, bool head) {
  return absl::StrCat("HTTP/1.1 ", answer.status, " ", std::string(PhraseOf(answer.status)),
                      "\r\nContent-Type: ", answer.type, "\r\nContent-Length: ", answer.body.size(),
                      "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
                      answer.status == 405 ? "Allow: GET, HEAD\r\n" : "",
                      answer.challenge.empty()
                          ? std::string()
                          : absl::StrCat("WWW-Authenticate: ", answer.challenge, "\r\n"),
                      "Connection: close\r\n\r\n", head ? "" : answer.body);
}

HttpAnswer HttpRefusal(int status, std::string_view reason, std::string_view message) {
  const Json json = {{"reason", std::string(reason)}, {"message", std::string(message)}};
  return {.status = status,
          .body = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"};
}

std::string HttpTarget::parameter(const std::string& name) const {
  const auto found = parameters.find(name);
  return found == parameters.end() ? "" : found->second;
}

absl::StatusOr<HttpTarget> ParseHttpTarget(std::string_view target) {
  const auto wrong = [] {
    return absl::InvalidArgumentError("the request target is not a path, or is badly escaped");
  };
  const absl::string_view text(target.data(), target.size());
  if (!absl::StartsWith(text, "/")) return wrong();
  const size_t query = text.find('?');
  HttpTarget read;
  if (!Unescape(text.substr(0, query), read.path)) return wrong();
  if (query == absl::string_view::npos) return read;
  for (const absl::string_view pair :
       absl::StrSplit(text.substr(query + 1), '&', absl::SkipEmpty())) {
    const size_t equals = pair.find('=');
    std::string name;
    std::string value;
    if (!Unescape(pair.substr(0, equals), name)) return wrong();
    if (equals != absl::string_view::npos && !Unescape(pair.substr(equals + 1), value)) {
      return wrong();
    }
    read.parameters[name] = std::move(value);
  }
  return read;
}

std::string_view BearerToken(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const absl::string_view scheme(authorization.data(),
                                 std::min(authorization.size(), kScheme.size()));
  if (!absl::EqualsIgnoreCase(scheme, {kScheme.data(), kScheme.size()})) return {};
  authorization.remove_prefix(kScheme.size());
  const absl::string_view token =
      absl::StripAsciiWhitespace({authorization.data(), authorization.size()});
  return {token.data(), token.size()};
}

bool HostIsOurs(std::string_view host_header, const std::vector<std::string>& names) {
  if (host_header.empty()) return true;
  std::string host =
      absl::AsciiStrToLower(absl::string_view(host_header.data(), host_header.size()));
  if (host.front() == '[') {
    const size_t end = host.find(']');
    if (end == std::string::npos) return false;
    host = host.substr(1, end - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  asio::error_code error;
  asio::ip::make_address(host, error);
  if (!error || host == "localhost") return true;
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return absl::EqualsIgnoreCase(name, host); });
}

}  // namespace lockstep::server
