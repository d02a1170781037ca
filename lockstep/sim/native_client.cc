#include "lockstep/sim/native_client.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/sim/native_simulation.h"

namespace lockstep::sim {
namespace {

using coord::Reason;
using Kind = KeyOperation::Kind;

constexpr int kRows = 2;

}  // namespace

// --- The session ---

NativeSession::NativeSession(Schedule& schedule, NativeServer& server, Random random, SessionId id)
    : schedule_(schedule), server_(server), random_(random), id_(id) {}

void NativeSession::Request(coord::Event event, Done done) {
  if (dead_) return;
  const uint64_t number = ++last_number_;
  open_[number] = {event, std::move(done)};
  if (opened_) server_.Send(link_, id_, number, std::move(event));
}

void NativeSession::Dial() {
  if (dead_ || link_ != 0) return;
  const uint64_t dial = ++dial_;
  link_ = server_.Dial(
      {.answered = [this, dial](uint64_t number,
                                const coord::Reply& reply) { Answered(dial, number, reply); },
       .broke = [this, dial] { Broke(dial); }});
  if (link_ == 0) {
    ++tries_;
    const absl::Duration most =
        std::min(absl::Milliseconds(20) * (1 << std::min(tries_, 6)), absl::Seconds(1));
    schedule_.After(random_.Between(absl::Milliseconds(1), most), [this] { Dial(); });
    return;
  }
  tries_ = 0;
  server_.Send(link_, id_, 0,
               coord::OpenSession{.session = id_, .resume = ever_opened_, .who = "sim"});
}

void NativeSession::Broke(uint64_t dial) {
  if (dial != dial_ || dead_) return;
  link_ = 0;
  opened_ = false;
  schedule_.After(random_.Between(absl::ZeroDuration(), absl::Milliseconds(20)),
                  [this] { Dial(); });
}

void NativeSession::Answered(uint64_t dial, uint64_t number, const coord::Reply& reply) {
  if (dial != dial_ || dead_) return;
  if (number == 0) return Opened(reply);
  auto found = open_.find(number);
  if (found == open_.end()) return;
  Done done = std::move(found->second.done);
  open_.erase(found);
  if (random_.Percent(30)) {
    const uint64_t through = open_.empty() ? last_number_ : open_.begin()->first - 1;
    server_.Send(link_, id_, 0, coord::AnsweredThrough{id_, through});
  }
  done(reply);
}

void NativeSession::Opened(const coord::Reply& reply) {
  if (reply.error && closing_) return;
  if (reply.error) {
    failure_ = absl::StrCat("its session was refused: ", reply.error->message);
    return;
  }
  opened_ = true;
  ever_opened_ = true;
  for (const auto& [number, open] : open_) server_.Send(link_, id_, number, open.event);
}

void NativeSession::Close() {
  closing_ = true;
  Request(coord::CloseSession{}, [](const coord::Reply&) {});
}

void NativeSession::BreakLink(bool silent) {
  if (link_ != 0) server_.Break(link_, silent);
}

void NativeSession::Die() {
  dead_ = true;
  if (link_ != 0) server_.Break(link_, false);
}

// --- The client ---

NativeClient::NativeClient(Schedule& schedule, NativeServer& server, History& history,
                           Random random, const NativeScenario& scenario, Setup setup)
    : schedule_(schedule),
      server_(server),
      history_(history),
      random_(random),
      scenario_(scenario),
      setup_(setup),
      operations_left_(setup.operations),
      rounds_left_(setup.rounds) {}

std::string NativeClient::name() const {
  return absl::StrCat("client ", setup_.index, " life ", life_);
}

std::string NativeClient::failure() const {
  if (!failure_.empty()) return absl::StrCat(name(), ": ", failure_);
  if (alive_ && session_ != nullptr && !session_->failure().empty()) {
    return absl::StrCat(name(), ": ", session_->failure());
  }
  return "";
}

void NativeClient::Start() {
  if (alive_) Rejoin();
}

void NativeClient::Die() {
  alive_ = false;
  if (session_ != nullptr) session_->Die();
}

// A new life, in a session of its own or in the one there was.
void NativeClient::Rejoin() {
  ++life_;
  leaving_ = false;
  incarnation_ = Incarnation(random_.Next() | 1);
  rows_open_ = 0;
  counters_.clear();
  if (session_ == nullptr || setup_.new_session_per_life) {
    if (session_ != nullptr) session_->Close();
    sessions_.push_back(std::make_unique<NativeSession>(schedule_, server_, random_.Fork(),
                                                        SessionId{random_.Next(), random_.Next()}));
    session_ = sessions_.back().get();
    session_->Start();
  }
  Join();
}

void NativeClient::Request(coord::Event event, NativeSession::Done done) {
  session_->Request(std::move(event),
                    [this, life = life_, done = std::move(done)](const coord::Reply& reply) {
                      if (alive_ && life == life_ && failure_.empty()) done(reply);
                    });
}

void NativeClient::Join() {
  coord::JoinJob join{.incarnation = incarnation_, .host = "sim", .pid = setup_.index + 1};
  if (setup_.asks_for_index) join.index = setup_.index;
  Request(std::move(join), [this](const coord::Reply& reply) { Joined(reply); });
}

void NativeClient::Joined(const coord::Reply& reply) {
  if (reply.error) {
    // Whoever holds its place, or the attempt that fails, will be gone.
    schedule_.After(random_.Between(absl::Milliseconds(10), absl::Seconds(1)),
                    [this, life = life_] {
                      if (alive_ && life == life_) Rejoin();
                    });
    return;
  }
  const auto* joined = Expect<coord::Joined>(reply);
  if (joined == nullptr) return;
  service_ = joined->service;
  member_ = joined->member;
  history_.InAs(service_, member_, incarnation_.value());
  rows_open_ = kRows;
  // An attempt that fails takes everybody's rounds back to the start; keys are anybody's own.
  rounds_left_ = setup_.rounds;
  Request(coord::PollForError{}, [this](const coord::Reply& told) { Over(told); });
  Watch();
  NextOperation();
  NextRound();
}

bool NativeClient::Over(const coord::Reply& reply) {
  if (!reply.error) return false;
  const coord::Error& error = *reply.error;
  // With these nothing is wrong but what was asked.
  if (error.reason == Reason::kKeyExists || error.reason == Reason::kKeyNotFound ||
      error.reason == Reason::kConditionFailed || error.reason == Reason::kSuperseded ||
      error.reason == Reason::kMemberLeft) {
    return false;
  }
  if (!scenario_.kills) {
    failure_ =
        absl::StrCat("nothing of the kind happened, and yet it was told: ", coord::ToString(error));
    return true;
  }
  // Later, as its attempt may not be over for everybody yet.
  schedule_.After(random_.Between(absl::ZeroDuration(), absl::Milliseconds(300)),
                  [this, life = life_] {
                    if (alive_ && life == life_ && !done_) Rejoin();
                  });
  return true;
}

void NativeClient::NextOperation() {
  if (operations_left_-- <= 0) return EndRow();
  const std::string key = absl::StrCat(random_.Percent(60) ? "text/" : "number/", random_.Index(3));
  const bool text = key[0] == 't';
  if (history_.Full(service_, key)) return EndRow();
  KeyOperation operation{.who = name()};
  const std::string value = absl::StrCat(setup_.index, "-", life_, "-", operations_left_);
  coord::Event event;
  const int dice = random_.Index(text ? 6 : 3);
  if (!text && dice == 0) {
    operation.kind = Kind::kAdd;
    operation.number = random_.Between(1, 9);
    event = coord::IncrementKey{.key = key, .increment = operation.number};
  } else if (!text && dice == 1) {
    operation.kind = Kind::kMax;
    operation.number = random_.Between(1, 60);
    event = coord::MaxKey{.key = key, .number = operation.number};
  } else if (dice <= 2) {
    operation.kind = Kind::kRead;
    event = coord::TryGetKey{.key = key};
  } else if (dice == 3) {
    operation.kind = random_.Percent(50) ? Kind::kSet : Kind::kSetIfAbsent;
    operation.value = value;
    event = coord::SetKey{.key = key, .value = value, .overwrite = operation.kind == Kind::kSet};
  } else if (dice == 4) {
    operation.kind = Kind::kDelete;
    event = coord::DeleteKey{.key = key, .only_key = true};
  } else {
    operation.kind = Kind::kCompareAndSet;
    operation.value = value;
    // Sometimes what somebody has just written.
    if (random_.Percent(70)) {
      operation.expected = absl::StrCat(random_.Index(scenario_.coordinator.size), "-", life_, "-",
                                        operations_left_ + random_.Between(0, 2));
    }
    coord::CompareAndSetKey swap{.key = key, .value = value};
    swap.expected.absent = !operation.expected;
    swap.expected.value = operation.expected;
    event = std::move(swap);
  }
  const Kind kind = operation.kind;
  const History::Id id = history_.Ask(service_, key, std::move(operation));
  Request(std::move(event), [this, id, kind](const coord::Reply& reply) {
    if (Over(reply)) return;
    bool done = !reply.error;
    std::optional<std::string> result;
    if (const auto* read = std::get_if<coord::KeyRead>(&reply.answer); done && read != nullptr) {
      result = *read->entry.value;
    }
    if (const auto* swapped = std::get_if<coord::KeySwapped>(&reply.answer)) {
      done = swapped->swapped;
      if (swapped->entry) result = *swapped->entry->value;
    }
    if (kind == Kind::kDelete && done) {
      const auto* deleted = Expect<coord::KeysDeleted>(reply);
      done = deleted != nullptr && deleted->deleted > 0;
    }
    history_.Answer(id, done, std::move(result));
    schedule_.After(random_.Between(absl::ZeroDuration(), absl::Milliseconds(300)),
                    [this, life = life_] {
                      if (alive_ && life == life_) NextOperation();
                    });
  });
}

// Barriers and agreements, the same for all members and in the same order.
void NativeClient::NextRound() {
  if (rounds_left_-- <= 0) return EndRow();
  const auto go_on = [this] {
    schedule_.After(random_.Between(absl::ZeroDuration(), absl::Milliseconds(500)),
                    [this, life = life_] {
                      if (alive_ && life == life_) NextRound();
                    });
  };
  const bool agrees = rounds_left_ % 4 == 3;
  const std::string id = absl::StrCat(agrees ? "index/" : "round/", rounds_left_ % 3);
  const int64_t counter = counters_[id]++;
  if (agrees) {
    const int64_t index = random_.Between(0, 1000);
    history_.Propose(service_, id, counter, member_, index, 5);
    Request(coord::AgreeOnIndex{.name = id, .counter = counter, .index = index, .stride = 5},
            [this, id, counter, go_on](const coord::Reply& reply) {
              if (Over(reply)) return;
              const auto* agreed = Expect<coord::IndexAgreed>(reply);
              if (agreed == nullptr) return;
              history_.Agreed(service_, id, counter, member_, agreed->index);
              go_on();
            });
    return;
  }
  const std::string value = absl::StrCat(member_.value(), "@", counter, ".", rounds_left_);
  history_.Arrive(service_, id, counter, member_, value);
  Request(coord::ArriveAtBarrier{.id = id, .counter = counter, .value = value},
          [this, id, counter, go_on](const coord::Reply& reply) {
            if (Over(reply)) return;
            const auto* passed = Expect<coord::BarrierPassed>(reply);
            if (passed == nullptr) return;
            history_.Passed(service_, id, counter, member_, passed->values);
            go_on();
          });
}

void NativeClient::Watch() {
  Request(coord::WatchKeys{}, [this](const coord::Reply& reply) { Watched(reply); });
}

void NativeClient::Watched(const coord::Reply& reply) {
  if (done_ || Over(reply) || reply.error) return;
  const auto* news = Expect<coord::KeysChanged>(reply);
  if (news == nullptr) return;
  history_.Watched(service_, name(), *news);
  Request(coord::WatchKeys{.after = news->revision},
          [this](const coord::Reply& next) { Watched(next); });
}

void NativeClient::EndRow() {
  if (--rows_open_ > 0) return;
  Leave();
}

void NativeClient::Leave() {
  leaving_ = true;
  Request(coord::LeaveJob{}, [this](const coord::Reply& reply) {
    if (Over(reply)) return;
    done_ = true;
    // What it had parked is of no interest any more.
    ++life_;
    session_->Close();
  });
}

}  // namespace lockstep::sim
