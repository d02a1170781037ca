// What a member says of its part in the rendezvous, to people who look. Contract:
// proto/lockstep/v1/rendezvous.proto. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

struct RendezvousKey {
  int64_t step = 0;
  // The other member.
  int32_t peer = 0;
  std::string peer_name;
  std::string name;
  // Receives, or values.
  int64_t count = 0;
  // Of the oldest.
  uint64_t bytes = 0;
  int64_t age_us = 0;

  friend bool operator==(const RendezvousKey&, const RendezvousKey&) = default;
  static constexpr std::string_view kName = "lockstep.v1.RendezvousKey";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "step", &RendezvousKey::step, kAnyNumber),
                           Field(2, "peer", &RendezvousKey::peer, kAnyNumber),
                           Field(3, "peer_name", &RendezvousKey::peer_name, kIdBytes),
                           Field(4, "name", &RendezvousKey::name, kIdBytes),
                           Field(5, "count", &RendezvousKey::count, kNatural),
                           Field(6, "bytes", &RendezvousKey::bytes, kNatural),
                           Field(7, "age_us", &RendezvousKey::age_us, kAnyNumber));
  }
};

struct RendezvousPeer {
  int32_t peer = 0;
  std::string name;
  // "shm", "cma", "tcp"; empty: there is no connection.
  std::string transport;
  // Why it is not a better one, or why the peer is lost.
  std::string why;
  // For it, and not offered yet.
  int64_t held = 0;
  // That it may be looking at.
  int64_t lent = 0;
  uint64_t lent_bytes = 0;
  bool lost = false;

  friend bool operator==(const RendezvousPeer&, const RendezvousPeer&) = default;
  static constexpr std::string_view kName = "lockstep.v1.RendezvousPeer";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "peer", &RendezvousPeer::peer, kAnyNumber),
                           Field(2, "name", &RendezvousPeer::name, kIdBytes),
                           Field(3, "transport", &RendezvousPeer::transport, kNameBytes),
                           Field(4, "why", &RendezvousPeer::why, kSentenceBytes),
                           Field(5, "held", &RendezvousPeer::held, kNatural),
                           Field(6, "lent", &RendezvousPeer::lent, kNatural),
                           Field(7, "lent_bytes", &RendezvousPeer::lent_bytes, kNatural),
                           Field(8, "lost", &RendezvousPeer::lost));
  }
};

struct RendezvousReport {
  // Which look it answers.
  std::string look;
  int32_t member = 0;
  std::string name;
  // The oldest of each kind. Receives that wait here; values here that nobody has received; values
  // for others that are not offered yet; what others wait for and nobody here has sent.
  std::vector<RendezvousKey> waiting;
  std::vector<RendezvousKey> unclaimed;
  std::vector<RendezvousKey> held;
  std::vector<RendezvousKey> wanted;
  std::vector<RendezvousPeer> peers;
  int64_t steps = 0;
  // Receives that wait, all of them.
  int64_t waits = 0;
  // Sent and not received.
  int64_t held_values = 0;
  uint64_t held_bytes = 0;
  // Of memory that others of this host can see.
  uint64_t arena_reserved_bytes = 0;
  uint64_t arena_used_bytes = 0;

  friend bool operator==(const RendezvousReport&, const RendezvousReport&) = default;
  static constexpr std::string_view kName = "lockstep.v1.RendezvousReport";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "look", &RendezvousReport::look, kIdBytes),
        Field(2, "member", &RendezvousReport::member, kAnyNumber),
        Field(3, "name", &RendezvousReport::name, kIdBytes),
        Field(4, "waiting", &RendezvousReport::waiting, {}, kMany),
        Field(5, "unclaimed", &RendezvousReport::unclaimed, {}, kMany),
        Field(6, "held", &RendezvousReport::held, {}, kMany),
        Field(7, "wanted", &RendezvousReport::wanted, {}, kMany),
        Field(8, "peers", &RendezvousReport::peers, {}, kMany),
        Field(9, "steps", &RendezvousReport::steps, kNatural),
        Field(10, "waits", &RendezvousReport::waits, kNatural),
        Field(11, "held_values", &RendezvousReport::held_values, kNatural),
        Field(12, "held_bytes", &RendezvousReport::held_bytes, kNatural),
        Field(13, "arena_reserved_bytes", &RendezvousReport::arena_reserved_bytes, kNatural),
        Field(14, "arena_used_bytes", &RendezvousReport::arena_used_bytes, kNatural));
  }
};

// Keys of the job that the rendezvous uses: a card of each member that takes part, what was last
// asked by who looks, and what each answered.
inline constexpr std::string_view kRendezvousCards = "lockstep/rendezvous/card";
inline constexpr std::string_view kRendezvousLook = "lockstep/rendezvous/look";
inline constexpr std::string_view kRendezvousReports = "lockstep/rendezvous/report";

}  // namespace lockstep::wire::native
