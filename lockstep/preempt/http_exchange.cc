#include "lockstep/preempt/http_exchange.h"

#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/preempt/http_converse.h"
#include "lockstep/preempt/http_wire.h"

namespace lockstep::preempt {

Patience PatienceOf(const HttpRequest& request, int interrupt) {
  return {.deadline = runtime::MonotonicNow() + request.timeout, .interrupt = interrupt};
}

absl::Status DialFor(Connection& connection, const BaseUrl& base, const HttpRequest& request) {
  LOCKSTEP_DCHECK(base.port > 0 && base.port <= 65535);
  return connection.Dial({.host = base.host, .port = static_cast<uint16_t>(base.port)},
                         request.connect_timeout);
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
  return [base = std::move(base)](const HttpRequest& request, int interrupt) {
    return Guarded([&]() -> absl::StatusOr<HttpMessage> {
      Connection connection(PatienceOf(request, interrupt));
      if (absl::Status status = DialFor(connection, base, request); !status.ok()) return status;
      LayerStream stream(connection, connection.socket());
      return Converse(stream, base, request);
    });
  };
}

}  // namespace lockstep::preempt
