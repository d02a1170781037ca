// The other members of a rendezvous as this process reaches them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/base/ids.h"
#include "lockstep/client/rendezvous.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/stream.h"
#include "lockstep/rendezvous/value.h"
#include "lockstep/wire/native/rendezvous_codec.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::client {

// Which incarnation of each member is known, the stream to it, and what waits for a stream. Makes
// messages of the machine into bytes and back, and so decides how a value travels: short ones with
// their message, others where their receiver sees them, else to be fetched.
//
// Threads: guarded by its owner's mutex. Bounds: one entry a member; what waits for a stream, which
// credits and quotas bound.
class RendezvousPeers {
 public:
  // Where a value lies whose bytes did not come along: `place` of an offer.
  struct RemotePlace {
    transport::Place place;
    std::shared_ptr<transport::Stream> stream;
  };

  // `names`: by index. `inline_bytes_max`: as the machine's.
  RendezvousPeers(const transport::Arena& arena, std::vector<std::string> names,
                  uint64_t inline_bytes_max)
      : arena_(arena), names_(std::move(names)), inline_bytes_max_(inline_bytes_max) {}

  // 2 of "trainer/4#2"; 0: it was never there.
  static uint64_t IncarnationIn(const std::string& name);

  const std::vector<std::string>& names() const { return names_; }
  // "trainer/4"; only of a member of the job.
  const std::string& NameOf(MemberIndex member) const {
    return names_[static_cast<size_t>(member.value())];
  }

  // --- Messages ---

  // To a lost member nothing is sent. True: it waits for a stream, and nobody makes one yet.
  bool Send(MemberIndex to, rendezvous::PeerMessage message);
  // Not OK: the other end said what no version of ours says.
  absl::StatusOr<rendezvous::PeerMessage> Decode(MemberIndex from, const std::string& bytes);
  // Only what is counted.
  const RendezvousCounters& traffic() const { return traffic_; }

  // --- Streams ---

  // What waited goes over it. False: that incarnation is lost, or not the newest.
  bool Connect(MemberIndex member, uint64_t incarnation, std::shared_ptr<transport::Stream> stream,
               std::string why_not_shared);
  // Whether that incarnation is the newest, and not lost.
  bool Heeds(MemberIndex member, uint64_t incarnation);
  // Null: there is none (any more).
  std::shared_ptr<transport::Stream> StreamOf(MemberIndex member) const;
  // Whether memory is shared with it, or there is no stream that says otherwise.
  bool MaySeeMemory(MemberIndex member) const;
  // Empty: values are read from the memory of its process. Or why they are not.
  void SetReadsMemory(MemberIndex member, std::string why_not);

  // False: it was lost before. Its stream stays until it is taken.
  bool Lose(MemberIndex member);
  // The caller closes it, with the mutex. Null: there is none.
  std::shared_ptr<transport::Stream> TakeStream(MemberIndex member) {
    return std::exchange(peers_[member].stream, nullptr);
  }
  // 0: none is known.
  uint64_t IncarnationOf(MemberIndex member) { return peers_[member].incarnation; }
  // Of a member of which none was known: what waits for a stream stays.
  void Meet(MemberIndex member, uint64_t incarnation) { peers_[member].incarnation = incarnation; }
  // Nothing of older ones is left.
  void Begin(MemberIndex member, uint64_t incarnation) {
    peers_[member] = {.incarnation = incarnation};
  }
  // Nobody is reached any more.
  void Close();

  // --- For people ---

  // Of members to which there is a stream, by index.
  std::vector<PeerTransport> Transports() const;
  // Fills in how values go to the peers that the report names, and why not better.
  void AddTransports(wire::native::RendezvousReport& report) const;

 private:
  struct Peer {
    uint64_t incarnation = 0;  // the newest that is known; 0: none
    std::shared_ptr<transport::Stream> stream;
    std::string why_not_shared;  // memory; empty when it is, and until there is a stream
    bool reads_memory = false;   // of its process, for long values
    std::string why_not_read;    // after it was tried
    bool lost = false;
    bool connecting = false;
    std::vector<rendezvous::PeerMessage> queue;  // until there is a stream
  };

  static std::string TransportOf(const Peer& peer);
  void SendOver(Peer& peer, const rendezvous::PeerMessage& message);
  wire::native::Placed PlaceOf(Peer& peer, const rendezvous::Value& value);
  static void PlaceOffer(Peer& peer, const wire::native::ArenaPlace& place,
                         rendezvous::Offer& offer);

  const transport::Arena& arena_;
  const std::vector<std::string> names_;
  const uint64_t inline_bytes_max_;
  std::map<MemberIndex, Peer> peers_;
  RendezvousCounters traffic_;
};

}  // namespace lockstep::client
