#include "lockstep/server/data_calls.h"

#include <utility>

namespace lockstep::server {

CallId DataCalls::Open(const link::Request& request, link::Responder responder) {
  const CallId call(++last_);
  calls_.emplace(call, DataCall{.responder = std::move(responder),
                                .link = request.link,
                                .identity = {},
                                .element_spec = {}});
  of_link_[request.link][request.id] = call;
  return call;
}

DataCall* DataCalls::Find(CallId call) {
  const auto found = calls_.find(call);
  return found == calls_.end() ? nullptr : &found->second;
}

std::optional<DataCall> DataCalls::Close(CallId call) {
  auto node = calls_.extract(call);
  if (node.empty()) return std::nullopt;
  const auto link = of_link_.find(node.mapped().link);
  if (link != of_link_.end()) link->second.erase(node.mapped().responder.id());
  return std::move(node.mapped());
}

std::optional<CallId> DataCalls::OfRequest(link::LinkId link, uint64_t request) const {
  const auto calls = of_link_.find(link);
  if (calls == of_link_.end()) return std::nullopt;
  const auto call = calls->second.find(request);
  if (call == calls->second.end()) return std::nullopt;
  return call->second;
}

std::vector<CallId> DataCalls::EndLink(link::LinkId link) {
  std::vector<CallId> calls;
  const auto node = of_link_.extract(link);
  if (node.empty()) return calls;
  for (const auto& [id, call] : node.mapped()) calls.push_back(call);
  return calls;
}

}  // namespace lockstep::server
