// Two coordinators are told the same; again and again one of them dies and is made anew from
// records. Nobody must be able to tell them apart.
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/coord/coordinator.h"
#include "lockstep/testing/print_effects.h"

namespace lockstep::coord {
namespace {

constexpr int kClients = 4;
constexpr int kEvents = 400;

// What a client can tell apart by program: texts hold spans that depend on when somebody was heard.
std::string Seen(const Reply& reply) {
  if (reply.error) {
    const Error& error = *reply.error;
    return absl::StrCat(
        reply.call.value(), ": ", absl::StatusCodeToString(error.code), " ",
        std::string(ReasonName(error.reason)), " ", error.origin ? error.origin->value() : -1, " ",
        error.barrier ? absl::StrCat(error.barrier->id, "::", error.barrier->counter) : "");
  }
  if (const auto* watched = std::get_if<MembersWatched>(&reply.answer)) {
    std::string text = absl::StrCat(reply.call.value(), ": members");
    for (const MemberStatus& each : *watched->members) {
      absl::StrAppend(&text, " ", each.incarnation.value(), ":", static_cast<int>(each.state),
                      each.error ? std::string(ReasonName(each.error->reason)) : "");
    }
    return text;
  }
  return testing::PrintReply(reply);
}

std::string Seen(const CoordinatorView& view) {
  std::string text =
      absl::StrCat("attempt ", view.attempt, " ", std::string(AttemptStateName(view.state)), " ",
                   view.service.value(), " keys ", view.keys, "/", view.key_bytes);
  for (const MemberView& member : view.members) {
    absl::StrAppend(&text, "\n", member.name, " ", member.host, " ", member.pid, " ",
                    member.native ? "native" : "");
  }
  for (const ErrorView& error : view.errors) {
    absl::StrAppend(&text, "\n", error.at.nanoseconds(), " ", std::string(ReasonName(error.reason)),
                    " ", error.message, " ", error.origin, " ", error.consequence, " ",
                    error.attempt);
  }
  return text;
}

class Walk {
 public:
  explicit Walk(uint32_t seed) : random_(seed) {
    options_ = {.size = kClients,
                .heartbeat_timeout = absl::Seconds(20),
                .shutdown_timeout = random_() % 2 == 0 ? absl::Minutes(5) : absl::ZeroDuration(),
                .recoverable = random_() % 3 == 0,
                .incarnation_seed = seed};
    lives_on_ = std::make_unique<Coordinator>(options_);
    dies_ = std::make_unique<Coordinator>(options_);
    for (int i = 0; i < kClients; ++i) Renew(clients_[i], i);
  }

  void Run() {
    const int period = 3 + static_cast<int>(random_() % 25);
    for (int i = 0; i < kEvents && !::testing::Test::HasFailure(); ++i) {
      if (i % period == period - 1) Restart(random_() % 2 == 0);
      Step();
    }
    if (::testing::Test::HasFailure()) std::fputs(story_.c_str(), stderr);
  }

 private:
  struct Client {
    SessionId session;
    uint64_t number = 0;
    Incarnation incarnation;
    bool in = false;
    bool over = false;  // it has to begin a new life
    std::map<std::string, int64_t> counters;
    Event last_effect;
    uint64_t last_number = 0;  // of it; 0: there is none to ask again
  };
  struct Open {
    int client;
    SessionId session;
    uint64_t number;
    Event event;
  };

  void Tell(const Event& event) {
    absl::StrAppend(&story_, absl::FormatDuration(now_ - Time()), " ", testing::PrintEvent(event),
                    "\n");
    const Effects one = lives_on_->Handle(now_, event);
    const Effects other = dies_->Handle(now_, event);
    for (const Record& record : other.records) records_.push_back({now_, record});
    std::string seen_one;
    std::string seen_other;
    for (const Reply& reply : one.replies) absl::StrAppend(&seen_one, Seen(reply), "\n");
    for (const Reply& reply : other.replies) absl::StrAppend(&seen_other, Seen(reply), "\n");
    absl::StrAppend(&story_, seen_one);
    ASSERT_EQ(seen_one, seen_other);
    ASSERT_EQ(Seen(lives_on_->View(now_)), Seen(dies_->View(now_)));
    for (const Reply& reply : one.replies) Take(reply);
  }

  // The request of a client, under a new number or an old one.
  void Ask(int who, Event event, uint64_t number = 0) {
    const SessionId session = clients_[who].session;
    if (number == 0) number = ++clients_[who].number;
    const CallId call(++calls_);
    std::visit(
        [&](auto& e) {
          if constexpr (requires { e.caller; }) {
            e.caller = {.call = call, .session = session, .number = number};
          }
        },
        event);
    open_[call] = {who, session, number, event};
    Tell(event);
  }

  void Effect(int who, const Event& event) {
    Ask(who, event);
    clients_[who].last_effect = event;
    clients_[who].last_number = clients_[who].number;
  }

  void Take(const Reply& reply) {
    const auto found = open_.find(reply.call);
    if (found == open_.end()) return;
    const Open open = std::move(found->second);
    open_.erase(found);
    Client& client = clients_[open.client];
    if (open.session != client.session) return;  // of a former life
    if (!reply.error && std::holds_alternative<Joined>(reply.answer)) {
      client.in = true;
      polls_due_.push_back(open.client);
    } else if (std::holds_alternative<JoinJob>(open.event)) {
      client.over = true;
    }
    if (std::holds_alternative<PollForError>(open.event)) client.over = true;
    if (std::holds_alternative<LeaveJob>(open.event)) client.over = true;
    if (const auto* arrive = std::get_if<ArriveAtBarrier>(&open.event)) {
      if (const auto* passed = std::get_if<BarrierPassed>(&reply.answer); !reply.error && passed) {
        client.counters[arrive->id] = passed->counter + 1;
      } else if (reply.error && reply.error->barrier) {
        client.counters[arrive->id] = reply.error->barrier->counter + 1;
      }
    }
  }

  void Renew(Client& client, int who) {
    client = {};
    client.session = {.high = 77, .low = ++sessions_};
    client.incarnation = Incarnation(1000 + sessions_);
    Tell(OpenSession{.call = CallId(++calls_), .session = client.session, .peer = "10.0.0.1:1"});
    JoinJob join{.incarnation = client.incarnation,
                 .host = absl::StrCat("host-", who),
                 .pid = 100 + static_cast<int64_t>(sessions_)};
    if (random_() % 3 != 0) join.index = who;
    Ask(who, join);
  }

  // The link of a client breaks, and what it waits for.
  void Break(int who, bool silent, std::vector<Open>* lost) {
    for (auto it = open_.begin(); it != open_.end();) {
      if (it->second.client != who) {
        ++it;
        continue;
      }
      const CallId call = it->first;
      if (lost != nullptr) lost->push_back(it->second);
      it = open_.erase(it);
      Tell(CallLeft{call});
    }
    Tell(SessionBroke{.session = clients_[who].session, .silent = silent});
  }

  void Resume(int who, const std::vector<Open>& lost) {
    Tell(OpenSession{.call = CallId(++calls_),
                     .session = clients_[who].session,
                     .resume = true,
                     .peer = "10.0.0.1:1"});
    for (const Open& each : lost) Ask(who, each.event, each.number);
  }

  void Advance(absl::Duration span) {
    const Time end = now_ + span;
    while (!::testing::Test::HasFailure()) {
      const Time next = std::min(lives_on_->NextDeadline(), dies_->NextDeadline());
      if (next > end) break;
      now_ = std::max(now_, next);
      Tell(DeadlineReached{});
    }
    now_ = end;
  }

  void Restart(bool from_snapshot) {
    // Who is about to be lost would be given more time by a server that has just come up.
    Advance(absl::Seconds(2));
    std::vector<Open> lost[kClients];
    for (int i = 0; i < kClients; ++i) Break(i, false, &lost[i]);
    absl::StrAppend(&story_, from_snapshot ? "RESTART from a snapshot\n" : "RESTART from all\n");
    if (from_snapshot) records_ = dies_->Snapshot();
    dies_ = std::make_unique<Coordinator>(options_);
    for (const TimedRecord& record : records_) {
      const absl::Status applied = dies_->Apply(record.at, record.record);
      ASSERT_TRUE(applied.ok()) << applied.ToString();
      absl::StrAppend(&story_, "  ", testing::PrintRecord(record.record), "\n");
    }
    const Effects effects = dies_->Handle(now_, Restored{});
    ASSERT_TRUE(effects.replies.empty());
    for (const Record& record : effects.records) records_.push_back({now_, record});
    for (int i = 0; i < kClients; ++i) Resume(i, lost[i]);
  }

  std::string Key() { return absl::StrCat("k", random_() % 4); }

  void Step() {
    for (int who : std::exchange(polls_due_, {})) Ask(who, PollForError{});
    const int who = static_cast<int>(random_() % kClients);
    Client& client = clients_[who];
    if (client.over && random_() % 2 == 0) {
      if (random_() % 2 == 0) {
        Ask(who, CloseSession{});
      } else {
        Break(who, false, nullptr);
        Advance(absl::Seconds(2));
      }
      return Renew(client, who);
    }
    switch (random_() % 20) {
      case 0:
      case 1:
        return Effect(who, SetKey{.key = Key(),
                                  .value = absl::StrCat(random_() % 100),
                                  .overwrite = random_() % 2 == 0,
                                  .lifetime = {.with_member = random_() % 4 == 0}});
      case 2:
      case 3:
        return Effect(who, IncrementKey{.key = "n", .increment = 1});
      case 4:
        return Effect(who, MaxKey{.key = "m", .number = static_cast<int64_t>(random_() % 50)});
      case 5: {
        CompareAndSetKey swap{.key = Key(), .value = "swapped"};
        swap.expected.absent = true;
        return Effect(who, swap);
      }
      case 6:
        return Effect(who, DeleteKey{.key = Key()});
      case 7:
        return Ask(who, ListKeys{});
      case 8:
        return Ask(who, GetKey{.key = Key()});
      case 9:
      case 10:
      case 11: {
        const std::string id = absl::StrCat("b", random_() % 2);
        return Ask(who, ArriveAtBarrier{
                            .id = id, .counter = client.counters[id], .timeout = absl::Seconds(5)});
      }
      default:
        return StepWithoutKeys(who, client);
    }
  }

  void StepWithoutKeys(int who, Client& client) {
    switch (random_() % 8) {
      case 0:
        if (random_() % 4 != 0 || !client.in) return;
        return Effect(who, ReportError{.code = absl::StatusCode::kInternal, .message = "broken"});
      case 1:
        if (random_() % 4 != 0 || !client.in) return;
        return Ask(who, LeaveJob{});
      case 2:
        if (client.last_number == 0) return;
        return Ask(who, client.last_effect, client.last_number);
      case 3:
        client.last_number = 0;
        return Tell(AnsweredThrough{.session = client.session, .number = client.number});
      case 4: {
        std::vector<Open> lost;
        Break(who, random_() % 2 == 0, &lost);
        return Resume(who, lost);
      }
      case 5: {
        std::vector<MemberIndex> all;
        for (int i = 0; i < kClients; ++i) all.emplace_back(i);
        return Ask(who, GetMemberStates{.members = all});
      }
      case 6:
        Tell(ProcessStarted{.member = MemberIndex(who), .host = "h", .pid = ++pids_});
        if (random_() % 4 == 0) Tell(RunBegan{.size = who});
        if (random_() % 2 == 0) Tell(ProcessStopped{.member = MemberIndex(who), .pid = pids_});
        return;
      default:
        for (int i = 0; i < kClients; ++i) {
          if (clients_[i].in) Ask(i, ReportProgress{.step = static_cast<int64_t>(calls_)});
        }
        return Advance(absl::Milliseconds(random_() % 3000));
    }
  }

  std::mt19937 random_;
  CoordinatorOptions options_;
  std::unique_ptr<Coordinator> lives_on_;
  std::unique_ptr<Coordinator> dies_;
  std::vector<TimedRecord> records_;  // of the one that dies
  Time now_ = Time() + absl::Seconds(1);
  Client clients_[kClients];
  std::map<CallId, Open> open_;
  std::vector<int> polls_due_;
  uint64_t calls_ = 0;
  uint64_t sessions_ = 0;
  int64_t pids_ = 0;
  std::string story_;
};

TEST(RecordsWalk, NobodyCanTellThatTheServerDied) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Walk(seed).Run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep::coord
