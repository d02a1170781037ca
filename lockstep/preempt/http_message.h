// HTTP/1.1 as far as sources need it: what is sent, and a reader of what comes. Pure.
//
// Our own, since what is made for others' processes must not bring TLS, compression and a shared
// library into them for six small requests; and since a request here has one deadline for all of
// it, and can be broken off.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lockstep::preempt {

// http://HOST[:PORT][/PREFIX] or https://...
struct BaseUrl {
  bool tls = false;
  std::string host;  // without the brackets of IPv6
  int port = 80;
  std::string prefix;  // without a slash at its end

  // HOST or HOST:PORT, as the Host header has it.
  std::string authority() const;
  // With the scheme, for people.
  std::string text() const;
};

// Refuses user names in it, so that nobody puts a password where it is shown.
absl::StatusOr<BaseUrl> ParseBaseUrl(absl::string_view text);

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = "GET";
  std::string target;   // path and query; for people too, so without secrets
  HttpHeaders headers;  // beside Host, Connection and Content-Length
  std::string body;
  absl::Duration connect_timeout = absl::Seconds(1);
  absl::Duration timeout = absl::Seconds(2);  // from the begin of all to the last byte
  size_t body_bytes_max = 64 << 10;           // of the answer
  // The answer goes on for long; what is asked for is its first line that is not empty.
  bool first_line_only = false;
};

// As it goes over the wire. INVALID_ARGUMENT: something in it would break out of its place.
absl::StatusOr<std::string> Encode(const BaseUrl& base, const HttpRequest& request);

// An answer, or a request that came to us.
struct HttpMessage {
  int status = 0;      // of an answer
  std::string method;  // of a request
  std::string target;
  HttpHeaders headers;  // names in lower case
  std::string body;

  // Empty when there is none.
  std::string header(absl::string_view lower_case_name) const;
};

// Reads one message from the bytes as they come. Errors tell what is wrong and quote nothing.
//
// Bounds: 16 KiB of headers; the body as told.
class HttpReader {
 public:
  enum class Kind { kAnswer, kRequest };
  HttpReader(Kind kind, size_t body_bytes_max, bool first_line_only = false)
      : kind_(kind), body_bytes_max_(body_bytes_max), first_line_only_(first_line_only) {}

  absl::Status Take(absl::string_view bytes);
  // The other end closed the connection.
  absl::Status End();
  bool done() const { return state_ == State::kDone; }
  const HttpMessage& message() const { return message_; }

 private:
  enum class State { kHead, kSized, kChunkSize, kChunk, kChunkEnd, kTrailer, kUntilEnd, kDone };
  // Takes what it can from `pending_`; false when more must come.
  absl::StatusOr<bool> Advance();
  absl::StatusOr<bool> AdvanceHead();
  absl::StatusOr<bool> AdvanceChunk();
  absl::Status ParseHead(absl::string_view head);
  absl::Status ParseStart(absl::string_view line);
  absl::Status ChooseBody();
  absl::Status Append(absl::string_view bytes);
  bool NextLine(std::string* line);

  const Kind kind_;
  const size_t body_bytes_max_;
  const bool first_line_only_;
  State state_ = State::kHead;
  std::string pending_;
  size_t left_ = 0;  // of the body or chunk
  HttpMessage message_;
};

}  // namespace lockstep::preempt
