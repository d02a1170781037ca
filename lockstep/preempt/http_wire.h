// HTTP/1.1 as bytes: what is sent, and a reader of what comes. Pure.
//
// The reader is Boost.Beast's, of which nothing is seen here.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lockstep/preempt/http_message.h"

namespace lockstep::preempt {

// As it goes over the wire. INVALID_ARGUMENT: something in it would break out of its place.
absl::StatusOr<std::string> Encode(const BaseUrl& base, const HttpRequest& request);

// Reads one message from the bytes as they come. Errors tell what is wrong and quote nothing.
// DATA_LOSS: it is no HTTP. RESOURCE_EXHAUSTED: its body is too long. UNAVAILABLE: it is not whole.
//
// Bounds: 16 KiB of headers, and of what stands between the chunks of a body; the body as told.
class HttpReader {
 public:
  enum class Kind { kAnswer, kRequest };
  // `first_line_only`: done with the first line of the body that is not empty, which is the body
  // then.
  HttpReader(Kind kind, size_t body_bytes_max, bool first_line_only = false);
  ~HttpReader();

  // After an error nothing may be taken any more.
  absl::Status Take(absl::string_view bytes);
  // The other end closed the connection. OK also when all was there already.
  absl::Status End();
  bool done() const { return done_; }  // the message is whole; what came after it is not looked at
  const HttpMessage& message() const { return message_; }  // once `done`

 private:
  class Parser;
  template <bool kIsRequest>
  class ParserOf;

  std::unique_ptr<Parser> MakeParser() const;
  absl::Status Refuse(absl::string_view what) const;
  absl::Status TooLong() const;
  void LookForLine();
  absl::Status Finish();

  const Kind kind_;
  const size_t body_bytes_max_;
  const bool first_line_only_;
  std::unique_ptr<Parser> parser_;
  std::string pending_;   // what the parser wants to see again, with more behind it
  size_t looked_at_ = 0;  // of the body, for the end of its first line
  bool done_ = false;
  HttpMessage message_;
};

}  // namespace lockstep::preempt
