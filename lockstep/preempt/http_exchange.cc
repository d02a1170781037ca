#include "lockstep/preempt/http_exchange.h"

#include <utility>

namespace lockstep::preempt {

absl::StatusOr<std::unique_ptr<TcpStream>> DialFor(const BaseUrl& base, const HttpRequest& request,
                                                   int interrupt) {
  const Time now = runtime::MonotonicNow();
  return TcpStream::Dial(base.host, base.port, now + request.connect_timeout,
                         {.deadline = now + request.timeout, .interrupt = interrupt});
}

absl::StatusOr<HttpMessage> Converse(Stream& stream, const BaseUrl& base,
                                     const HttpRequest& request) {
  const absl::StatusOr<std::string> bytes = Encode(base, request);
  if (!bytes.ok()) return bytes.status();
  if (const absl::Status status = stream.Write(*bytes); !status.ok()) return status;
  HttpReader reader(HttpReader::Kind::kAnswer, request.body_bytes_max, request.first_line_only);
  while (!reader.done()) {
    const absl::StatusOr<std::string> some = stream.Read();
    if (!some.ok()) return some.status();
    const absl::Status status = some->empty() ? reader.End() : reader.Take(*some);
    if (!status.ok()) return status;
  }
  return reader.message();
}

HttpExchange PlainExchange(BaseUrl base) {
  return [base = std::move(base)](const HttpRequest& request,
                                  int interrupt) -> absl::StatusOr<HttpMessage> {
    absl::StatusOr<std::unique_ptr<TcpStream>> stream = DialFor(base, request, interrupt);
    if (!stream.ok()) return stream.status();
    return Converse(**stream, base, request);
  };
}

}  // namespace lockstep::preempt
