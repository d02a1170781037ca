// What the agent knows of the calls that it passes on, by their names. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::agent {

// "Heartbeat", of "/xla.coordination.CoordinationService/Heartbeat".
constexpr std::string_view NameOf(std::string_view method) {
  return method.substr(method.rfind('/') + 1);
}

// Whether the server keeps its answer until it hears that we have it, so that the call happens once
// however often it is sent (coord::RequestTraits::takes_effect).
constexpr bool TakesEffect(std::string_view method) {
  constexpr std::array<std::string_view, 5> kNames = {"InsertKeyValue", "IncrementKeyValue",
                                                      "DeleteKeyValue", "CancelBarrier",
                                                      "ReportErrorToService"};
  return std::find(kNames.begin(), kNames.end(), NameOf(method)) != kNames.end();
}

constexpr bool IsHeartbeat(std::string_view method) { return NameOf(method) == "Heartbeat"; }

}  // namespace lockstep::agent
