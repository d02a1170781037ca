// Beast's assertions fail where "0\r\n" of an empty body comes alone (1.74); without them it is
// read rightly. Only this file includes Beast, so nobody sees it otherwise.
#define BOOST_DISABLE_ASSERTS
#include "lockstep/preempt/http_wire.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "boost/beast/http/parser.hpp"
#include "boost/beast/http/string_body.hpp"
#include "lockstep/base/check.h"

namespace lockstep::preempt {
namespace {

namespace http = boost::beast::http;
using ErrorCode = boost::beast::error_code;

constexpr uint32_t kHeadBytesMax = 16 << 10;

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

std::string Text(boost::beast::string_view text) { return {text.data(), text.size()}; }

void SetStart(const http::response_header<>& header, HttpMessage& message) {
  message.status = static_cast<int>(header.result_int());
}

void SetStart(const http::request_header<>& header, HttpMessage& message) {
  message.method = Text(header.method_string());
  message.target = Text(header.target());
}

}  // namespace

// Of either kind.
class HttpReader::Parser {
 public:
  virtual ~Parser() = default;
  // Takes what it can, and tells how much that was.
  virtual size_t Put(absl::string_view bytes, ErrorCode& error) = 0;
  virtual void PutEnd(ErrorCode& error) = 0;
  virtual bool done() const = 0;
  virtual const std::string& body() const = 0;
  // Of what came so far, from the end of the headers on.
  virtual HttpMessage message() const = 0;
};

template <bool kIsRequest>
class HttpReader::ParserOf final : public Parser {
 public:
  explicit ParserOf(uint64_t body_bytes_max) {
    parser_.header_limit(kHeadBytesMax);
    parser_.body_limit(body_bytes_max);
    // Step by step: eagerly (1.74) it would go on after a Content-Length beyond the limit.
    parser_.eager(false);
  }

  size_t Put(absl::string_view bytes, ErrorCode& error) override {
    return parser_.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  }
  void PutEnd(ErrorCode& error) override {
    // What has not begun has no end, in Beast's eyes.
    error = http::error::partial_message;
    if (parser_.got_some()) parser_.put_eof(error);
  }
  bool done() const override { return parser_.is_done(); }
  const std::string& body() const override { return parser_.get().body(); }
  HttpMessage message() const override {
    HttpMessage message;
    SetStart(parser_.get(), message);
    for (const auto& field : parser_.get()) {
      message.headers.emplace_back(absl::AsciiStrToLower(Text(field.name_string())),
                                   Text(field.value()));
    }
    message.body = body();
    return message;
  }

 private:
  http::parser<kIsRequest, http::string_body> parser_;
};

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

HttpReader::HttpReader(Kind kind, size_t body_bytes_max, bool first_line_only)
    : kind_(kind),
      body_bytes_max_(body_bytes_max),
      first_line_only_(first_line_only),
      parser_(MakeParser()) {}

HttpReader::~HttpReader() = default;

std::unique_ptr<HttpReader::Parser> HttpReader::MakeParser() const {
  if (kind_ == Kind::kRequest) return std::make_unique<ParserOf<true>>(body_bytes_max_);
  return std::make_unique<ParserOf<false>>(body_bytes_max_);
}

absl::Status HttpReader::Take(absl::string_view bytes) {
  pending_.append(bytes.data(), bytes.size());
  while (!done_ && !pending_.empty()) {
    ErrorCode error;
    pending_.erase(0, parser_->Put(pending_, error));
    const bool wants_more = error == http::error::need_more;
    if (error == http::error::body_limit) return TooLong();
    if (error && !wants_more) return Refuse(error.message());
    if (first_line_only_) LookForLine();
    if (done_ || wants_more) break;
    if (parser_->done()) {
      if (absl::Status status = Finish(); !status.ok()) return status;
    }
  }
  if (!done_ && pending_.size() > kHeadBytesMax) {
    return Refuse("a chunk has no size, or its trailer is too long");
  }
  return absl::OkStatus();
}

absl::Status HttpReader::End() {
  if (done_) return absl::OkStatus();
  ErrorCode error;
  parser_->PutEnd(error);
  if (!error && !first_line_only_) return Finish();
  return absl::UnavailableError("the connection was closed before the answer was whole");
}

absl::Status HttpReader::Refuse(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat("what came is no HTTP: ", what));
}

absl::Status HttpReader::TooLong() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("what came has more than the ", body_bytes_max_, " bytes that are allowed"));
}

void HttpReader::LookForLine() {
  const std::string& body = parser_->body();
  LOCKSTEP_DCHECK(first_line_only_ && looked_at_ <= body.size());
  const size_t begin = std::min(body.find_first_not_of("\r\n"), body.size());
  const size_t end = body.find('\n', std::max(begin, looked_at_));
  looked_at_ = body.size();
  if (end == std::string::npos) return;
  done_ = true;
  message_ = parser_->message();
  message_.body.erase(end).erase(0, begin);
}

absl::Status HttpReader::Finish() {
  LOCKSTEP_DCHECK(!done_);
  message_ = parser_->message();
  if (kind_ == Kind::kAnswer && message_.status < 200) {
    // "100 Continue" and the like: the answer follows.
    message_ = {};
    parser_ = MakeParser();
    return absl::OkStatus();
  }
  if (kind_ == Kind::kRequest && !absl::StartsWith(message_.target, "/")) {
    return Refuse("its first line is no request");
  }
  const std::string coding = absl::AsciiStrToLower(message_.header("transfer-encoding"));
  if (!coding.empty() && coding != "chunked" && coding != "identity") {
    return Refuse("its body is coded in a way that was not asked for");
  }
  done_ = true;
  return absl::OkStatus();
}

}  // namespace lockstep::preempt
