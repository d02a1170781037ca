#include "lockstep/sim/noise.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/event_fields.h"

namespace lockstep::sim {
namespace {

class Noise : public std::enable_shared_from_this<Noise> {
 public:
  Noise(Network& network, PeerId peer, const Scenario& scenario, Random random, Agent& agent)
      : network_(network), peer_(peer), scenario_(scenario), random_(random), agent_(agent) {}

  void Go() {
    network_.After(peer_, random_.Between(absl::Milliseconds(5), absl::Milliseconds(1500)),
                   [self = shared_from_this()] {
                     self->Once();
                     self->Go();
                   });
  }

  void Watch(std::optional<int64_t> version) {
    agent_.Call(coord::WatchMembers{.version = version}, absl::InfiniteDuration(),
                [self = shared_from_this()](const Outcome& outcome) {
                  if (outcome.ok()) {
                    self->Watch(std::get<coord::MembersWatched>(outcome.answer).version);
                  }
                });
  }

 private:
  static void Ignore(const Outcome&) {}

  void Once() {
    if (scenario_.noise && random_.Percent(70)) KeyTraffic();
    if (scenario_.noise && random_.Percent(10)) Disturb();
    if (scenario_.strangers && random_.Percent(25)) Strange();
    if (scenario_.repeats && random_.Percent(25)) Repeat();
  }

  // Few keys, so that they meet; some in an unusual spelling.
  std::string Key() {
    static const std::vector<std::string> keys = {
        "n/a",     "n/b",   "n/c", "n/a/x", "n/a/y/z", "/n//a/", "n/c/", "n_a", "n",
        "counter", "n/num", "m/1", "m/2",   "m",       "m/10",   "/",    ""};
    return random_.Pick(keys);
  }

  std::string Value() {
    if (random_.Percent(20)) return absl::StrCat(random_.Between(-5, 5));
    return std::string(random_.Between(0, 300), static_cast<char>('a' + random_.Index(26)));
  }

  int64_t Increment() {
    if (random_.Percent(85)) return random_.Between(-3, 3);
    return random_.Percent(50) ? std::numeric_limits<int64_t>::max()
                               : std::numeric_limits<int64_t>::min();
  }

  absl::Duration Patience() {
    if (random_.Percent(scenario_.gives_up_early ? 15 : 60)) return absl::InfiniteDuration();
    return random_.Between(absl::Milliseconds(1), absl::Seconds(3));
  }

  void KeyTraffic() {
    switch (random_.Index(8)) {
      case 0:
      case 1:
        Send(coord::SetKey{.key = Key(), .value = Value(), .overwrite = random_.Percent(50)});
        return;
      case 2:
      case 3:
        agent_.Call(coord::GetKey{.key = Key()}, Patience(), Ignore);
        return;
      case 4:
        Send(coord::TryGetKey{.key = Key()});
        return;
      case 5:
        Send(coord::IncrementKey{.key = Key(), .increment = Increment()});
        return;
      case 6:
        Send(coord::ListKeys{.directory = Key()});
        return;
      default:
        Send(coord::DeleteKey{.key = Key()});
        return;
    }
  }

  void Disturb() {
    const std::set<std::string>& open = agent_.open_barriers();
    if (!open.empty() && random_.Percent(20)) {
      Send(coord::CancelBarrier{.member = agent_.options().member, .id = *open.begin()});
    } else {
      agent_.Call(coord::GetAliveMembers{.member = agent_.options().member,
                                         .members = {agent_.options().member, AnyMember()}},
                  Patience(), Ignore);
    }
  }

  MemberIndex AnyMember() { return MemberIndex(random_.Index(scenario_.coordinator.size)); }

  MemberIndex Stranger() {
    static const std::vector<int32_t> strangers = {
        -1, 99, 65536, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    return MemberIndex(random_.Pick(strangers));
  }

  // Wrong in one way each. Barriers have ids of their own, else no barrier would ever pass.
  void Strange() {
    const MemberIndex me = agent_.options().member;
    const std::string id = absl::StrCat("strange/", random_.Index(3));
    const absl::Duration short_while = random_.Between(absl::ZeroDuration(), absl::Seconds(2));
    switch (random_.Index(13)) {
      case 0:
        Send(coord::Heartbeat{.member = Stranger(), .incarnation = Incarnation(7)});
        return;
      case 1:
        Send(coord::PollForError{.member = Stranger()});
        return;
      case 2:
        Send(coord::LeaveJob{.member = Stranger()});
        return;
      case 3:
        Arrive({.member = Stranger(), .id = id, .timeout = short_while});
        return;
      case 4:
        Arrive({.member = me, .id = id, .timeout = short_while, .members = {Stranger(), me}});
        return;
      case 5:
        Arrive({.member = me, .id = id, .counter = random_.Between(-2, 4), .timeout = short_while});
        return;
      case 6:
        Arrive({.member = me, .id = id, .timeout = short_while, .members = {AnyMember(), me, me}});
        return;
      case 7:
        Arrive({.member = me, .id = id, .timeout = short_while, .members = {AnyMember()}});
        return;
      case 8:
        Send(coord::CancelBarrier{.member = me,
                                  .id = absl::StrCat(id, random_.Percent(30) ? "unseen" : ""),
                                  .counter = random_.Between(-1, 2)});
        return;
      case 9:
        Send(coord::GetAliveMembers{.member = me, .members = {AnyMember(), Stranger()}});
        return;
      case 10:
        WrongService();
        return;
      case 11: {
        const MemberIndex stranger = Stranger();
        agent_.Call(
            coord::GetAliveMembers{.member = stranger, .members = {me, stranger, AnyMember()}},
            Patience(), Ignore);
        return;
      }
      default:
        Send(coord::WatchMembers{.version = random_.Between(-3, 1'000'000)});
        return;
    }
  }

  void WrongService() {
    static const std::vector<uint64_t> wrong = {0, 1, 0x1234567812345678};
    coord::Event request = coord::SetKey{.key = "n/a", .value = "wrong", .overwrite = true};
    if (random_.Percent(50)) {
      request = coord::ArriveAtBarrier{.member = agent_.options().member, .id = "all/0"};
    }
    *CallerOf(request) = {.service = ServiceIncarnation(random_.Pick(wrong))};
    network_.Send(peer_, std::move(request), Time::Infinite(), Ignore);
  }

  // What a client that retries over a new connection does: the same once more, while the server may
  // still hold the first.
  void Repeat() {
    const AgentOptions& me = agent_.options();
    switch (random_.Index(3)) {
      case 0:
        network_.Send(peer_,
                      coord::RegisterMember{.member = me.member, .incarnation = me.incarnation},
                      Time::Infinite(), Ignore);
        return;
      case 1:
        Send(coord::Heartbeat{.member = me.member, .incarnation = me.incarnation});
        return;
      default:
        if (last_arrival_.id.empty()) return;
        Send(last_arrival_);
        return;
    }
  }

  void Arrive(coord::ArriveAtBarrier request) {
    last_arrival_ = request;
    agent_.Call(std::move(request), Patience(), Ignore);
  }

  void Send(coord::Event request) {
    agent_.Call(std::move(request), absl::InfiniteDuration(), Ignore);
  }

  Network& network_;
  const PeerId peer_;
  const Scenario& scenario_;
  Random random_;
  Agent& agent_;
  coord::ArriveAtBarrier last_arrival_;
};

}  // namespace

void MakeNoise(Network& network, PeerId peer, const Scenario& scenario, Random random,
               Agent& agent) {
  auto noise = std::make_shared<Noise>(network, peer, scenario, random, agent);
  if (scenario.noise) noise->Watch(std::nullopt);
  noise->Go();
}

}  // namespace lockstep::sim
