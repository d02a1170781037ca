// Fields that many kinds of events have, without asking which kind it is. Pure.
#pragma once

#include <optional>
#include <type_traits>
#include <variant>

#include "absl/strings/string_view.h"
#include "lockstep/coord/events.h"

namespace lockstep::sim {

// What the request carries as its caller; null for registrations and facts.
inline const coord::Caller* CallerOf(const coord::Event& event) {
  return std::visit(
      [](const auto& e) -> const coord::Caller* {
        if constexpr (requires { e.caller; }) {
          return &e.caller;
        } else {
          return nullptr;
        }
      },
      event);
}

inline coord::Caller* CallerOf(coord::Event& event) {
  return const_cast<coord::Caller*>(CallerOf(std::as_const(event)));
}

// The call that an answer is owed to; none for facts, among them CallLeft.
inline std::optional<CallId> RequestCall(const coord::Event& event) {
  if (const auto* registration = std::get_if<coord::RegisterMember>(&event)) {
    return registration->call;
  }
  if (const auto* opening = std::get_if<coord::OpenSession>(&event)) return opening->call;
  if (const coord::Caller* caller = CallerOf(event)) return caller->call;
  return std::nullopt;
}

inline void SetRequestCall(coord::Event& event, CallId call) {
  if (auto* registration = std::get_if<coord::RegisterMember>(&event)) registration->call = call;
  if (auto* opening = std::get_if<coord::OpenSession>(&event)) opening->call = call;
  if (coord::Caller* caller = CallerOf(event)) caller->call = call;
}

inline std::optional<MemberIndex> MemberOf(const coord::Event& event) {
  return std::visit(
      [](const auto& e) -> std::optional<MemberIndex> {
        if constexpr (requires { e.member; }) {
          return e.member;
        } else {
          return std::nullopt;
        }
      },
      event);
}

}  // namespace lockstep::sim
