// Agents and a server, with networks, clocks and programs that fail in every order: a host that the
// server calls stopped has stopped, and nobody is given up without a reason.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "lockstep/hosts/contact.h"
#include "lockstep/hosts/watch.h"

namespace lockstep::hosts {
namespace {

// What a mutant does wrong.
enum class Mutant {
  kNone,
  kNeverStops,      // an agent goes on, whatever it hears
  kHearsLate,       // an answer counts from when it came, not from when its ping was sent
  kLetsGoOn,        // peers answer lost hosts as others
  kReportsNever,    // peers say of lost hosts that they never answered them
  kStoppedAtOnce,   // the server takes a lost host for one that has stopped
  kBoasts,          // agents count peers that they never reached
  kForgetsVerdicts  // peers are not told who is lost
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(engine_() % n); }

 private:
  std::mt19937_64 engine_;
};

struct Network {
  uint32_t loss_percent = 0;
  uint32_t delay_ms = 2;
  uint32_t late_one_in = 0;  // 0: none; such a datagram takes up to `late_ms` longer
  uint32_t late_ms = 0;
};

// Node 0 is the server's host; node i > 0 has an agent.
class World {
 public:
  World(uint64_t seed, size_t agents, Network network, Mutant mutant)
      : random_(seed), network_(network), mutant_(mutant), agents_(agents + 1) {
    for (size_t i = 1; i <= agents; ++i) Begin(i);
    BeginServer();
  }

  void Run(absl::Duration how_long) {
    const Time until = now_ + how_long;
    while (now_ < until) {
      now_ = now_ + absl::Milliseconds(1);
      while (!flying_.empty() && flying_.top().at <= now_) {
        const Flying next = flying_.top();
        flying_.pop();
        Deliver(next);
      }
      for (size_t i = 0; i < agents_.size(); ++i) {
        if (now_ < next_tick_[i] || now_ < paused_until_[i]) continue;
        // Ticks come late, as on a machine that is busy.
        next_tick_[i] = now_ + kTickEvery + absl::Milliseconds(random_.Below(40));
        i == 0 ? TickServer() : TickAgent(i);
      }
    }
  }

  void Cut(size_t from, size_t to) { cut_.insert({from, to}); }
  void CutBoth(size_t one, size_t other) {
    Cut(one, other);
    Cut(other, one);
  }
  void PullCable(size_t node) {
    for (size_t i = 0; i < agents_.size(); ++i) {
      if (i != node) CutBoth(i, node);
    }
  }
  void MendAll() { cut_.clear(); }
  void Pause(size_t node, absl::Duration how_long) { paused_until_[node] = now_ + how_long; }
  void RestartServer() { BeginServer(); }

  // One thing goes wrong, or right again.
  void HaveTrouble() {
    const size_t nodes = agents_.size();
    const size_t one = random_.Below(static_cast<uint32_t>(nodes));
    const size_t other = random_.Below(static_cast<uint32_t>(nodes));
    switch (random_.Below(8)) {
      case 0:
        return PullCable(one);
      case 1:
        if (one != other) Cut(one, other);
        return;
      case 2:
        if (one != other) CutBoth(one, other);
        return;
      case 3: {  // the network falls in two
        for (size_t i = 0; i < nodes; ++i) {
          for (size_t k = 0; k < i; ++k) {
            if (i % 2 != k % 2) CutBoth(i, k);
          }
        }
        return;
      }
      case 4:
        return Pause(0, absl::Milliseconds(random_.Below(8000)));
      case 5:
        return Pause(one, absl::Milliseconds(random_.Below(2000)));
      case 6:
        return RestartServer();
      default:
        return MendAll();
    }
  }

  size_t lost() const { return lost_; }
  size_t stopped() const { return stopped_; }
  size_t fenced() const { return fenced_; }
  size_t violations() const { return violations_; }
  std::optional<Time> lost_at() const { return lost_at_; }
  std::optional<Time> stopped_at() const { return stopped_at_; }
  Time now() const { return now_; }

 private:
  struct Agent {
    HostId id;
    std::unique_ptr<HostContact> contact;
    HostContact::Table table;
    Time asks = Time::Infinite();
    bool alive = true;
  };
  struct Flying {
    Time at;
    uint64_t order;
    size_t from;
    size_t to;
    Packet packet;
    bool operator<(const Flying& other) const {
      return std::tie(at, order) > std::tie(other.at, other.order);
    }
  };

  void Begin(size_t node) {
    Agent& agent = agents_[node];
    // Ids are no order of nodes.
    agent.id = HostId(1 + (uint64_t{random_.Below(1U << 30)} << 8 | node));
    agent.contact = std::make_unique<HostContact>(agent.id, Terms{}, OnPartition::kStop);
    nodes_[agent.id] = node;
  }
  void BeginServer() {
    watch_ = std::make_unique<HostWatch>((++lives_) << 32, Terms{});
    for (size_t i = 1; i < agents_.size(); ++i) {
      agents_[i].asks = now_ + absl::Milliseconds(random_.Below(3000));
    }
  }
  bool Connected(size_t one, size_t other) const {
    return !cut_.contains({one, other}) && !cut_.contains({other, one});
  }
  size_t NodeOf(HostId id) const { return id == kServer ? 0 : nodes_.at(id); }

  void Send(size_t from, size_t to, Packet packet) {
    if (cut_.contains({from, to}) || random_.Below(100) < network_.loss_percent) return;
    uint32_t delay = 1 + random_.Below(network_.delay_ms);
    if (network_.late_one_in > 0 && random_.OneIn(network_.late_one_in)) {
      delay += random_.Below(network_.late_ms);
    }
    flying_.push({now_ + absl::Milliseconds(delay), ++order_, from, to, std::move(packet)});
  }

  void Deliver(const Flying& flying) {
    if (now_ < paused_until_[flying.to]) {  // its socket keeps it
      flying_.push({paused_until_[flying.to], ++order_, flying.from, flying.to, flying.packet});
      return;
    }
    std::optional<Ack> answer;
    // As they travel, so that what is said can be written.
    const Packet packet = *Decode(Encode(flying.packet));
    if (flying.to == 0) {
      if (const auto* ping = std::get_if<Ping>(&packet)) answer = watch_->Handle(now_, *ping);
      if (answer && mutant_ == Mutant::kForgetsVerdicts) answer->gone.clear();
    } else if (agents_[flying.to].alive) {
      HostContact& contact = *agents_[flying.to].contact;
      if (const auto* ping = std::get_if<Ping>(&packet)) {
        answer = contact.Handle(now_, *ping);
        if (answer && mutant_ == Mutant::kLetsGoOn) answer->lost = false;
      } else {
        Ack ack = std::get<Ack>(packet);
        if (mutant_ == Mutant::kHearsLate) ack.number = round_[flying.to];
        contact.Handle(now_, ack);
        Look(flying.to);
      }
    }
    if (answer) Send(flying.to, flying.from, *answer);
  }

  void TickAgent(size_t node) {
    Agent& agent = agents_[node];
    if (!agent.alive) return;
    HostContact::Round round = agent.contact->Tick(now_);
    Look(node);
    if (!agent.alive) return;
    for (Ping& ping : round.pings) {
      round_[node] = ping.number;
      if (mutant_ == Mutant::kReportsNever) {
        for (LastAnswer& each : ping.lost) each.ago = absl::InfiniteDuration();
      }
      if (mutant_ == Mutant::kBoasts && ping.to == kServer && ping.version != 0) {
        ping.counted = static_cast<uint32_t>(agents_.size());
      }
      Send(node, NodeOf(ping.to), ping);
    }
    // What is asked over the link comes when that is there.
    if (round.ask && agent.asks.is_infinite()) agent.asks = now_;
    if (agent.asks <= now_ && Connected(node, 0) && paused_until_[0] <= now_) {
      agent.asks = Time::Infinite();
      if (watch_->Join(now_, agent.id, {.name = absl::StrCat("h", node), .version = "1"}) ==
          HostWatch::Joined::kYes) {
        agent.contact->SetTable(watch_->TableOf(agent.id));
      }
    }
  }

  void Look(size_t node) {
    if (mutant_ == Mutant::kNeverStops || !agents_[node].contact->stops()) return;
    if (std::exchange(agents_[node].alive, false)) ++fenced_;
  }

  void TickServer() {
    for (const HostWatch::News& news : watch_->Tick(now_)) {
      const size_t node = nodes_.at(news.host);
      if (news.kind == HostWatch::News::Kind::kForgotten) continue;
      const bool is_lost = news.kind == HostWatch::News::Kind::kLost;
      if (is_lost) {
        ++lost_;
        lost_at_ = now_;
      }
      if (!is_lost || mutant_ == Mutant::kStoppedAtOnce) {
        ++stopped_;
        stopped_at_ = now_;
        // A program that is stopped cannot stop others: that is the launcher's, who watches it.
        if (agents_[node].alive && paused_until_[node] + kSlack < now_) ++violations_;
      }
    }
  }

  Random random_;
  const Network network_;
  const Mutant mutant_;
  Time now_ = Time::FromNanoseconds(1'000'000'000);
  std::vector<Agent> agents_;  // the first is none
  std::map<HostId, size_t> nodes_;
  std::unique_ptr<HostWatch> watch_;
  uint64_t lives_ = 0;
  std::set<std::pair<size_t, size_t>> cut_;
  std::map<size_t, Time> next_tick_;
  std::map<size_t, Time> paused_until_;
  std::map<size_t, uint64_t> round_;
  std::priority_queue<Flying> flying_;
  uint64_t order_ = 0;
  size_t lost_ = 0;
  size_t stopped_ = 0;
  size_t fenced_ = 0;
  size_t violations_ = 0;
  std::optional<Time> lost_at_;
  std::optional<Time> stopped_at_;
};

struct Sum {
  size_t violations = 0;
  size_t lost = 0;
  size_t stopped = 0;
  size_t fenced = 0;
};

Sum Simulate(uint64_t first, uint64_t seeds, Mutant mutant) {
  Sum sum;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    Random random(seed);
    const Network network{.loss_percent = random.OneIn(2) ? 0 : random.Below(30),
                          .delay_ms = 1 + random.Below(50),
                          .late_one_in = random.OneIn(2) ? 0U : 5U,
                          .late_ms = 4000};
    World world(seed, 1 + random.Below(6), network, mutant);
    world.Run(absl::Seconds(4));
    for (int i = 0; i < 12; ++i) {
      world.HaveTrouble();
      world.Run(absl::Milliseconds(random.Below(4000)));
    }
    world.Run(absl::Seconds(10));
    if (mutant == Mutant::kNone) {
      EXPECT_EQ(world.violations(), 0) << "seed " << seed;
    }
    sum.violations += world.violations();
    sum.lost += world.lost();
    sum.stopped += world.stopped();
    sum.fenced += world.fenced();
  }
  return sum;
}

uint64_t Seeds() {
  const char* const given = std::getenv("LOCKSTEP_HOST_SEEDS");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1000;
}

TEST(HostSimulationTest, WhoIsCalledStoppedHasStopped) {
  const Sum sum = Simulate(0, Seeds(), Mutant::kNone);
  // It had to decide something.
  EXPECT_GT(sum.lost, Seeds() / 5);
  EXPECT_GT(sum.stopped, Seeds() / 10);
  EXPECT_GT(sum.fenced, Seeds() / 5);
  RecordProperty("lost", static_cast<int>(sum.lost));
  RecordProperty("stopped", static_cast<int>(sum.stopped));
  RecordProperty("fenced", static_cast<int>(sum.fenced));
}

TEST(HostSimulationTest, MutantsAreCaught) {
  for (const Mutant mutant : {Mutant::kNeverStops, Mutant::kHearsLate, Mutant::kLetsGoOn,
                              Mutant::kReportsNever, Mutant::kStoppedAtOnce, Mutant::kBoasts}) {
    EXPECT_GT(Simulate(0, 1000, mutant).violations, 0) << "mutant " << static_cast<int>(mutant);
  }
  // This one is safe: nobody is called stopped.
  EXPECT_LT(Simulate(0, 300, Mutant::kForgetsVerdicts).stopped,
            Simulate(0, 300, Mutant::kNone).stopped / 2);
}

// The same for many seeds: how many hosts there are, and when it happens within a round.
template <class Test>
void ForSomeWorlds(Test test) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    World world(seed, 2 + seed % 7, {}, Mutant::kNone);
    world.Run(absl::Milliseconds(8000 + seed * 37));
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    test(world);
  }
}

TEST(HostSimulationTest, AHostWithoutCableIsLostInTimeAndKnownToHaveStoppedSoon) {
  ForSomeWorlds([](World& world) {
    world.PullCable(1);
    const Time pulled = world.now();
    world.Run(absl::Seconds(5));
    EXPECT_EQ(world.lost(), 1);
    EXPECT_EQ(world.stopped(), 1);
    EXPECT_EQ(world.fenced(), 1);
    ASSERT_TRUE(world.lost_at() && world.stopped_at());
    EXPECT_LE(*world.lost_at() - pulled, absl::Milliseconds(3300));
    EXPECT_LE(*world.stopped_at() - pulled, absl::Milliseconds(4700));
  });
}

TEST(HostSimulationTest, AServerWithoutCableLosesNobody) {
  ForSomeWorlds([](World& world) {
    world.PullCable(0);
    world.Run(absl::Seconds(20));
    world.MendAll();
    world.Run(absl::Seconds(10));
    EXPECT_EQ(world.lost() + world.fenced(), 0);
  });
}

TEST(HostSimulationTest, ACableThatIsOutForTwoSecondsLosesNobody) {
  ForSomeWorlds([](World& world) {
    world.PullCable(1);
    world.Run(absl::Seconds(2));
    world.MendAll();
    world.Run(absl::Seconds(10));
    EXPECT_EQ(world.lost() + world.fenced(), 0);
  });
}

TEST(HostSimulationTest, AServerThatWasStoppedLosesNobody) {
  ForSomeWorlds([](World& world) {
    world.Pause(0, absl::Seconds(60));
    world.Run(absl::Seconds(80));
    EXPECT_EQ(world.lost() + world.fenced(), 0);
  });
}

TEST(HostSimulationTest, AServerThatIsRestartedLosesNobody) {
  ForSomeWorlds([](World& world) {
    for (int i = 0; i < 5; ++i) {
      world.RestartServer();
      world.Run(absl::Milliseconds(2500));
    }
    EXPECT_EQ(world.lost() + world.fenced(), 0);
  });
}

TEST(HostSimulationTest, HostsThatStopAndGoAreNotLost) {
  ForSomeWorlds([](World& world) {
    for (int i = 0; i < 10; ++i) {
      world.Pause(1, absl::Seconds(2));
      world.Run(absl::Milliseconds(2600));
    }
    EXPECT_EQ(world.lost() + world.fenced(), 0);
  });
}

// With so many, each has some of the others as its peers.
TEST(HostSimulationTest, ARackOfManyIsLostWhole) {
  World world(1, 100, {}, Mutant::kNone);
  world.Run(absl::Seconds(8));
  // Whatever stands in it, its hosts hear each other.
  for (size_t inside = 1; inside <= 20; ++inside) {
    for (size_t outside = 0; outside <= 100; ++outside) {
      if (outside == 0 || outside > 20) world.CutBoth(inside, outside);
    }
  }
  world.Run(absl::Seconds(6));
  EXPECT_EQ(world.lost(), 20);
  EXPECT_EQ(world.stopped(), 20);
  EXPECT_EQ(world.fenced(), 20);
  EXPECT_EQ(world.violations(), 0);
}

}  // namespace
}  // namespace lockstep::hosts
