// Two conversations over a network that refuses, delays, breaks and crosses their links: each
// message comes once and in order, and when the faults stop, all come over one link.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/rendezvous/transport/conversation.h"

namespace lockstep::transport {
namespace {

using rendezvous::Reason;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  bool Percent(uint64_t chance) { return Next() % 100 < chance; }
  absl::Duration UpTo(absl::Duration bound) {
    return absl::Nanoseconds(
        static_cast<int64_t>(Next() % static_cast<uint64_t>(absl::ToInt64Nanoseconds(bound) + 1)));
  }

 private:
  uint64_t state_;
};

// What goes wrong in one run, all of it before `faults_end`.
struct Plan {
  bool both_dial = false;
  uint64_t refuse_percent = 0;
  uint64_t lose_dial_percent = 0;
  uint64_t break_percent = 0;
  absl::Duration delay = absl::Milliseconds(1);
  absl::Duration hello_delay = absl::Milliseconds(1);
  absl::Duration faults = absl::Seconds(4);
  absl::Duration grace = absl::Seconds(60);
  bool restart = false;    // end 1 forgets everything in the midst
  bool partition = false;  // nothing goes through, for longer than the grace
  size_t messages = 0;
};

class World {
 public:
  World(uint64_t seed, const Plan& plan) : plan_(plan), random_(seed) {
    for (int side : {0, 1}) ends_[side].machine = Make(side, 1);
  }

  void Run() {
    for (int side : {0, 1}) {
      At(random_.UpTo(absl::Milliseconds(3)), [this, side] {
        if (Started(side)) return;
        Do(side, [this](Conversation& c, auto& out) { c.Start(now_, out); });
      });
      for (size_t i = 0; i < plan_.messages; ++i) {
        At(random_.UpTo(plan_.faults), [this, side] { Say(side); });
      }
    }
    if (plan_.partition) {
      At(absl::Milliseconds(300), [this] {
        for (const auto& connection : connections_) Break(connection.get());
      });
    }
    if (plan_.restart) At(random_.UpTo(plan_.faults), [this] { Restart(); });
    const Time end = now_ + plan_.faults + absl::Minutes(3);
    while (!events_.empty() && events_.top().at <= end && !testing::Test::HasFailure()) {
      Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.act();
    }
  }

  // All has come, over the only link.
  void ExpectWhole() {
    for (int side : {0, 1}) {
      EXPECT_EQ(ends_[side].lost, nullptr) << ends_[side].lost->message;
      EXPECT_EQ(ends_[1 - side].received, ends_[side].sent) << "from " << side;
      EXPECT_EQ(ends_[side].machine->sent().messages(), 0u) << "side " << side;
    }
    std::vector<const Connection*> open;
    for (const auto& connection : connections_) {
      if (connection->attached[0] || connection->attached[1]) open.push_back(connection.get());
    }
    ASSERT_EQ(open.size(), 1u);
    EXPECT_TRUE(open[0]->attached[0] && open[0]->attached[1]);
    EXPECT_TRUE(ends_[0].machine->up() && ends_[1].machine->up());
  }

  // Both know, or nothing was missed.
  void ExpectLostByBothOrWhole() {
    const bool lost[] = {ends_[0].lost != nullptr, ends_[1].lost != nullptr};
    EXPECT_EQ(lost[0], lost[1]);
    if (!lost[0] && !lost[1]) return ExpectWhole();
    for (const End& end : ends_) {
      if (end.lost == nullptr) continue;
      EXPECT_TRUE(end.lost->reason == Reason::kUnreachable ||
                  end.lost->reason == Reason::kPeerRestarted)
          << end.lost->message;
      EXPECT_NE(end.lost->message, "");
    }
    for (const auto& connection : connections_) {
      EXPECT_FALSE(connection->attached[0] || connection->attached[1]);
    }
  }

  const rendezvous::ErrorPtr& lost(int side) const { return ends_[side].lost; }

 private:
  struct Event {
    Time at;
    uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& other) const {
      return std::pair(at, order) > std::pair(other.at, other.order);
    }
  };

  struct Connection {
    int dialer = 0;
    LinkId link[2];
    bool attached[2] = {false, false};
    Time last_arrival[2];                                // at each end: bytes do not overtake
    Time cut[2] = {Time::Infinite(), Time::Infinite()};  // what arrives at it later is gone
  };

  struct End {
    std::unique_ptr<Conversation> machine;
    std::map<LinkId, Connection*> links;
    size_t sent = 0;
    size_t received = 0;
    int life = 1;
    int heard_life = 0;
    bool started = false;
    Time timer = Time::Infinite();
    rendezvous::ErrorPtr lost;
  };

  bool faulty() const { return now_ < Time() + plan_.faults; }
  bool partitioned() const {
    return plan_.partition && faulty() && now_ >= Time() + absl::Milliseconds(300);
  }

  std::unique_ptr<Conversation> Make(int side, uint8_t life) {
    Conversation::Options options = {.self = MemberIndex(side),
                                     .peer = MemberIndex(1 - side),
                                     .incarnation = Incarnation(10 + side),
                                     .peer_incarnation = Incarnation(11 - side),
                                     .peer_name = "the other",
                                     .grace = plan_.grace,
                                     .seed = random_.Next()};
    options.conversation[0] = static_cast<uint8_t>(side + 1);
    options.conversation[1] = life;
    if (!plan_.both_dial && side == 1) options.role = Conversation::Role::kTakes;
    if (random_.Percent(30)) options.unacknowledged_messages_max = 4;
    return std::make_unique<Conversation>(options);
  }

  void At(absl::Duration delay, std::function<void()> act) {
    events_.push({now_ + delay, ++order_, std::move(act)});
  }

  bool Started(int side) { return std::exchange(ends_[side].started, true); }

  using Act = std::function<void(Conversation&, Conversation::Effects&)>;

  void Do(int side, const Act& act) {
    End& end = ends_[side];
    Conversation::Effects out;
    act(*end.machine, out);
    Perform(side, out);
    const Time next = end.machine->NextDeadline();
    if (next.is_infinite() || next == end.timer) return;
    end.timer = next;
    At(std::max(next - now_, absl::ZeroDuration()), [this, side, next] {
      if (ends_[side].timer != next) return;
      ends_[side].timer = Time::Infinite();
      Do(side, [this](Conversation& c, auto& effects) { c.ReachDeadline(now_, effects); });
    });
  }

  void Perform(int side, Conversation::Effects& out) {
    End& end = ends_[side];
    for (LinkId link : out.close) Close(side, link);
    if (out.dial.has_value()) Dial(side, *out.dial);
    if (out.welcome.has_value()) {
      Connection* connection = end.links.at(out.welcome->link);
      Carry(connection, side, [this, side, connection, greeting = out.welcome->welcome] {
        Do(1 - side, [&](Conversation& c, auto& effects) {
          c.LinkUp(now_, connection->link[1 - side], greeting, effects);
        });
      });
      if (out.welcome->last) Close(side, out.welcome->link);
    }
    for (const Conversation::Outgoing& message : out.send) {
      ASSERT_TRUE(end.links.contains(message.link)) << "sends on a link that it has closed";
      Connection* connection = end.links.at(message.link);
      Carry(connection, side, [this, side, connection, message] {
        const std::string payload = message.payload == nullptr ? "" : *message.payload;
        Do(1 - side, [&](Conversation& c, auto& effects) {
          c.Take(now_, connection->link[1 - side], message.number, message.acknowledged, payload,
                 effects);
        });
      });
    }
    for (const std::string& payload : out.deliver) {
      // Of one life of the other end alone, the first that it heard.
      if (end.received == 0) end.heard_life = payload[2] - '0';
      ASSERT_EQ(payload, Text(1 - side, end.heard_life, ++end.received));
    }
    if (out.lost != nullptr) {
      ASSERT_EQ(end.lost, nullptr) << "lost twice";
      end.lost = out.lost;
    }
  }

  static std::string Text(int from, int life, size_t number) {
    return std::to_string(from) + "." + std::to_string(life) + ":" + std::to_string(number);
  }

  void Say(int side) {
    End& end = ends_[side];
    if (end.machine->ended()) return;
    if (!Started(side)) Do(side, [this](Conversation& c, auto& out) { c.Start(now_, out); });
    if (end.machine->full()) {
      At(absl::Milliseconds(20), [this, side] { Say(side); });
      return;
    }
    const size_t burst = random_.Percent(3) ? 100 : 1;
    for (size_t i = 0; i < burst; ++i) {
      Do(side, [&](Conversation& c, auto& out) {
        c.Send(std::make_shared<const std::string>(Text(side, end.life, ++end.sent)), out);
      });
    }
  }

  void Restart() {
    End& end = ends_[1];
    for (const auto& [link, connection] : std::map(end.links)) Close(1, link);
    end.machine = Make(1, static_cast<uint8_t>(++end.life));
    end.sent = end.received = 0;
    end.timer = Time::Infinite();
    end.lost = nullptr;
    Do(1, [this](Conversation& c, auto& out) { c.Start(now_, out); });
  }

  // --- Links ---

  void Dial(int side, const Conversation::Dial& dial) {
    connections_.push_back(std::make_unique<Connection>());
    Connection* connection = connections_.back().get();
    connection->dialer = side;
    connection->link[side] = dial.link;
    connection->attached[side] = true;
    ends_[side].links[dial.link] = connection;
    if (partitioned() || (faulty() && random_.Percent(plan_.lose_dial_percent))) return;
    if (faulty() && random_.Percent(plan_.refuse_percent)) return Refuse(connection);
    Carry(
        connection, side,
        [this, side, connection, hello = dial.hello] { Arrive(1 - side, connection, hello); },
        /*is_hello=*/true, faulty() ? random_.UpTo(plan_.hello_delay) : absl::ZeroDuration());
    if (faulty() && random_.Percent(plan_.break_percent)) {
      At(random_.UpTo(absl::Milliseconds(400)), [this, connection] { Break(connection); });
    }
  }

  void Arrive(int side, Connection* connection, const Greeting& hello) {
    End& end = ends_[side];
    if (end.machine->ended()) return Refuse(connection);
    if (!Started(side)) Do(side, [this](Conversation& c, auto& out) { c.Start(now_, out); });
    const LinkId link = end.machine->NewLink();
    connection->link[side] = link;
    connection->attached[side] = true;
    end.links[link] = connection;
    Do(side, [&](Conversation& c, auto& out) { c.TakeDial(now_, link, hello, out); });
  }

  // In order behind what was sent before on this connection.
  void Carry(Connection* connection, int from, std::function<void()> act, bool is_hello = false,
             absl::Duration extra = absl::ZeroDuration()) {
    const int to = 1 - from;
    Time& last = connection->last_arrival[to];
    last = std::max(last, now_ + random_.UpTo(plan_.delay) + extra);
    const int life = ends_[to].life;
    At(last - now_, [this, connection, to, is_hello, life, act = std::move(act)] {
      if (now_ > connection->cut[to]) return;
      if (!is_hello && (!connection->attached[to] || life != ends_[to].life)) return;
      act();
    });
  }

  void Refuse(Connection* connection) {
    const int dialer = connection->dialer;
    At(random_.UpTo(plan_.delay), [this, connection, dialer] { Fail(connection, dialer); });
  }

  void Close(int side, LinkId link) {
    const auto found = ends_[side].links.find(link);
    if (found == ends_[side].links.end()) return;
    Connection* connection = found->second;
    ends_[side].links.erase(found);
    connection->attached[side] = false;
    // What it sent last may be lost with it.
    if (random_.Percent(30)) connection->cut[1 - side] = now_ + random_.UpTo(plan_.delay);
    const Time last = std::max(connection->last_arrival[1 - side], now_);
    At(last - now_ + random_.UpTo(plan_.delay),
       [this, connection, side] { Fail(connection, 1 - side); });
  }

  void Break(Connection* connection) {
    for (int side : {0, 1}) {
      connection->cut[side] = now_ + random_.UpTo(absl::Milliseconds(5));
      const auto notice =
          random_.UpTo(random_.Percent(20) ? absl::Seconds(3) : absl::Milliseconds(30));
      At(notice + absl::Milliseconds(6), [this, connection, side] { Fail(connection, side); });
    }
  }

  // `side` learns that the connection is no more.
  void Fail(Connection* connection, int side) {
    if (!connection->attached[side]) return;
    connection->attached[side] = false;
    ends_[side].links.erase(connection->link[side]);
    Do(side, [&](Conversation& c, auto& out) {
      c.LinkDown(now_, connection->link[side], absl::UnavailableError("broken"), out);
    });
  }

  const Plan plan_;
  Random random_;
  Time now_;
  uint64_t order_ = 0;
  std::priority_queue<Event> events_;
  std::vector<std::unique_ptr<Connection>> connections_;
  End ends_[2];
};

Plan Draw(uint64_t seed) {
  Random random(seed * 7919 + 1);
  Plan plan;
  plan.both_dial = random.Percent(70);
  plan.refuse_percent = random.Next() % 60;
  plan.lose_dial_percent = random.Next() % 20;
  plan.break_percent = random.Next() % 100;
  plan.delay = random.UpTo(absl::Milliseconds(20));
  plan.hello_delay = random.UpTo(random.Percent(30) ? absl::Seconds(2) : absl::Milliseconds(20));
  plan.messages = random.Next() % 40;
  return plan;
}

TEST(ConversationSimulation, DeliversEachMessageOnceAndInOrderWhenLinksBreak) {
  for (uint64_t seed = 0; seed < 2000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(seed, Draw(seed));
    world.Run();
    world.ExpectWhole();
  }
}

TEST(ConversationSimulation, IsLostByBothEndsWhenTheGraceIsOver) {
  int lost = 0;
  for (uint64_t seed = 0; seed < 500 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Plan plan = Draw(seed);
    plan.partition = true;
    plan.grace = absl::Milliseconds(500) + absl::Seconds(seed % 8);
    World world(seed, plan);
    world.Run();
    world.ExpectLostByBothOrWhole();
    lost += world.lost(0) != nullptr;
  }
  EXPECT_GT(lost, 50);
  EXPECT_LT(lost, 450);
}

TEST(ConversationSimulation, IsLostToAnEndThatForgetsItself) {
  int told = 0;
  for (uint64_t seed = 0; seed < 500 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Plan plan = Draw(seed);
    plan.restart = true;
    plan.grace = absl::Seconds(10);
    World world(seed, plan);
    world.Run();
    world.ExpectLostByBothOrWhole();
    told += world.lost(0) != nullptr && world.lost(0)->reason == Reason::kPeerRestarted;
  }
  EXPECT_GT(told, 250);
}

}  // namespace
}  // namespace lockstep::transport
