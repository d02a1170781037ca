#include "lockstep/preempt/http_message.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lockstep::preempt {
namespace {

constexpr size_t kHeadBytesMax = 16 << 10;

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("what came is no HTTP: ", what));
}

bool IsToken(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::StrContains("!#$%&'*+-.^_`|~", std::string(1, c));
  });
}

// Nothing that ends a line or a field.
bool IsPlain(absl::string_view text, bool spaces) {
  return std::all_of(text.begin(), text.end(),
                     [spaces](char c) { return (c > ' ' && c <= '~') || (spaces && c == ' '); });
}

std::optional<size_t> ParseHex(absl::string_view text) {
  if (text.empty() || text.size() > 8) return std::nullopt;
  size_t value = 0;
  for (const char c : text) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
    const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
    value = value * 16 + static_cast<size_t>(lower <= '9' ? lower - '0' : lower - 'a' + 10);
  }
  return value;
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
  const bool plain = IsPlain(url.host, false) && IsPlain(url.prefix, false) &&
                     url.prefix.find_first_of("?#") == std::string::npos;
  if (url.host.empty() || !plain) return wrong;
  return url;
}

absl::StatusOr<std::string> Encode(const BaseUrl& base, const HttpRequest& request) {
  if (!IsToken(request.method) || !absl::StartsWith(request.target, "/") ||
      !IsPlain(request.target, false)) {
    return absl::InvalidArgumentError("the request's path has characters that no path has");
  }
  std::string text = absl::StrCat(request.method, " ", base.prefix, request.target,
                                  " HTTP/1.1\r\nHost: ", base.authority(),
                                  "\r\nConnection: close\r\nAccept-Encoding: identity\r\n");
  for (const auto& [name, value] : request.headers) {
    if (!IsToken(name) || !IsPlain(value, true)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the value of header ", name, " has characters that no header has"));
    }
    absl::StrAppend(&text, name, ": ", value, "\r\n");
  }
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT") {
    absl::StrAppend(&text, "Content-Length: ", request.body.size(), "\r\n");
  }
  absl::StrAppend(&text, "\r\n", request.body);
  return text;
}

std::string HttpMessage::header(absl::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

absl::Status HttpReader::Take(absl::string_view bytes) {
  pending_.append(bytes.data(), bytes.size());
  while (!done()) {
    const absl::StatusOr<bool> advanced = Advance();
    if (!advanced.ok()) return advanced.status();
    if (!*advanced) break;
  }
  return absl::OkStatus();
}

absl::Status HttpReader::End() {
  if (done()) return absl::OkStatus();
  if (state_ == State::kUntilEnd && !first_line_only_) {
    state_ = State::kDone;
    return absl::OkStatus();
  }
  return absl::UnavailableError("the connection was closed before the answer was whole");
}

absl::StatusOr<bool> HttpReader::Advance() {
  switch (state_) {
    case State::kHead:
      return AdvanceHead();
    case State::kSized:
    case State::kUntilEnd: {
      const size_t n = state_ == State::kSized ? std::min(left_, pending_.size()) : pending_.size();
      if (const absl::Status status = Append(pending_.substr(0, n)); !status.ok()) return status;
      pending_.erase(0, n);
      if (state_ == State::kSized && !done() && (left_ -= n) == 0) state_ = State::kDone;
      return false;
    }
    case State::kChunkSize:
    case State::kChunk:
    case State::kChunkEnd:
    case State::kTrailer:
      return AdvanceChunk();
    case State::kDone:
      break;
  }
  return false;
}

absl::StatusOr<bool> HttpReader::AdvanceHead() {
  const size_t end = pending_.find("\r\n\r\n");
  if (end == std::string::npos ? pending_.size() > kHeadBytesMax : end > kHeadBytesMax) {
    return Malformed("its headers are too long");
  }
  if (end == std::string::npos) {
    // Told at once, not when the deadline has passed.
    const absl::string_view right = "HTTP/1.";
    if (kind_ == Kind::kAnswer &&
        !absl::StartsWith(pending_, right.substr(0, std::min(right.size(), pending_.size())))) {
      return Malformed("it does not begin with HTTP/1");
    }
    return false;
  }
  if (const absl::Status status = ParseHead(pending_.substr(0, end)); !status.ok()) return status;
  pending_.erase(0, end + 4);
  if (kind_ == Kind::kAnswer && message_.status < 200) {
    message_ = {};  // "100 Continue" and the like: the answer follows
    return true;
  }
  if (const absl::Status status = ChooseBody(); !status.ok()) return status;
  return true;
}

absl::Status HttpReader::ParseHead(absl::string_view head) {
  bool first = true;
  for (const absl::string_view line : absl::StrSplit(head, "\r\n")) {
    if (first) {
      if (const absl::Status status = ParseStart(line); !status.ok()) return status;
      first = false;
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos || !IsToken(line.substr(0, colon))) {
      return Malformed("a header has no name");
    }
    message_.headers.emplace_back(absl::AsciiStrToLower(line.substr(0, colon)),
                                  std::string(absl::StripAsciiWhitespace(line.substr(colon + 1))));
  }
  return absl::OkStatus();
}

absl::Status HttpReader::ParseStart(absl::string_view line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (kind_ == Kind::kRequest) {
    if (words.size() != 3 || !IsToken(words[0]) || !absl::StartsWith(words[1], "/") ||
        !absl::StartsWith(words[2], "HTTP/1.")) {
      return Malformed("its first line is no request");
    }
    message_.method = words[0];
    message_.target = words[1];
    return absl::OkStatus();
  }
  if (words.size() < 2 || !absl::StartsWith(words[0], "HTTP/1.") || words[1].size() != 3 ||
      !absl::SimpleAtoi(words[1], &message_.status) || message_.status < 100) {
    return Malformed("its first line has no status");
  }
  return absl::OkStatus();
}

absl::Status HttpReader::ChooseBody() {
  const std::string coding = absl::AsciiStrToLower(message_.header("transfer-encoding"));
  const std::string length = message_.header("content-length");
  if (kind_ == Kind::kAnswer && (message_.status == 204 || message_.status == 304)) {
    state_ = State::kDone;
  } else if (coding == "chunked") {
    state_ = State::kChunkSize;
  } else if (!coding.empty() && coding != "identity") {
    return Malformed("its body is coded in a way that was not asked for");
  } else if (!length.empty()) {
    uint64_t bytes = 0;
    if (!absl::SimpleAtoi(length, &bytes)) return Malformed("its Content-Length is no number");
    if (bytes > body_bytes_max_ && !first_line_only_)
      return Append(std::string(body_bytes_max_ + 1, ' '));
    left_ = bytes;
    state_ = left_ == 0 ? State::kDone : State::kSized;
  } else {
    state_ = kind_ == Kind::kRequest ? State::kDone : State::kUntilEnd;
  }
  return absl::OkStatus();
}

bool HttpReader::NextLine(std::string* line) {
  const size_t end = pending_.find("\r\n");
  if (end == std::string::npos) return false;
  *line = pending_.substr(0, end);
  pending_.erase(0, end + 2);
  return true;
}

absl::StatusOr<bool> HttpReader::AdvanceChunk() {
  std::string line;
  switch (state_) {
    case State::kChunkSize: {
      if (!NextLine(&line)) {
        if (pending_.size() > kHeadBytesMax) return Malformed("a chunk has no size");
        return false;
      }
      const auto size = ParseHex(absl::StripAsciiWhitespace(line.substr(0, line.find(';'))));
      if (!size) return Malformed("a chunk has no size");
      left_ = *size;
      state_ = left_ == 0 ? State::kTrailer : State::kChunk;
      return true;
    }
    case State::kChunk: {
      const size_t n = std::min(left_, pending_.size());
      if (const absl::Status status = Append(pending_.substr(0, n)); !status.ok()) return status;
      pending_.erase(0, n);
      left_ -= n;
      if (left_ > 0 || done()) return false;
      state_ = State::kChunkEnd;
      return true;
    }
    case State::kChunkEnd:
      if (pending_.size() < 2) return false;
      if (!NextLine(&line) || !line.empty()) return Malformed("a chunk is longer than it says");
      state_ = State::kChunkSize;
      return true;
    default:
      if (!NextLine(&line)) {
        if (pending_.size() > kHeadBytesMax) return Malformed("its trailer is too long");
        return false;
      }
      if (line.empty()) {
        // A stream that ends without the line that was asked for.
        state_ = State::kDone;
      }
      return true;
  }
}

absl::Status HttpReader::Append(absl::string_view bytes) {
  message_.body.append(bytes.data(), bytes.size());
  if (first_line_only_) {
    message_.body.erase(0, message_.body.find_first_not_of("\r\n"));
    const size_t end = message_.body.find('\n');
    if (end != std::string::npos) {
      message_.body.resize(end);
      state_ = State::kDone;
    }
  }
  if (message_.body.size() > body_bytes_max_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the answer has more than the ", body_bytes_max_, " bytes that are allowed"));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::preempt
