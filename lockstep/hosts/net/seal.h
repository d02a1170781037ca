// Proves that a datagram comes from one who knows the secret of the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/hosts/packets.h"

namespace lockstep::hosts {

// Of one job, in one life of the server; agents are told it over the link.
struct Secret {
  static constexpr size_t kBytes = 32;

  uint32_t key = 0;  // its name
  std::string bytes;

  // A new one, from the system's source of randomness.
  static Secret Draw();
};

// The datagram that carries the packet: the key's name, the packet, and the first kProofBytes of an
// HMAC-SHA256 of both. Nothing in it is hidden. A datagram that is sent twice proves as much as the
// first time: packets are numbered.
std::string Seal(const Secret& secret, const Packet& packet);
// Which secret proves it; nothing: it is too short or too long to be one.
std::optional<uint32_t> KeyOf(std::string_view datagram);
// The packet of a datagram with that key; nothing: it is not proven by that secret, or is no
// packet.
std::optional<Packet> Unseal(const Secret& secret, std::string_view datagram);

}  // namespace lockstep::hosts
