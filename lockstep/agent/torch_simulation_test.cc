// Agents, a durable store and its clients, with links that break and servers that are killed at
// every moment: each command takes effect once, and each client has its own answers in order.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "lockstep/agent/torch_stream.h"
#include "lockstep/server/passed_torch_commands.h"
#include "lockstep/server/torch_client.h"
#include "lockstep/stock/tcpstore/store.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::agent {
namespace {

using server::AddBytes;
using server::GetBytes;
using server::Number;
using server::PassedTorchCommands;
using server::PopBytes;
using server::PushBytes;
using server::SetBytes;
using server::Text;
using server::WaitBytes;
using tcpstore::ConnectionId;
using tcpstore::ValuePtr;
using Kind = TorchStream::Kind;

// What a mutant does wrong.
enum class Mutant {
  kNone,
  kNoAnswerKept,      // the server forgets what it answered
  kNothingRestored,   // the server that starts knows the keys alone
  kRecordBehind,      // the record of a command is in an entry behind that of its change
  kBarrierAgain,      // a retry counts at the barrier once more
  kNoOrder,           // the agent passes on what comes at once
  kResentBackwards,   // the agent sends again in any order
  kLongTogether,      // the agent passes on long commands like others
  kToldBeforeDurable  // the server answers before the journal has it
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(engine_() % n); }

 private:
  std::mt19937_64 engine_;
};

// A store as a server runs it, and what of it is durable.
class Server {
 public:
  using Answered = std::function<void(CallId, absl::StatusOr<ValuePtr>)>;

  Server(const std::vector<tcpstore::Record>& durable, Mutant mutant, Answered answered)
      : mutant_(mutant),
        store_(options_),
        passed_(options_,
                {.connected = [this](ConnectionId id,
                                     std::string peer) { store_.Connected(id, std::move(peer)); },
                 .command =
                     [this](ConnectionId id, const tcpstore::Command& command) {
                       tcpstore::Effects effects;
                       Handle(id, command, effects);
                       Settle(std::move(effects));
                     },
                 .again =
                     [this](ConnectionId id, ValuePtr answer) {
                       tcpstore::Effects effects;
                       effects.replies.push_back({id, tcpstore::Encoded{std::move(answer)}});
                       Settle(std::move(effects));
                     },
                 .cancelled =
                     [this](ConnectionId id) {
                       tcpstore::Effects effects;
                       Handle(id, tcpstore::CancelWait{}, effects);
                       Settle(std::move(effects));
                     },
                 .left =
                     [this](ConnectionId id, tcpstore::Effects& effects) {
                       store_.Left(id, effects);
                       passed_.Replied(effects);
                       Settle(std::move(effects));
                     },
                 .answer = std::move(answered)}) {
    for (const tcpstore::Record& record : durable) {
      EXPECT_TRUE(store_.Apply(record).ok());
      if (mutant_ != Mutant::kNothingRestored) passed_.Apply(record);
    }
  }

  PassedTorchCommands& passed() { return passed_; }
  tcpstore::Store& store() { return store_; }

  // The oldest that waits becomes durable; false: nothing waits.
  bool Commit(std::vector<tcpstore::Record>& durable) {
    if (held_.empty()) return false;
    const tcpstore::Effects effects = std::move(held_.front());
    held_.pop_front();
    durable.insert(durable.end(), effects.records.begin(), effects.records.end());
    if (mutant_ != Mutant::kToldBeforeDurable) passed_.CarryOut(effects);
    return true;
  }
  // It is killed: of the oldest step that waits, some entries may have reached the disk.
  void Die(Random& random, std::vector<tcpstore::Record>& durable) {
    if (held_.empty()) return;
    const std::vector<tcpstore::Record>& records = held_.front().records;
    size_t reached = random.Below(static_cast<uint32_t>(records.size()) + 1);
    // An entry that ends with this one would not have been long enough to end.
    const bool joined = mutant_ != Mutant::kRecordBehind;
    while (joined && reached > 0 && reached < records.size() &&
           std::holds_alternative<tcpstore::record::CommandDone>(records[reached - 1])) {
      --reached;
    }
    durable.insert(durable.end(), records.begin(),
                   records.begin() + static_cast<ptrdiff_t>(reached));
  }

 private:
  void Handle(ConnectionId id, tcpstore::Command command, tcpstore::Effects& effects) {
    if (auto* barrier = std::get_if<tcpstore::Barrier>(&command);
        barrier != nullptr && mutant_ == Mutant::kBarrierAgain) {
      barrier->arrived = false;
    }
    store_.Handle(Time(), id, command, effects);
    if (mutant_ == Mutant::kNoAnswerKept && tcpstore::HasAnswer(command)) return;
    passed_.Handled(id, command, effects);
    if (mutant_ != Mutant::kRecordBehind) return;
    std::stable_partition(effects.records.begin(), effects.records.end(), [](const auto& record) {
      return !std::holds_alternative<tcpstore::record::CommandDone>(record);
    });
  }
  void Settle(tcpstore::Effects&& effects) {
    if (mutant_ == Mutant::kToldBeforeDurable) passed_.CarryOut(effects);
    if (!effects.records.empty() || !held_.empty()) return held_.push_back(std::move(effects));
    if (mutant_ != Mutant::kToldBeforeDurable) passed_.CarryOut(effects);
  }

  const Mutant mutant_;
  const tcpstore::StoreOptions options_ = {.keeps = true};
  tcpstore::Store store_;
  std::deque<tcpstore::Effects> held_;
  PassedTorchCommands passed_;
};

constexpr size_t kAgents = 2;
constexpr size_t kClientsPerAgent = 2;
constexpr size_t kClients = kAgents * kClientsPerAgent;
constexpr int kSteps = 25;
constexpr size_t kLongBytes =
    TorchStream::kTogetherBytesMax;  // a command with such a value is long

// One of torch's clients: it says what it says next, and checks what it is answered.
class Client {
 public:
  explicit Client(size_t index) : index_(index) {}

  bool done() const { return step_ == kSteps && expected_.empty(); }
  // It says nothing before it is answered. Torch's own waits for each answer; others need not.
  bool waits() const {
    return step_ == kSteps || expected_.size() >= kAheadMax ||
           (!expected_.empty() && IsOfAWait(expected_.back()));
  }
  bool may_cancel() const { return !expected_.empty() && expected_.back() == kWaits; }

  struct Said {
    Kind kind;
    std::string bytes;
  };
  Said Next(Random& random) {
    const std::string own = absl::StrCat("/own/", index_);
    const int step = step_++;
    if (step % 10 == 9) {  // all meet
      expected_.emplace_back(kMeets);
      return {Kind::kWait, "\x12" + Text(absl::StrCat("/meet/", step)) + Number(kClients)};
    }
    switch (random.Below(9)) {
      case 0:
        set_ = absl::StrCat(step);
        if (random.OneIn(3)) set_.resize(kLongBytes, 'x');
        return {Kind::kTell, SetBytes(own, set_)};
      case 1:
        ++appended;
        return {Kind::kTell, "\x09" + Text("/log") + Text("x")};
      case 2:
        pushed.push_back(absl::StrCat(index_, ":", step));
        return {Kind::kTell, PushBytes("/queue", pushed.back())};
      case 3:
        expected_.emplace_back(kPopped);
        return {Kind::kAsk, PopBytes("/queue")};
      case 4:
        expected_.push_back(Number(++added_));
        return {Kind::kAsk, AddBytes(absl::StrCat("/count/", index_), 1)};
      case 5:
        ++added_to_all;
        expected_.emplace_back(kSum);
        return {Kind::kAsk, AddBytes("/count", 1)};
      case 6:
        expected_.push_back(Text(set_));
        return {Kind::kAsk, GetBytes(own)};
      case 7: {
        const std::string turn = absl::StrCat(step);
        expected_.push_back(Text(turn));
        const std::string before = std::exchange(turn_, turn);
        return {Kind::kAsk,
                "\x02" + Text(absl::StrCat("/turn/", index_)) + Text(before) + Text(turn)};
      }
      default:
        expected_.emplace_back(kWaits);
        return {Kind::kWait, WaitBytes(absl::StrCat("/own/", random.Below(kClients)))};
    }
  }
  // Its patience with a wait is over.
  Said Cancel() {
    expected_.emplace_back(kCancelled);
    return {Kind::kCancel, "\x0c"};
  }
  // Empty: as it should be.
  std::string Hears(const std::string& bytes) {
    if (expected_.empty()) return "an answer that was not asked for";
    const std::string expected = std::move(expected_.front());
    expected_.pop_front();
    if (expected == kWaits && bytes == "\x01" && !expected_.empty()) {
      expected_.pop_front();  // it was taken back, which is the only answer
      return "";
    }
    if (IsOfAWait(expected)) {
      const std::string right(1, expected == kCancelled ? '\1' : '\0');
      return bytes == right ? "" : absl::StrCat("another answer to a ", expected);
    }
    if (expected == kSum) {
      if (bytes.size() != 8) return "no sum";
      return sums.insert(bytes).second ? "" : "the same sum twice";
    }
    if (expected == kPopped) {
      if (bytes.size() < 8) return "no length";
      if (bytes.size() > 16) popped.push_back(bytes.substr(16));
      return "";
    }
    return bytes == expected ? "" : absl::StrCat("another answer, by step ", step_);
  }

  int64_t added_to_all = 0;
  int64_t appended = 0;
  std::vector<std::string> pushed;
  std::vector<std::string> popped;
  std::set<std::string> sums;

 private:
  static constexpr size_t kAheadMax = 3;
  // What is expected where the bytes are not known.
  static constexpr char kWaits[] = "wait";
  static constexpr char kMeets[] = "meet";
  static constexpr char kCancelled[] = "cancelled";
  static constexpr char kSum[] = "sum";
  static constexpr char kPopped[] = "popped";
  static bool IsOfAWait(const std::string& expected) {
    return expected == kWaits || expected == kMeets || expected == kCancelled;
  }

  const size_t index_;
  int step_ = 0;
  std::deque<std::string> expected_;
  int64_t added_ = 0;
  std::string set_;
  std::string turn_;
};

class World {
 public:
  World(uint64_t seed, Mutant mutant) : random_(seed), mutant_(mutant) {
    for (size_t i = 0; i < kClients; ++i) clients_.emplace_back(i);
    Start();
  }

  // Empty: all went well.
  std::string Run() {
    for (int turn = 0; turn < 200'000 && wrong_.empty(); ++turn) {
      // In the end nothing fails any more.
      Step(/*fails=*/turn < 4'000);
      const bool done = std::all_of(clients_.begin(), clients_.end(),
                                    [](const Client& client) { return client.done(); });
      if (done && Idle()) return wrong_.empty() ? Audit() : wrong_;
    }
    return wrong_.empty() ? "it does not end" : wrong_;
  }

 private:
  struct Request {
    uint64_t number = 0;
    uint64_t after = 0;
    std::string bytes;
    std::optional<CallId> call;  // at the server, on the link of now
    bool sent = false;
  };
  struct Connection {
    TorchStream commands;
    std::vector<Request> open;  // in order
  };
  struct Agent {
    bool linked = false;
    std::vector<Connection> connections{kClientsPerAgent};
    // In the order in which they were passed on: which connection, and its number.
    std::deque<std::pair<size_t, uint64_t>> order;
  };

  void Start() {
    server_ = std::make_unique<Server>(durable_, mutant_,
                                       [this](CallId call, absl::StatusOr<ValuePtr> answer) {
                                         answers_.emplace_back(call, std::move(answer));
                                       });
  }

  static SessionId SessionOf(size_t agent) { return {.high = 1, .low = agent + 1}; }

  void Step(bool fails) {
    switch (random_.Below(6)) {
      case 0:
        return Speak(random_.Below(kClients));
      case 1:
        return Pass(random_.Below(kAgents));
      case 2:
        return Deliver();
      case 3:
        server_->Commit(durable_);
        return;
      case 4:
        return Send(random_.Below(kAgents));
      default:
        if (!agents_[0].linked || !agents_[1].linked) Link(random_.Below(kAgents));
        if (!fails) return;
        if (random_.OneIn(40)) Break(random_.Below(kAgents));
        if (random_.OneIn(120)) Kill();
    }
  }

  Connection& ConnectionOf(size_t client) {
    return agents_[client / kClientsPerAgent].connections[client % kClientsPerAgent];
  }

  void Speak(size_t index) {
    Client& client = clients_[index];
    Connection& to = ConnectionOf(index);
    if (client.waits()) {
      if (!client.may_cancel() || !random_.OneIn(3)) return;
      Client::Said said = client.Cancel();
      return to.commands.Push(said.kind, std::move(said.bytes));
    }
    if (!to.commands.takes_more()) return;
    Client::Said said = client.Next(random_);
    if (mutant_ == Mutant::kNoOrder && said.kind == Kind::kAsk) said.kind = Kind::kTell;
    if (mutant_ == Mutant::kLongTogether && said.bytes.size() > kLongBytes) {
      hidden_.push_back(std::exchange(said.bytes, absl::StrCat("hidden", hidden_.size())));
    }
    to.commands.Push(said.kind, std::move(said.bytes));
  }

  // What may go on, does.
  void Pass(size_t which) {
    Agent& agent = agents_[which];
    for (size_t i = 0; i < kClientsPerAgent; ++i) {
      Connection& connection = agent.connections[i];
      while (std::optional<TorchStream::Command> next = connection.commands.TakeNext()) {
        if (next->kind == Kind::kCancel) {
          Withdraw(connection, next->number);
          Tell(which * kClientsPerAgent + i, "\x01");
          continue;
        }
        size_t hidden = 0;
        if (absl::StartsWith(next->bytes, "hidden") &&
            absl::SimpleAtoi(next->bytes.substr(6), &hidden)) {
          next->bytes = hidden_[hidden];
        }
        connection.open.push_back(
            {.number = next->number, .after = next->after, .bytes = std::move(next->bytes)});
        agent.order.emplace_back(i, next->number);
      }
    }
  }

  void Withdraw(Connection& connection, uint64_t number) {
    const auto found = FindOpen(connection, number);
    if (found == connection.open.end()) return;
    if (found->call) server_->passed().Left(*found->call, /*away=*/false);
    connection.open.erase(found);
  }

  static std::vector<Request>::iterator FindOpen(Connection& connection, uint64_t number) {
    return std::find_if(connection.open.begin(), connection.open.end(),
                        [number](const Request& request) { return request.number == number; });
  }

  // The next request of the agent reaches the server.
  void Send(size_t which) {
    Agent& agent = agents_[which];
    if (!agent.linked) return;
    for (auto at = agent.order.begin(); at != agent.order.end();) {
      Connection& connection = agent.connections[at->first];
      const auto request = FindOpen(connection, at->second);
      if (request == connection.open.end()) {
        at = agent.order.erase(at);
        continue;
      }
      // A long message comes in parts, and others between them.
      const bool is_long = request->bytes.size() > kLongBytes;
      if (request->sent || (is_long && random_.OneIn(2))) {
        ++at;
        continue;
      }
      request->sent = true;
      request->call = CallId(++last_call_);
      calls_[*request->call] = {which, at->first, request->number};
      const std::string bytes = request->bytes;
      const wire::native::TorchCommand command = {.connection = at->first + 1,
                                                  .number = request->number,
                                                  .after = request->after,
                                                  .command = {.view = bytes}};
      return server_->passed().Begin(*request->call, SessionOf(which), "peer", command);
    }
  }

  // An answer reaches its client.
  void Deliver() {
    if (answers_.empty()) return;
    auto [call, answer] = std::move(answers_.front());
    answers_.pop_front();
    const auto found = calls_.find(call);
    if (found == calls_.end()) return;  // of a link that has gone
    const auto [which, connection_index, number] = found->second;
    calls_.erase(found);
    Connection& connection = agents_[which].connections[connection_index];
    const auto request = FindOpen(connection, number);
    if (request == connection.open.end() || request->call != call) return;
    connection.open.erase(request);
    if (!answer.ok()) {
      wrong_ = answer.status().ToString();
      return;
    }
    if (!connection.commands.Answered(number)) return;
    if (*answer && !(*answer)->empty()) {
      Tell(which * kClientsPerAgent + connection_index, **answer);
    }
  }

  void Tell(size_t client, const std::string& bytes) {
    const std::string wrong = clients_[client].Hears(bytes);
    if (!wrong.empty() && wrong_.empty()) wrong_ = absl::StrCat("client ", client, ": ", wrong);
  }

  void Link(size_t which) { agents_[which].linked = true; }

  // Nothing that is on its way arrives; what was not answered will be sent again.
  void Break(size_t which) {
    Agent& agent = agents_[which];
    if (!std::exchange(agent.linked, false)) return;
    Forget(agent, /*told=*/true);
  }
  void Forget(Agent& agent, bool told) {
    for (Connection& connection : agent.connections) {
      for (Request& request : connection.open) {
        if (request.call) {
          calls_.erase(*request.call);
          if (told) server_->passed().Left(*request.call, /*away=*/true);
        }
        request.call.reset();
        request.sent = false;
      }
    }
    if (mutant_ == Mutant::kResentBackwards) std::reverse(agent.order.begin(), agent.order.end());
  }

  void Kill() {
    server_->Die(random_, durable_);
    for (Agent& agent : agents_) {
      agent.linked = false;
      Forget(agent, /*told=*/false);
    }
    answers_.clear();
    calls_.clear();
    Start();
  }

  // Nothing is under way.
  bool Idle() {
    for (size_t which = 0; which < kAgents; ++which) Pass(which);
    while (server_->Commit(durable_)) {
    }
    return answers_.empty() && std::all_of(agents_.begin(), agents_.end(), [](const Agent& agent) {
             return std::all_of(
                 agent.connections.begin(), agent.connections.end(),
                 [](const Connection& connection) { return connection.open.empty(); });
           });
  }

  std::string Value(const std::string& key) {
    tcpstore::Effects effects;
    server_->store().Connected(ConnectionId(1), "audit");
    server_->store().Handle(Time(), ConnectionId(1), tcpstore::Get{key}, effects);
    const auto& value = std::get<tcpstore::Value>(effects.replies.at(0).answer).value;
    tcpstore::Effects ignored;
    server_->store().Left(ConnectionId(1), ignored);
    return value ? *value : "";
  }

  // What the store holds is what the clients did.
  std::string Audit() {
    int64_t added_to_all = 0;
    size_t appended = 0;
    std::multiset<std::string> queued;
    std::set<std::string> sums;
    size_t sums_heard = 0;
    for (const Client& client : clients_) {
      added_to_all += client.added_to_all;
      appended += static_cast<size_t>(client.appended);
      queued.insert(client.pushed.begin(), client.pushed.end());
      sums.insert(client.sums.begin(), client.sums.end());
      sums_heard += client.sums.size();
    }
    for (const Client& client : clients_) {
      for (const std::string& value : client.popped) {
        const auto found = queued.find(value);
        if (found == queued.end()) return absl::StrCat(value, " was popped twice");
        queued.erase(found);
      }
    }
    if (sums.size() != sums_heard) return "two clients were told the same sum";
    if (added_to_all > 0 && Value("/count") != absl::StrCat(added_to_all)) return "a wrong sum";
    if (Value("/log").size() != appended) return "something was appended twice or not at all";
    for (int step = 9; step < kSteps; step += 10) {
      if (Value(absl::StrCat("/meet/", step)) != absl::StrCat(kClients)) return "a wrong count";
    }
    std::multiset<std::string> left;
    for (const tcpstore::Record& record : server_->store().Snapshot()) {
      if (const auto* pushed = std::get_if<tcpstore::record::QueuePushed>(&record)) {
        left.insert(*pushed->value);
      }
    }
    return left == queued ? "" : "another queue";
  }

  Random random_;
  const Mutant mutant_;
  std::vector<tcpstore::Record> durable_;
  std::vector<Client> clients_;
  std::vector<Agent> agents_{kAgents};
  std::unique_ptr<Server> server_;
  uint64_t last_call_ = 0;
  std::map<CallId, std::tuple<size_t, size_t, uint64_t>> calls_;
  std::deque<std::pair<CallId, absl::StatusOr<ValuePtr>>> answers_;
  std::string wrong_;
  std::vector<std::string> hidden_;  // of a mutant: long commands whose length the agent ignores
};

uint64_t Seeds() {
  const char* const given = std::getenv("LOCKSTEP_TORCH_SIMULATION_SEEDS");
  return given == nullptr ? 1000 : std::strtoull(given, nullptr, 10);
}

TEST(TorchSimulation, EachCommandTakesEffectOnce) {
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    ASSERT_EQ(World(seed, Mutant::kNone).Run(), "") << "seed " << seed;
  }
}

class TorchMutants : public ::testing::TestWithParam<Mutant> {};

TEST_P(TorchMutants, AreCaught) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    if (!World(seed, GetParam()).Run().empty()) return;
  }
  FAIL() << "nothing was wrong in 100 seeds";
}

INSTANTIATE_TEST_SUITE_P(Each, TorchMutants,
                         ::testing::Values(Mutant::kNoAnswerKept, Mutant::kNothingRestored,
                                           Mutant::kRecordBehind, Mutant::kBarrierAgain,
                                           Mutant::kNoOrder, Mutant::kResentBackwards,
                                           Mutant::kLongTogether, Mutant::kToldBeforeDurable));

}  // namespace
}  // namespace lockstep::agent
