// A server's book, many agents and a network that fails, under a virtual clock: each call is ended
// once with the right answer, however many agents die, stop or lie, and no wait goes on for ever.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/agent/peer_values.h"
#include "lockstep/server/fan_out_book.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::agent {
namespace {

using link::LinkId;
using server::FanOutBook;
using Value = PeerValues::Value;

// What a mutant does wrong.
enum class Mutant {
  kNone,
  kNoHints,         // whoever waits at an agent hears nothing of it
  kNoTimer,         // agents do not look at the clock
  kServerNotAsked,  // an agent whose fetch fails leaves it at that
  kUnverified,      // an agent takes whatever comes
  kNotMadeAgain,    // a call whose answer the server has lost is left at that
  kNoDeadlines      // of callers
};

constexpr size_t kAgents = 40;
constexpr size_t kChildren = 2;
constexpr size_t kValues = 3;
constexpr absl::Duration kEnough = absl::Seconds(90);

class World {
 public:
  World(uint64_t seed, Mutant mutant) : random_(seed), mutant_(mutant) {}

  // Returns what was wrong; empty: nothing.
  std::string Run() {
    for (size_t i = 0; i < kAgents; ++i) {
      agents_.push_back(std::make_unique<Agent>());
      book_.Joined(LinkId(i + 1), this, absl::StrCat("h:", i + 1));
    }
    for (size_t i = 0; i < kValues; ++i) At(Below(4000), kNobody, [this, i] { Release(i); });
    Disturb();
    const Time end = now_ + kEnough;
    while (wrong_.empty() && Step(end)) continue;
    book_.Expire(end);
    if (wrong_.empty()) Audit();
    return wrong_;
  }

 private:
  static constexpr size_t kNobody = static_cast<size_t>(-1);

  struct Agent {
    PeerValues values{{.peers_max = 16, .held_bytes_max = 1000}};
    bool dead = false;
    Time frozen_until;
  };
  // Of a child to its parent.
  struct Connection {
    size_t child = 0;
    size_t parent = 0;
    std::string ticket;
    bool open = true;
    bool corrupt = false;
  };
  struct Call {
    size_t agent = 0;
    std::string answer;
    Time deadline;
    int ends = 0;
  };
  struct Event {
    size_t agent = kNobody;
    std::function<void()> run;
  };

  uint64_t Below(uint64_t n) { return random_() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  void At(uint64_t ms, size_t agent, std::function<void()> run) {
    events_.emplace(now_ + absl::Milliseconds(static_cast<int64_t>(ms)),
                    Event{.agent = agent, .run = std::move(run)});
  }
  bool Frozen(size_t agent) const { return now_ < agents_[agent]->frozen_until; }

  // What happens next happens; false: nothing does before `end`.
  bool Step(Time end) {
    Time next = events_.empty() ? Time::Infinite() : events_.begin()->first;
    size_t rings = kNobody;
    for (size_t i = 0; i < kAgents && mutant_ != Mutant::kNoTimer; ++i) {
      if (agents_[i]->dead) continue;
      const Time at = std::max(agents_[i]->values.NextDeadline(), agents_[i]->frozen_until);
      if (at >= next) continue;
      next = at;
      rings = i;
    }
    if (next >= end) return false;
    now_ = std::max(now_, next);
    book_.Expire(now_);
    if (rings != kNobody) {
      With(rings, [&](PeerValues& values, auto& out) { values.ReachDeadline(now_, out); });
      return true;
    }
    Event event = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    if (event.agent != kNobody && agents_[event.agent]->dead) return true;
    if (event.agent != kNobody && Frozen(event.agent)) {
      events_.emplace(agents_[event.agent]->frozen_until, std::move(event));
      return true;
    }
    event.run();
    return true;
  }

  template <class Function>
  void With(size_t agent, Function function) {
    PeerValues::Effects effects;
    function(agents_[agent]->values, effects);
    Carry(agent, std::move(effects));
  }

  // A value that all wait for is set.
  void Release(size_t which) {
    const std::string text = absl::StrCat("value ", which);
    std::vector<LinkId> links;
    for (size_t i = 0; i < kAgents; ++i) links.emplace_back(i + 1);
    const std::string ticket = absl::StrCat("ticket ", which);
    const auto tree = book_.Begin(now_, {.ticket = ticket, .key = "key"},
                                  std::make_shared<const std::string>(text), links);
    for (const size_t i : tree->plan().order()) {
      const std::string message = *tree->MessageFor(i);
      At(1 + Below(200), i, [this, i, text, message] { TakeAnswer(i, text, message); });
    }
  }

  static PeerValues::Source SourceOf(const wire::native::FanOut& told) {
    return {.key = told.key.data, .size = static_cast<size_t>(told.size), .from = told.from};
  }

  void TakeAnswer(size_t agent, const std::string& text, const std::string& message) {
    const auto told = *wire::native::Decode<wire::native::StockCallReply>(message)->fan_out;
    const std::string ticket = told.ticket.data;
    for (uint64_t i = 0; i < 1 + Below(3); ++i) {
      const uint64_t number = ++last_number_;
      const bool hurries = OneIn(10);
      const Time deadline = hurries ? now_ + absl::Milliseconds(static_cast<int64_t>(Below(2000)))
                                    : now_ + absl::Seconds(60);
      calls_[number] = {.agent = agent, .answer = text, .deadline = deadline};
      With(agent, [&](PeerValues& values, auto& out) {
        if (told.answer.data == nullptr) {
          return values.Told(now_, ticket, SourceOf(told), number,
                             mutant_ == Mutant::kNoDeadlines ? Time::Infinite() : deadline, out);
        }
        End(number, *told.answer.data);
        values.Given(now_, ticket, SourceOf(told), told.answer.data, out);
      });
      if (!OneIn(20)) continue;
      At(Below(500), agent, [this, agent, number] {
        if (calls_[number].ends > 0) return;
        ++calls_[number].ends;
        agents_[agent]->values.CallLeft(number);
      });
    }
  }

  void End(uint64_t number, const std::string& answer) {
    Call& call = calls_[number];
    ++call.ends;
    if (answer != call.answer) wrong_ = absl::StrCat("call ", number, " got ", answer);
    if (call.ends > 1) wrong_ = absl::StrCat("call ", number, " was ended twice");
  }

  void Carry(size_t agent, PeerValues::Effects effects) {
    for (const auto& ticket : effects.stop) Stop(agent, ticket);
    for (const uint64_t peer : effects.close) CloseAtParent(peer);
    for (const auto& fetch : effects.fetch) Fetch(agent, fetch);
    for (const uint64_t peer : effects.hint) {
      if (mutant_ == Mutant::kNoHints) continue;
      ToChild(peer, 1 + Below(20), [this](Connection& connection) {
        agents_[connection.child]->values.Progressed(now_, connection.ticket);
      });
    }
    for (const auto& serving : effects.serve) Serve(serving, 0);
    for (const auto& ticket : effects.ask_server) AskServer(agent, ticket);
    for (const auto& ended : effects.ended) {
      Call& call = calls_[ended.call];
      if (now_ > std::max(call.deadline, agents_[agent]->frozen_until)) {
        wrong_ = absl::StrCat("call ", ended.call, " ended too late");
      }
      if (ended.end == PeerValues::End::kValue) {
        End(ended.call, *ended.value);
      } else if (ended.end == PeerValues::End::kDeadline) {
        if (now_ < call.deadline) wrong_ = absl::StrCat("call ", ended.call, " ended too early");
        End(ended.call, call.answer);
      } else if (mutant_ != Mutant::kNotMadeAgain) {
        // Made again; the server answers this one itself.
        At(1 + Below(100), agent, [this, number = ended.call] {
          if (calls_[number].ends == 0) End(number, calls_[number].answer);
        });
      }
    }
  }

  void Fetch(size_t agent, const PeerValues::Effects::Fetch& fetch) {
    const size_t parent = static_cast<size_t>(std::atoi(fetch.source.from.c_str() + 2)) - 1;
    const uint64_t number = ++last_number_;
    connections_[number] = {.child = agent, .parent = parent, .ticket = fetch.ticket};
    if (OneIn(40)) {  // its port cannot be reached
      ++faults_;
      return ToChild(number, 1 + Below(300), [this, number](Connection&) { Fail(number); });
    }
    connections_[number].corrupt = OneIn(40);
    if (connections_[number].corrupt) ++faults_;
    At(1 + Below(50), parent, [this, number, parent] {
      Connection& connection = connections_[number];
      if (!agents_[parent]->values.PeerCame(now_, number)) return CloseAtParent(number);
      if (!connection.open) return Leave(number);
      With(parent, [&](PeerValues& values, auto& out) {
        values.PeerAsked(now_, number, connection.ticket, out);
      });
    });
  }

  void ToChild(uint64_t number, uint64_t ms, std::function<void(Connection&)> run) {
    At(ms, connections_[number].child, [this, number, run = std::move(run)] {
      if (connections_[number].open) run(connections_[number]);
    });
  }
  void Fail(uint64_t number) {
    Connection& connection = connections_[number];
    connection.open = false;
    With(connection.child,
         [&](PeerValues& values, auto& out) { values.FetchFailed(now_, connection.ticket, out); });
  }
  // The parent notices that the child has gone, or has everything.
  void Leave(uint64_t number) {
    const size_t parent = connections_[number].parent;
    At(1, parent, [this, number, parent] { agents_[parent]->values.PeerLeft(now_, number); });
  }
  void CloseAtParent(uint64_t number) {
    ToChild(number, 1 + Below(20), [this, number](Connection&) { Fail(number); });
  }
  void Stop(size_t agent, const std::string& ticket) {
    for (auto& [number, connection] : connections_) {
      if (connection.child != agent || connection.ticket != ticket || !connection.open) continue;
      connection.open = false;
      Leave(number);
    }
  }

  void Serve(const PeerValues::Effects::Serving& serving, int step) {
    constexpr int kSteps = 3;
    const Connection& connection = connections_[serving.peer];
    At(1 + Below(60), connection.parent, [this, serving, step] {
      Connection& to = connections_[serving.peer];
      if (!to.open) return;
      agents_[to.parent]->values.PeerTook(now_, serving.peer);
      if (step < kSteps) {
        ToChild(serving.peer, 1 + Below(20), [this](Connection& from) {
          agents_[from.child]->values.Progressed(now_, from.ticket);
        });
        return Serve(serving, step + 1);
      }
      Leave(serving.peer);
      ToChild(serving.peer, 1 + Below(20), [this, serving](Connection& from) {
        if (from.corrupt && mutant_ != Mutant::kUnverified) return Fail(serving.peer);
        from.open = false;
        Value value = from.corrupt ? std::make_shared<const std::string>("lies") : serving.value;
        With(from.child, [&](PeerValues& values, auto& out) {
          values.Fetched(now_, from.ticket, std::move(value), out);
        });
      });
    });
  }

  void AskServer(size_t agent, const std::string& ticket) {
    if (mutant_ == Mutant::kServerNotAsked) return;
    ++fallbacks_;
    if (fallbacks_ > faults_) wrong_ = "an agent fell back whose parent was well";
    At(1 + Below(100), kNobody, [this, agent, ticket] {
      const bool forgets = OneIn(10);
      // Whoever waits for it there falls back, too.
      if (forgets) faults_ += kChildren;
      const auto whole = forgets ? nullptr : book_.Fetch(now_, LinkId(agent + 1), ticket);
      At(1 + Below(100), agent, [this, agent, ticket, whole] {
        With(agent, [&](PeerValues& values, auto& out) {
          if (whole == nullptr) return values.ServerFailed(now_, ticket, out);
          const auto told = *wire::native::Decode<wire::native::StockCallReply>(*whole)->fan_out;
          values.Given(now_, ticket, SourceOf(told), told.answer.data, out);
        });
      });
    });
  }

  // Agents die and stop for a while.
  void Disturb() {
    for (uint64_t i = 0; i < Below(4); ++i) {
      const size_t agent = Below(kAgents);
      const bool dies = OneIn(2);
      // It, and whom it serves: of each value.
      faults_ += kValues * (kChildren + 1);
      At(Below(5000), kNobody, [this, agent, dies] {
        if (!dies) {
          agents_[agent]->frozen_until =
              now_ + absl::Milliseconds(static_cast<int64_t>(Below(20'000)));
          return;
        }
        agents_[agent]->dead = true;
        const bool silently = OneIn(2);
        for (auto& [number, connection] : connections_) {
          if (connection.parent == agent && !silently) CloseAtParent(number);
          if (connection.child == agent && !silently && connection.open) {
            connection.open = false;
            Leave(number);
          }
        }
      });
    }
  }

  void Audit() {
    for (const auto& [number, call] : calls_) {
      if (call.ends != 1 && !agents_[call.agent]->dead) {
        wrong_ = absl::StrCat("call ", number, " was ended ", call.ends, " times");
      }
    }
    for (size_t i = 0; i < kAgents; ++i) {
      const PeerValues::Sizes left = agents_[i]->values.sizes();
      if (agents_[i]->dead || left.calls + left.peers + left.answers == 0) continue;
      wrong_ = absl::StrCat("agent ", i, " still has ", left.calls, " calls, ", left.peers,
                            " connections and ", left.answers, " answers");
    }
    if (book_.bytes() != 0) wrong_ = "the server still keeps answers";
  }

  std::mt19937_64 random_;
  const Mutant mutant_;
  Time now_ = Time() + absl::Seconds(1000);
  FanOutBook book_{{.bytes_min = 1, .hosts_min = 2, .shape = {.roots = 3, .children = kChildren}}};
  std::vector<std::unique_ptr<Agent>> agents_;
  std::multimap<Time, Event> events_;
  std::map<uint64_t, Connection> connections_;
  std::map<uint64_t, Call> calls_;
  uint64_t last_number_ = 0;
  // How many agents may fall back, and how many did.
  size_t faults_ = 0;
  size_t fallbacks_ = 0;
  std::string wrong_;
};

uint64_t Seeds() {
  const char* const given = std::getenv("LOCKSTEP_FAN_OUT_SIMULATION_SEEDS");
  return given == nullptr ? 300 : std::strtoull(given, nullptr, 10);
}

TEST(FanOutSimulation, EachCallIsEndedOnceWithTheRightAnswer) {
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    ASSERT_EQ(World(seed, Mutant::kNone).Run(), "") << "seed " << seed;
  }
}

class FanOutMutants : public ::testing::TestWithParam<Mutant> {};

TEST_P(FanOutMutants, AreCaught) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    if (!World(seed, GetParam()).Run().empty()) return;
  }
  FAIL() << "nothing was wrong in 100 seeds";
}

INSTANTIATE_TEST_SUITE_P(Each, FanOutMutants,
                         ::testing::Values(Mutant::kNoHints, Mutant::kNoTimer,
                                           Mutant::kServerNotAsked, Mutant::kUnverified,
                                           Mutant::kNotMadeAgain, Mutant::kNoDeadlines));

}  // namespace
}  // namespace lockstep::agent
