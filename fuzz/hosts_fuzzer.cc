#include "fuzz/hosts_fuzzer.h"

#include <optional>
#include <string>
#include <variant>

#include "lockstep/base/check.h"
#include "lockstep/hosts/contact.h"
#include "lockstep/hosts/packets.h"
#include "lockstep/hosts/watch.h"

namespace lockstep::fuzz {
namespace {

using namespace hosts;  // NOLINT: what this file is about

// Both machines, as they are in the midst of their work, take whatever is proven to come from an
// agent: one may lie.
void TakeByMachines(const Packet& packet) {
  Time now = Time::FromNanoseconds(1'000'000'000);
  HostWatch watch(1, Terms{});
  HostContact contact(HostId(1), Terms{}, OnPartition::kStop);
  for (uint64_t id = 1; id <= 3; ++id) {
    static_cast<void>(watch.Join(now, HostId(id), {.name = "h", .version = "1"}));
    static_cast<void>(watch.Handle(now, Ping{.from = HostId(id),
                                             .to = kServer,
                                             .number = 1,
                                             .heard_ago = absl::ZeroDuration(),
                                             .version = 2,
                                             .counted = 4}));
  }
  contact.SetTable(watch.TableOf(HostId(1)));
  for (int turn = 0; turn < 60; ++turn) {
    now = now + kTickEvery;
    if (turn % 20 == 1) {
      if (const auto* ping = std::get_if<Ping>(&packet)) {
        static_cast<void>(watch.Handle(now, *ping));
        static_cast<void>(contact.Handle(now, *ping));
      } else {
        contact.Handle(now, std::get<Ack>(packet));
      }
    }
    for (const Ping& ping : contact.Tick(now).pings) {
      LOCKSTEP_CHECK(Decode(Encode(ping)).has_value());
      if (ping.to != kServer) continue;
      if (const auto ack = watch.Handle(now, ping)) {
        LOCKSTEP_CHECK(Decode(Encode(*ack)).has_value());
        contact.Handle(now, *ack);
      }
    }
    static_cast<void>(watch.Tick(now));
  }
}

}  // namespace

void ReadHostPacket(std::string_view bytes) {
  CheckInvariants();
  const std::optional<Packet> packet = Decode(bytes);
  if (!packet) return;
  // What is read is written the same.
  LOCKSTEP_CHECK(Decode(Encode(*packet)) == packet);
  TakeByMachines(*packet);
}

}  // namespace lockstep::fuzz
