// What agents and the server say to each other, in datagrams, so that each knows which hosts live.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"

namespace lockstep::hosts {

// One life of an agent: a random number that it chose for itself. Zero is the server's.
using HostId = Id<struct HostIdTag, uint64_t>;
inline constexpr HostId kServer{};

// Hosts that one host exchanges pings with, beside the server: `host_peers_max`.
inline constexpr size_t kPeersMax = 64;
// Lost hosts that one datagram names: `host_verdicts_max`. More take turns.
inline constexpr size_t kVerdictsMax = 64;
// Of a datagram, so that no network has to cut it up: `host_datagram_bytes_max`.
inline constexpr size_t kDatagramBytesMax = 1200;

// A host that the sender knows to be lost, and how long ago it last let that host go on.
struct LastAnswer {
  HostId host;
  absl::Duration ago;  // infinite: never

  friend bool operator==(const LastAnswer&, const LastAnswer&) = default;
};

// From an agent, to the server or to a peer.
struct Ping {
  HostId from;
  HostId to;
  uint64_t number = 0;  // of the sender's rounds of pings; ascends
  // The rest is empty in pings to peers.
  // When it sent the newest of these pings that it knows to be answered; infinite: none was.
  absl::Duration heard_ago = absl::InfiniteDuration();
  uint64_t version = 0;  // of the table from which the sender took its electorate
  uint32_t counted = 0;  // members of that electorate; 0: none yet
  absl::Duration round_trip;
  uint64_t clock_us = 0;  // the sender's wall clock when it sent this, since 1970; 0: not told
  std::vector<LastAnswer> lost;  // kVerdictsMax at most

  friend bool operator==(const Ping&, const Ping&) = default;
};

// The answer to one ping.
struct Ack {
  HostId from;
  HostId to;
  uint64_t number = 0;  // of the ping
  bool lost = false;    // the server has given `to` up
  // The rest is empty in answers of peers.
  uint64_t version = 0;      // of the table that is now the receiver's
  std::vector<HostId> gone;  // lost peers of the receiver; kVerdictsMax at most

  friend bool operator==(const Ack&, const Ack&) = default;
};

using Packet = std::variant<Ping, Ack>;

// Without what proves who sent it. At most kDatagramBytesMax - kProofBytes long.
std::string Encode(const Packet& packet);
// Nothing: it is none, or says something that cannot be.
std::optional<Packet> Decode(std::string_view bytes);

// What stands before and behind the packet in a datagram: which secret proves it, and the proof.
inline constexpr size_t kKeyBytes = 4;
inline constexpr size_t kProofBytes = 16;

}  // namespace lockstep::hosts
