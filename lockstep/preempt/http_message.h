// Requests and answers of HTTP, and where they go to, as values. Pure. As bytes: http_wire.h.
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

// Refuses user names in it, so that nobody puts a password where it is shown. INVALID_ARGUMENT, of
// which the text does not repeat what was given.
absl::StatusOr<BaseUrl> ParseBaseUrl(absl::string_view text);

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = "GET";
  std::string target;   // path and query; for people too, so without secrets
  HttpHeaders headers;  // beside Host, Connection and Content-Length
  std::string body;
  absl::Duration connect_timeout = absl::Seconds(1);  // within `timeout`
  absl::Duration timeout = absl::Seconds(2);          // from the begin of all to the last byte
  size_t body_bytes_max = 64 << 10;                   // of the answer
  // The answer goes on for long; what is asked for is its first line that is not empty.
  bool first_line_only = false;
};

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

}  // namespace lockstep::preempt
