#include "lockstep/platform/etcd/etcd_simulation.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/etcd/election.h"
#include "lockstep/platform/etcd/etcd_model.h"
#include "lockstep/platform/etcd/fenced_log.h"
#include "lockstep/platform/etcd/state_reader.h"
#include "lockstep/platform/journal/framing.h"

namespace lockstep::etcd {
namespace {

constexpr int kServers = 3;
constexpr absl::Duration kFaultsFor = absl::Seconds(60);
constexpr absl::Duration kQuietFor = absl::Seconds(30);
constexpr absl::Duration kTtl = absl::Seconds(3);
const Layout kLayout("sim");

class World;

// What a client asks: to append a number of its own, or for all numbers.
struct Call {
  uint64_t number = 0;  // 0: a read
  uint64_t acknowledged_before = 0;
};

// What is in an entry.
absl::Status AddNumbers(std::string_view entry, std::vector<uint64_t>& to) {
  for (absl::string_view each :
       absl::StrSplit(absl::string_view(entry.data(), entry.size()), ' ', absl::SkipEmpty())) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(each, &number)) return absl::DataLossError("no number");
    to.push_back(number);
  }
  return absl::OkStatus();
}

// One life of a server. It appends one row at a time, of what has been asked meanwhile.
class SimulatedServer {
 public:
  SimulatedServer(World& world, int index, int64_t life);

  void Step();
  void Ask(Call call) { calls_.waiting.push_back(std::move(call)); }
  bool leads() const { return log_ != nullptr; }
  bool over() const { return over_; }
  Revision epoch() const { return election_.epoch(); }
  void Saw(Time now, const KeyValue& leader) { election_.Changed(now, leader); }
  void KnowsDead(Time now, Revision leader) { election_.Died(now, leader); }
  std::optional<Revision> LeaderSeen() const {
    if (!election_.leader()) return std::nullopt;
    return election_.leader()->modified;
  }
  bool stopped = false;

 private:
  void AskElection();
  void TakeElection(Time asked, const Election::Answer& answer);
  // False: it has to begin anew.
  bool Follow();
  void Lead();
  void Write();
  void Send();
  void Answered(const absl::StatusOr<TransactionResult>& answer);
  void Release();
  std::string RowOfTaken() const;

  World& world_;
  const int index_;
  Election election_;
  bool over_ = false;
  std::unique_ptr<FencedLog> log_;       // while it leads
  std::unique_ptr<StateReader> reader_;  // follows the log until it leads
  Time follow_at_;
  std::vector<uint64_t> numbers_;  // its state: all that is in the log, and what is being appended
  struct {
    std::vector<Call> waiting;
    std::vector<Call> taken;  // that depend on what is pending
    std::string rest;         // of their row, that has to be written yet
    bool in_flight = false;
  } calls_;
  struct {
    bool begun = false;
    uint64_t at = 8;
  } snapshot_;
};

class World {
 public:
  World(uint64_t seed, EtcdMutation mutation, bool traces)
      : mutation(mutation), random_(seed), traces_(traces) {}

  EtcdRun Run();

  Time now() const { return clock_.now; }
  uint64_t Draw(uint64_t below) { return random_() % below; }
  bool Chance(int percent) { return Draw(100) < static_cast<uint64_t>(percent); }
  void At(absl::Duration after, std::function<void()> what) {
    clock_.events.emplace(std::make_pair(clock_.now + after, ++clock_.last), std::move(what));
  }
  absl::Duration Delay() {
    if (Chance(faults_.quiet ? 0 : 3)) return absl::Milliseconds(Draw(4000));
    return absl::Microseconds(200 + Draw(3000));
  }
  void Say(const std::string& text) {
    if (traces_)
      absl::StrAppend(&run_.trace, absl::ToDoubleSeconds(clock_.now - Time()), " ", text, "\n");
  }
  void Violate(const std::string& text) {
    Say("VIOLATION " + text);
    run_.violations.push_back(text);
  }

  // Brings a request to etcd and its answer back; either may be lost, and it may come twice.
  void Send(int server, std::function<absl::Status()> apply,
            std::function<void(absl::Status)> answered);
  void OnceItRuns(const std::shared_ptr<SimulatedServer>& server, std::function<void()> deliver);
  void Acknowledge(const Call& call, const std::vector<uint64_t>& numbers, size_t count);
  void TookOver(int server, Revision epoch);

  bool CutOff(int server) const { return faults_.cut_until[server] > clock_.now; }

  EtcdModel etcd;
  const EtcdMutation mutation;
  EtcdRun& run() { return run_; }

 private:
  void Start(int server);
  void Faults();
  void Clients();
  void Watchers();
  void Check();

  std::mt19937_64 random_;
  const bool traces_;
  EtcdRun run_;
  struct {
    Time now;
    uint64_t last = 0;
    std::map<std::pair<Time, uint64_t>, std::function<void()>> events;
  } clock_;
  std::shared_ptr<SimulatedServer> servers_[kServers];
  int64_t lives_ = 0;
  struct {
    bool quiet = false;  // there are none any more
    Time cut_until[kServers];
    Time etcd_away_until;
  } faults_;
  Revision watched_ = 1;
  struct {
    uint64_t next = 1;
    std::set<uint64_t> acknowledged;
  } numbers_;
  struct {
    Revision last_epoch = 0;
    std::map<Revision, const SimulatedServer*> epochs;  // who led with each
    bool disturbed = false;  // since the last take-over: something that is a reason for another
  } leaders_;
};

SimulatedServer::SimulatedServer(World& world, int index, int64_t life)
    : world_(world),
      index_(index),
      election_({.layout = kLayout,
                 .identity = absl::StrCat("s", index, "/", life),
                 .first_lease = life * 1000 + 1,
                 .ttl = kTtl,
                 .seizure_pause = absl::Seconds(2)}) {}

void SimulatedServer::Step() {
  if (stopped || over_) return;
  AskElection();
  if (election_.role() == Election::Role::kOver) {
    over_ = true;
    world_.Say(absl::StrCat("s", index_, " over: ", std::string(election_.why().message())));
    return;
  }
  if (leads()) return Write();
  if (world_.now() < follow_at_ || world_.CutOff(index_)) return;
  // Some are slow.
  follow_at_ = world_.now() + absl::Milliseconds(50 + world_.Draw(world_.Chance(5) ? 5000 : 100));
  Follow();
}

void SimulatedServer::AskElection() {
  std::optional<Election::Request> request = election_.Next(world_.now());
  if (!request) return;
  const Time asked = world_.now();
  auto answer = std::make_shared<Election::Answer>();
  const auto apply = [this_world = &world_, answer, request = *request]() -> absl::Status {
    World& world = *this_world;
    if (const auto* grant = std::get_if<Election::Grant>(&request)) {
      answer->ttl = grant->ttl;
      return world.etcd.GrantLease(world.now(), grant->lease, grant->ttl);
    }
    if (const auto* renew = std::get_if<Election::Renew>(&request)) {
      return world.etcd.RenewLease(world.now(), renew->lease);
    }
    if (const auto* revoke = std::get_if<Election::Revoke>(&request)) {
      return world.etcd.RevokeLease(revoke->lease);
    }
    auto result = world.etcd.Commit(std::get<Transaction>(request));
    if (result.ok()) answer->result = *std::move(result);
    return result.status();
  };
  world_.Send(index_, apply, [this, asked, answer](absl::Status status) {
    answer->status = std::move(status);
    TakeElection(asked, *answer);
  });
}

void SimulatedServer::TakeElection(Time asked, const Election::Answer& answer) {
  const bool led = election_.role() == Election::Role::kLeader;
  election_.Take(asked, world_.now(), answer);
  if (!led && election_.role() == Election::Role::kLeader) Lead();
}

// As a server that stands by does, and once more when it leads: nobody else appends from then on.
bool SimulatedServer::Follow() {
  const auto ask = [this](const Transaction& transaction) {
    return world_.etcd.Commit(transaction);
  };
  const auto apply = [this](std::string_view entry) { return AddNumbers(entry, numbers_); };
  absl::Status status;
  if (reader_ == nullptr) {
    numbers_.clear();
    reader_ = std::make_unique<StateReader>(kLayout);
    status = reader_->Read(ask, apply);
  } else {
    status = reader_->Follow(ask, apply);
  }
  if (status.ok()) return true;
  over_ = true;
  if (!absl::IsAborted(status)) {
    world_.Violate(absl::StrCat("the state cannot be read: ", std::string(status.message())));
  }
  return false;
}

void SimulatedServer::Lead() {
  world_.TookOver(index_, election_.epoch());
  if (!Follow()) return;
  log_ = std::make_unique<FencedLog>(kLayout, election_.epoch(), reader_->log());
  snapshot_.at = reader_->log().last + 4 + world_.Draw(8);
}

std::string SimulatedServer::RowOfTaken() const {
  std::string entry = journal::NewEntry();
  for (const Call& call : calls_.taken) {
    if (call.number != 0) absl::StrAppend(&entry, call.number, " ");
  }
  journal::SealEntry(entry).IgnoreError();
  return entry;
}

void SimulatedServer::Write() {
  if (calls_.in_flight) return;
  if (world_.mutation == EtcdMutation::kUnconfirmedRead) {
    for (const Call& call : calls_.waiting) {
      if (call.number == 0) world_.Acknowledge(call, numbers_, numbers_.size());
    }
    std::erase_if(calls_.waiting, [](const Call& call) { return call.number == 0; });
  }
  calls_.taken = std::exchange(calls_.waiting, {});
  const bool writes = std::any_of(calls_.taken.begin(), calls_.taken.end(),
                                  [](const Call& call) { return call.number != 0; });
  if (log_->has_cut_rows()) {
    calls_.waiting = std::exchange(calls_.taken, {});
    log_->DeleteSome();
  } else if (writes) {
    for (const Call& call : calls_.taken) {
      if (call.number != 0) numbers_.push_back(call.number);
    }
    if (world_.mutation == EtcdMutation::kAnsweredTooEarly) Release();
    const std::string row = RowOfTaken();
    // Some are long.
    const size_t first = world_.Chance(30) ? row.size() / 2 : row.size();
    calls_.rest = row.substr(first);
    log_->AppendRow(row.substr(0, first), /*more=*/!calls_.rest.empty());
  } else if (!calls_.taken.empty()) {
    log_->Confirm();
  } else if (log_->has_leftovers() && !snapshot_.begun) {
    log_->DeleteSome();
  } else if (!snapshot_.begun && log_->log().last >= snapshot_.at) {
    log_->BeginSnapshot();
    snapshot_.begun = true;
    std::string piece = journal::NewEntry();
    for (const uint64_t number : numbers_) absl::StrAppend(&piece, number, " ");
    journal::SealEntry(piece).IgnoreError();
    log_->AppendPiece(piece, /*last=*/false);
  } else if (snapshot_.begun) {
    log_->AppendPiece(
        journal::EncodeSnapshotEnd(
            {.pieces = log_->pieces(), .entries = 1, .row_checksum = log_->row_checksum()}),
        /*last=*/true);
    snapshot_.begun = false;
    snapshot_.at = log_->log().last + 4 + world_.Draw(8);
    ++world_.run().snapshots;
  } else {
    return;
  }
  Send();
}

void SimulatedServer::Send() {
  calls_.in_flight = true;
  Transaction transaction = log_->transaction();
  if (world_.mutation == EtcdMutation::kNoFence)
    transaction.compare.erase(transaction.compare.begin());
  auto result = std::make_shared<TransactionResult>();
  world_.Send(
      index_,
      [this_world = &world_, result, transaction = std::move(transaction)]() -> absl::Status {
        auto committed = this_world->etcd.Commit(transaction);
        if (committed.ok()) *result = *std::move(committed);
        return committed.status();
      },
      [this, result](const absl::Status& status) {
        calls_.in_flight = false;
        if (status.ok()) return Answered(*result);
        Answered(status);
      });
}

void SimulatedServer::Answered(const absl::StatusOr<TransactionResult>& answer) {
  const absl::Status status = log_->Take(answer);
  if (status.ok() && !calls_.rest.empty()) {
    log_->AppendRow(std::exchange(calls_.rest, {}), /*more=*/false);
    return Send();
  }
  if (status.ok()) return Release();
  if (IsUndecided(status)) {
    if (election_.role() != Election::Role::kLeader) {
      over_ = true;
      return;
    }
    if (world_.mutation == EtcdMutation::kAppendedAgain) {
      std::vector<Call> again = std::exchange(calls_.taken, {});
      snapshot_.begun = false;
      calls_.rest.clear();
      reader_ = nullptr;
      Lead();
      calls_.waiting.insert(calls_.waiting.begin(), again.begin(), again.end());
      return;
    }
    return Send();
  }
  if (!absl::IsFailedPrecondition(status)) {
    world_.Violate(absl::StrCat("s", index_, ": ", std::string(status.message())));
  }
  world_.Say(absl::StrCat("s", index_, " fenced: ", std::string(status.message())));
  over_ = true;
}

void SimulatedServer::Release() {
  for (const Call& call : std::exchange(calls_.taken, {})) {
    world_.Acknowledge(call, numbers_, numbers_.size());
  }
}

// A stopped server reads what came for it when it goes on.
void World::OnceItRuns(const std::shared_ptr<SimulatedServer>& server,
                       std::function<void()> deliver) {
  if (!server->stopped) return deliver();
  At(absl::Milliseconds(50), [this, server, deliver] { OnceItRuns(server, deliver); });
}

void World::Send(int server, std::function<absl::Status()> apply,
                 std::function<void(absl::Status)> answered) {
  const std::shared_ptr<SimulatedServer> asks = servers_[server];
  // An answer finds its server only while that lives and runs.
  const auto answer = [this, asks, server, answered](absl::Status status) {
    std::function<void()> deliver = [this, asks, server, answered, status]() {
      if (servers_[server] != asks || asks->over()) return;
      answered(status);
    };
    OnceItRuns(asks, deliver);
  };
  const absl::Duration patience = absl::Milliseconds(500);
  auto done = std::make_shared<bool>(false);
  const auto arrive = [this, apply, answer, done, server](bool answers) {
    if (faults_.etcd_away_until > clock_.now) return;
    absl::Status status = apply();
    if (!answers || CutOff(server)) return;
    At(Delay(), [this, answer, done, status, server] {
      if (*done || CutOff(server)) return;
      *done = true;
      answer(status);
    });
  };
  const bool lost = CutOff(server) || (!faults_.quiet && Chance(2));
  const bool answer_lost = !faults_.quiet && Chance(2);
  if (!lost) At(Delay(), [arrive, answer_lost] { arrive(!answer_lost); });
  // It lingers somewhere, and comes again.
  if (!faults_.quiet && Chance(2)) {
    At(absl::Milliseconds(Draw(8000)), [arrive] { arrive(false); });
  }
  At(patience, [answer, done] {
    if (*done) return;
    *done = true;
    answer(absl::DeadlineExceededError("no answer"));
  });
}

void World::Acknowledge(const Call& call, const std::vector<uint64_t>& numbers, size_t count) {
  if (call.number != 0) {
    numbers_.acknowledged.insert(call.number);
    ++run_.appended;
    return;
  }
  ++run_.reads;
  uint64_t known = 0;
  for (size_t i = 0; i < count; ++i) known += numbers_.acknowledged.contains(numbers[i]);
  if (known < call.acknowledged_before) {
    Violate(absl::StrCat("a read shows ", known, " numbers of ", call.acknowledged_before,
                         " that had been acknowledged before it"));
  }
}

void World::TookOver(int server, Revision epoch) {
  Say(absl::StrCat("s", server, " leads with epoch ", epoch));
  ++run_.takeovers;
  const auto led = leaders_.epochs.emplace(epoch, servers_[server].get()).first;
  if (led->second != servers_[server].get()) Violate(absl::StrCat("two lead with epoch ", epoch));
  // Who hears late that it led once is fenced by the one after it.
  if (epoch <= leaders_.last_epoch) return;
  if (leaders_.last_epoch != 0 && !leaders_.disturbed)
    Violate("a leader was replaced that nothing had happened to");
  leaders_.disturbed = !faults_.quiet;
  leaders_.last_epoch = epoch;
}

void World::Start(int server) {
  ++lives_;
  servers_[server] = std::make_shared<SimulatedServer>(*this, server, lives_);
  leaders_.disturbed = true;
}

// Kills, stops, cuts of servers; etcd that is away, or has a new leader.
void World::Faults() {
  if (clock_.now > Time() + kFaultsFor) return;
  const int server = static_cast<int>(Draw(kServers));
  switch (Draw(6)) {
    case 0: {
      Say(absl::StrCat("s", server, " is killed"));
      const bool led = servers_[server]->leads() && !servers_[server]->over();
      const Revision epoch = servers_[server]->epoch();
      servers_[server]->stopped = true;
      Start(server);
      if (led && Chance(70)) {
        for (const auto& other : servers_) other->KnowsDead(clock_.now, epoch);
      }
      break;
    }
    case 1:
      Say(absl::StrCat("s", server, " is stopped"));
      servers_[server]->stopped = true;
      At(absl::Milliseconds(Draw(6000)), [each = servers_[server]] { each->stopped = false; });
      break;
    case 2:
      Say(absl::StrCat("s", server, " is cut off"));
      faults_.cut_until[server] = clock_.now + absl::Milliseconds(Draw(6000));
      break;
    case 3:
      Say("etcd is away");
      faults_.etcd_away_until = clock_.now + absl::Milliseconds(Draw(2500));
      At(faults_.etcd_away_until - clock_.now, [this] { etcd.Rearm(clock_.now); });
      break;
    case 4:
      Say("a leader that lives is thought to be dead");
      for (const auto& each : servers_) {
        if (each->LeaderSeen()) each->KnowsDead(clock_.now, *each->LeaderSeen());
      }
      break;
    default:
      break;
  }
  leaders_.disturbed = true;
  At(absl::Milliseconds(100 + Draw(4000)), [this] { Faults(); });
}

void World::Clients() {
  const int server = static_cast<int>(Draw(kServers));
  // Whoever believes that it leads takes calls.
  if (servers_[server]->leads() && !servers_[server]->over()) {
    Call call{.acknowledged_before = numbers_.acknowledged.size()};
    if (Chance(60)) call.number = numbers_.next++;
    servers_[server]->Ask(call);
  }
  At(absl::Milliseconds(1 + Draw(60)), [this] { Clients(); });
}

void World::Watchers() {
  for (const KeyValue& event : etcd.EventsOf(kLayout.leader(), watched_)) {
    for (int i = 0; i < kServers; ++i) {
      if (CutOff(i) || servers_[i]->stopped) continue;
      At(Delay(), [this, each = servers_[i], event] { each->Saw(clock_.now, event); });
    }
  }
  watched_ = etcd.revision() + 1;
  if (mutation == EtcdMutation::kBaselessSeizure && Chance(2)) {
    for (const auto& each : servers_) {
      if (each->LeaderSeen()) each->KnowsDead(clock_.now, *each->LeaderSeen());
    }
  }
  At(absl::Milliseconds(2), [this] { Watchers(); });
}

// All that was acknowledged is in the log, once.
void World::Check() {
  StateReader reader(kLayout);
  std::vector<uint64_t> found;
  const absl::Status status =
      reader.Read([this](const Transaction& transaction) { return etcd.Commit(transaction); },
                  [&](std::string_view entry) { return AddNumbers(entry, found); });
  if (!status.ok()) {
    Violate(absl::StrCat("at the end the state cannot be read: ", std::string(status.message())));
  }
  std::map<uint64_t, int> times;
  for (const uint64_t number : found) ++times[number];
  for (const uint64_t number : numbers_.acknowledged) {
    if (times[number] == 0) Violate(absl::StrCat("number ", number, " is lost"));
  }
  for (const auto& [number, count] : times) {
    if (count > 1) Violate(absl::StrCat("number ", number, " is there ", count, " times"));
  }
}

EtcdRun World::Run() {
  etcd.Commit({.then = {Put{.key = kLayout.lineage(), .value = Encode({.id = "sim"})}}})
      .IgnoreError();
  for (int i = 0; i < kServers; ++i) Start(i);
  std::function<void()> steps = [&] {
    etcd.Expire(clock_.now);
    for (int i = 0; i < kServers; ++i) {
      servers_[i]->Step();
      if (servers_[i]->over()) Start(i);
    }
    At(absl::Milliseconds(1), steps);
  };
  At(absl::ZeroDuration(), steps);
  At(absl::Milliseconds(10), [this] { Clients(); });
  At(absl::Milliseconds(10), [this] { Watchers(); });
  At(absl::Milliseconds(500), [this] { Faults(); });
  At(kFaultsFor, [this] { faults_.quiet = true; });
  uint64_t appended_before_the_end = 0;
  At(kFaultsFor + kQuietFor / 2, [&] { appended_before_the_end = run_.appended; });
  const Time end = Time() + kFaultsFor + kQuietFor;
  while (!clock_.events.empty() && clock_.events.begin()->first.first <= end &&
         run_.violations.empty()) {
    auto event = clock_.events.extract(clock_.events.begin());
    clock_.now = event.key().first;
    event.mapped()();
  }
  if (run_.violations.empty() && run_.appended == appended_before_the_end) {
    Violate("nothing is appended any more, though nothing has gone wrong for a while");
  }
  if (run_.violations.empty()) Check();
  return std::move(run_);
}

}  // namespace

EtcdRun SimulateEtcd(uint64_t seed, EtcdMutation mutation, bool traces) {
  return World(seed, mutation, traces).Run();
}

}  // namespace lockstep::etcd
