// What agents say to each other when one has a long answer from another: docs/formats/fan_out.md.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::agent {

// The first word, and the ticket.
inline constexpr std::string_view kAskMagic = {"LSFO\1\0\0\0", 8};
inline constexpr size_t kTicketBytes = 16;
inline constexpr size_t kAskBytes = kAskMagic.size() + kTicketBytes;

// One byte each: the answer is on its way here; the sealed chunks follow. Refusals close.
inline constexpr char kHint = 1;
inline constexpr char kAnswer = 2;

inline std::string EncodeAsk(std::string_view ticket) {
  std::string ask(kAskMagic);
  ask.append(ticket);
  return ask;
}
// The ticket; empty: it is no such request.
inline std::string_view TicketOf(std::string_view ask) {
  if (ask.size() != kAskBytes || ask.substr(0, kAskMagic.size()) != kAskMagic) return {};
  return ask.substr(kAskMagic.size());
}

}  // namespace lockstep::agent
