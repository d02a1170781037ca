#include "lockstep/stock/grpc/open_calls.h"

#include <variant>

#include "lockstep/base/check.h"
#include "lockstep/stock/grpc/stock_calls.h"

namespace lockstep::net {

void OpenCalls::Began(CallId id, StockCall& call, ServiceIncarnation current, coord::Event& event) {
  const bool is_new = open_.emplace(id, &call).second;
  LOCKSTEP_DCHECK(is_new);
  if (call.family().requests_name_the_attempt()) return;
  call.family().SetAttempt(registered_.Find(call.asked()->peer, current), event, call.asked());
}

StockCall* OpenCalls::Take(CallId id) {
  const auto found = open_.find(id);
  if (found == open_.end()) return nullptr;
  StockCall* const call = found->second;
  open_.erase(found);
  return call;
}

void OpenCalls::Left(CallId id) {
  if (StockCall* const call = Take(id)) call->FinishLeft();
}

void OpenCalls::Answer(const coord::Reply& reply) {
  StockCall* const call = Take(reply.call);
  if (call == nullptr) return;
  // One failure, or one list, answers many calls; it is encoded once.
  if (reply.error) {
    return call->FinishWith(answers_.Error(call->family(), reply.error, call->asked()));
  }
  const auto* registered = std::get_if<coord::Registered>(&reply.answer);
  if (registered && call->asked()) {
    registered_.Registered(call->asked()->peer, registered->service);
  }
  call->FinishWith(answers_.Answer(call->family(), call->method(), reply.answer, call->asked()));
}

}  // namespace lockstep::net
