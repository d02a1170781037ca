#include "lockstep/server/passed_stock_calls.h"

#include <string_view>
#include <utility>

namespace lockstep::server {
namespace {

using wire::native::StockCallReply;

StockCallReply ToWire(wire::stock::EncodedError error) {
  StockCallReply reply = {.code = static_cast<int32_t>(error.code),
                          .message = std::move(error.message),
                          .reason = std::move(error.reason)};
  reply.details.data = std::move(error.details);
  return reply;
}

StockCallReply ToWire(wire::stock::EncodedAnswer answer) {
  StockCallReply reply;
  reply.answer.data = std::move(answer.head);
  reply.answer_rest.data = std::move(answer.tail);
  return reply;
}

// What the client cannot say of itself.
void SetCaller(const coord::Caller& is, coord::Event& event) {
  std::visit(
      [&is](auto& e) {
        if constexpr (requires { e.caller; }) {
          e.caller.number = is.number;
          e.caller.standing = is.standing;
          e.caller.bound = is.bound;
          e.caller.agent = is.agent;
        } else if constexpr (requires { e.bound; }) {
          e.bound = is.bound;
          e.agent = is.agent;
        }
      },
      event);
}

}  // namespace

std::variant<coord::Event, StockCallReply> PassedStockCalls::Begin(
    const wire::native::StockCall& call, const coord::Caller& caller, std::string connection,
    std::string peer) {
  const Time deadline =
      call.timeout_us > 0 ? clock_() + absl::Microseconds(call.timeout_us) : Time::Infinite();
  auto begun = calls_.Begin(caller.call,
                            {.method = call.method,
                             .bytes = call.request.view,
                             .deadline = deadline,
                             .peer = std::move(peer),
                             .connection = std::move(connection)},
                            current_());
  if (auto* error = std::get_if<wire::stock::EncodedError>(&begun)) {
    return ToWire(std::move(*error));
  }
  auto event = std::get<coord::Event>(std::move(begun));
  SetCaller(caller, event);
  return event;
}

StockCallReply PassedStockCalls::End(const coord::Reply& reply) {
  return std::visit([](auto&& answer) { return ToWire(std::move(answer)); }, calls_.End(reply));
}

}  // namespace lockstep::server
