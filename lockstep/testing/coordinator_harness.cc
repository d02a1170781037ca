#include "lockstep/testing/coordinator_harness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/testing/print_effects.h"

namespace lockstep::testing {
namespace {

// Handling a deadline may bring the next one at the same time, but not for ever.
constexpr int kDeadlinesAtOneTimeMax = 1000;

constexpr absl::Duration kBeat = absl::Seconds(10);

std::vector<MemberIndex> ToIndices(const std::vector<int>& members) {
  std::vector<MemberIndex> indices;
  for (int member : members) indices.push_back(MemberIndex(member));
  return indices;
}

}  // namespace

Who Who::As(uint64_t incarnation) const {
  Who other = *this;
  other.life = Incarnation(incarnation);
  return other;
}

Who Who::In(ServiceIncarnation service) const {
  Who other = *this;
  other.attempt = service;
  return other;
}

Who Who::By(SessionId by, uint64_t as) const {
  Who other = *this;
  other.agent = by;
  other.number = as;
  return other;
}

CoordinatorHarness::CoordinatorHarness(coord::CoordinatorOptions options, Time start)
    : options_(std::move(options)),
      coordinator_(std::make_unique<coord::Coordinator>(options_)),
      now_(start) {}

CoordinatorHarness::~CoordinatorHarness() {
  CheckStopAnswersEverybody();
  CheckSameAgain();
  if (!::testing::Test::HasFailure() || steps_.size() > 500) return;
  std::string story = "What happened:\n";
  for (const Step& step : steps_) {
    absl::StrAppend(&story, absl::FormatDuration(step.at - Time()), " ", PrintEvent(step.event),
                    "\n");
    if (!step.effects.empty()) absl::StrAppend(&story, step.effects);
  }
  std::fputs(story.c_str(), stderr);
}

coord::CoordinatorView CoordinatorHarness::NewestRun() const {
  coord::CoordinatorView view = coordinator_->Summary(now_);
  std::optional<coord::HostsHeard> heard;
  for (int32_t i = 0; i < view.size; ++i) {
    view.members.push_back(coordinator_->ViewOf(now_, MemberIndex(i), heard));
  }
  return view;
}

coord::MemberView CoordinatorHarness::Member(int member) const {
  coord::CoordinatorView view = View();
  for (coord::MemberView& each : view.members) {
    if (each.member == MemberIndex(member)) return std::move(each);
  }
  ADD_FAILURE() << "member " << member << " is not in the view";
  return {};
}

Who CoordinatorHarness::Snapshot(int member) const {
  const Who who(member);
  const auto life = lives_.find(member);
  const bool known = life != lives_.end() && life->second.service;
  return who.As(IncarnationOf(who).value()).In(known ? *life->second.service : service());
}

Incarnation CoordinatorHarness::IncarnationOf(const Who& who) const {
  if (who.life) return *who.life;
  const auto life = lives_.find(who.member.value());
  return life == lives_.end() ? Incarnation() : life->second.incarnation;
}

CallId CoordinatorHarness::NewCall() {
  const CallId call(++calls_);
  states_[call] = CallState::kPending;
  return call;
}

coord::Caller CoordinatorHarness::NewCaller(const Who& who) {
  ServiceIncarnation attempt = service();
  if (who.attempt) {
    attempt = *who.attempt;
  } else if (const auto life = lives_.find(who.member.value());
             life != lives_.end() && life->second.service) {
    attempt = *life->second.service;
  }
  return {.call = NewCall(),
          .service = attempt,
          .incarnation = IncarnationOf(who),
          .number = who.number,
          .agent = who.agent};
}

CallId CoordinatorHarness::Register(int member, uint64_t incarnation, absl::Duration patience,
                                    std::string role, bool recoverable, SessionId agent) {
  const CallId call = NewCall();
  lives_[member] = Life{.incarnation = Incarnation(incarnation)};
  registering_[call] = member;
  Handle(coord::RegisterMember{.call = call,
                               .member = MemberIndex(member),
                               .incarnation = Incarnation(incarnation),
                               .deadline = now_ + patience,
                               .peer = absl::StrCat("10.0.0.", member, ":4711"),
                               .role = std::move(role),
                               .recoverable = recoverable,
                               .agent = agent});
  return call;
}

CallId CoordinatorHarness::Heartbeat(Who who) {
  const coord::Caller caller = NewCaller(who);
  Handle(
      coord::Heartbeat{.caller = caller, .member = who.member, .incarnation = IncarnationOf(who)});
  return caller.call;
}

CallId CoordinatorHarness::Poll(Who who) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::PollForError{.caller = caller, .member = who.member});
  return caller.call;
}

CallId CoordinatorHarness::Report(Who who, absl::StatusCode code, std::string message) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::ReportError{
      .caller = caller, .member = who.member, .code = code, .message = std::move(message)});
  return caller.call;
}

CallId CoordinatorHarness::Leave(Who who) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::LeaveJob{.caller = caller, .member = who.member});
  return caller.call;
}

CallId CoordinatorHarness::Reset(Who who) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::ResetMember{.caller = caller, .member = who.member});
  return caller.call;
}

CallId CoordinatorHarness::Watch(Who who, std::optional<int64_t> version) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::WatchMembers{.caller = caller, .version = version});
  return caller.call;
}

CallId CoordinatorHarness::Set(Who who, std::string key, std::string value, bool overwrite) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::SetKey{
      .caller = caller, .key = std::move(key), .value = std::move(value), .overwrite = overwrite});
  return caller.call;
}

CallId CoordinatorHarness::Get(Who who, std::string key) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::GetKey{.caller = caller, .key = std::move(key)});
  return caller.call;
}

CallId CoordinatorHarness::TryGet(Who who, std::string key) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::TryGetKey{.caller = caller, .key = std::move(key)});
  return caller.call;
}

CallId CoordinatorHarness::Increment(Who who, std::string key, int64_t increment) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::IncrementKey{.caller = caller, .key = std::move(key), .increment = increment});
  return caller.call;
}

CallId CoordinatorHarness::List(Who who, std::string directory) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::ListKeys{.caller = caller, .directory = std::move(directory)});
  return caller.call;
}

CallId CoordinatorHarness::Delete(Who who, std::string key) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::DeleteKey{.caller = caller, .key = std::move(key)});
  return caller.call;
}

CallId CoordinatorHarness::Arrive(Who who, std::string id, const At& at) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::ArriveAtBarrier{.caller = caller,
                                .member = who.member,
                                .id = std::move(id),
                                .counter = at.counter,
                                .timeout = at.timeout,
                                .members = ToIndices(at.members)});
  return caller.call;
}

CallId CoordinatorHarness::Cancel(Who who, std::string id, std::optional<int64_t> counter) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::CancelBarrier{
      .caller = caller, .member = who.member, .id = std::move(id), .counter = counter});
  return caller.call;
}

CallId CoordinatorHarness::Alive(Who who, const std::vector<int>& members) {
  const coord::Caller caller = NewCaller(who);
  Handle(coord::GetAliveMembers{
      .caller = caller, .member = who.member, .members = ToIndices(members)});
  return caller.call;
}

void CoordinatorHarness::Hangup(CallId call, coord::CallLeft::Agent agent) {
  if (states_.at(call) == CallState::kPending) states_[call] = CallState::kLeft;
  Handle(coord::CallLeft{.call = call, .agent = agent});
}

void CoordinatorHarness::ProcessStarted(int member, int64_t pid) {
  Handle(coord::ProcessStarted{.member = MemberIndex(member), .host = "host-a", .pid = pid});
}

void CoordinatorHarness::ProcessEnded(int member, int64_t pid, int exit_code, int signal,
                                      absl::Duration ago) {
  Handle(coord::ProcessEnded{.member = MemberIndex(member),
                             .pid = pid,
                             .exit_code = exit_code,
                             .signal = signal,
                             .ago = ago});
}

void CoordinatorHarness::ProcessEnding(int member, int64_t pid, std::string error) {
  Handle(
      coord::ProcessEnding{.member = MemberIndex(member), .pid = pid, .error = std::move(error)});
}

void CoordinatorHarness::ProcessStopped(int member, int64_t pid) {
  Handle(coord::ProcessStopped{.member = MemberIndex(member), .pid = pid});
}

void CoordinatorHarness::ProcessContinued(int member, int64_t pid) {
  Handle(coord::ProcessContinued{.member = MemberIndex(member), .pid = pid});
}

void CoordinatorHarness::Stop() {
  stopped_ = true;
  Handle(coord::Stop{});
}

void CoordinatorHarness::RegisterAll(uint64_t first) {
  std::vector<CallId> calls;
  for (int member = 0; member < size(); ++member) {
    calls.push_back(Register(member, first + static_cast<uint64_t>(member)));
  }
  for (CallId call : calls) {
    ASSERT_FALSE(Pending(call));
    ASSERT_EQ(Reply(call).error, nullptr) << coord::ToString(*Reply(call).error);
  }
}

std::vector<CallId> CoordinatorHarness::PollAll() {
  std::vector<CallId> calls;
  for (int member = 0; member < size(); ++member) calls.push_back(Poll(member));
  return calls;
}

void CoordinatorHarness::KeepAlive(std::vector<int> members) {
  kept_alive_ = std::move(members);
  next_beat_ = kept_alive_.empty() ? Time::Infinite() : now_ + kBeat;
}

void CoordinatorHarness::Advance(absl::Duration duration) {
  const Time end = now_ + duration;
  int at_this_time = 0;
  while (true) {
    const Time next = std::min(next_beat_, coordinator_->NextDeadline());
    if (next > end) break;
    at_this_time = next > now_ ? 0 : at_this_time + 1;
    if (at_this_time > kDeadlinesAtOneTimeMax) {
      ADD_FAILURE() << "the deadline " << absl::FormatDuration(next - Time())
                    << " stays, however often it is handled";
      break;
    }
    now_ = std::max(now_, next);
    if (next_beat_ <= now_) {
      Beat();
    } else {
      Handle(coord::DeadlineReached{});
    }
  }
  now_ = end;
}

void CoordinatorHarness::Beat() {
  next_beat_ = now_ + kBeat;
  for (int member : kept_alive_) Heartbeat(member);
}

bool CoordinatorHarness::Pending(CallId call) const {
  return states_.at(call) == CallState::kPending;
}

const coord::Reply& CoordinatorHarness::Reply(CallId call) const {
  static const coord::Reply* const kNone = new coord::Reply{
      .error = coord::MakeError(absl::StatusCode::kUnknown, coord::Reason::kInvalidArgument,
                                "(the test asked for a reply that has not come)")};
  const auto reply = replies_.find(call);
  if (reply != replies_.end()) return reply->second;
  ADD_FAILURE() << "call " << call << " has no answer yet";
  return *kNone;
}

void CoordinatorHarness::FailKind(const coord::Reply& reply) {
  ADD_FAILURE() << "not the kind of answer expected: " << PrintReply(reply);
}

std::string CoordinatorHarness::Value(CallId call) const {
  const auto* read = AnswerOf<coord::KeyRead>(call);
  return read != nullptr ? *read->entry.value : "";
}

std::vector<std::string> CoordinatorHarness::Entries(CallId call) const {
  std::vector<std::string> entries;
  const auto* listed = AnswerOf<coord::KeysListed>(call);
  if (listed == nullptr) return entries;
  for (const coord::KeyValue& entry : listed->entries) {
    entries.push_back(absl::StrCat(entry.key, "=", *entry.value));
  }
  return entries;
}

std::vector<std::pair<int, uint64_t>> CoordinatorHarness::AliveIn(CallId call) const {
  std::vector<std::pair<int, uint64_t>> members;
  const auto* alive = AnswerOf<coord::AliveMembers>(call);
  if (alive == nullptr) return members;
  for (const coord::AliveMember& each : *alive->members) {
    members.emplace_back(each.member.value(), each.incarnation.value());
  }
  return members;
}

const coord::MembersWatched& CoordinatorHarness::Watched(CallId call) const {
  static const coord::MembersWatched* const kNone = new coord::MembersWatched{
      .members = std::make_shared<const std::vector<coord::MemberStatus>>()};
  const auto* watched = AnswerOf<coord::MembersWatched>(call);
  return watched != nullptr ? *watched : *kNone;
}

coord::Effects CoordinatorHarness::Handle(const coord::Event& event) {
  coord::Effects effects = coordinator_->Handle(now_, event);
  steps_.push_back({.at = now_, .event = event, .effects = PrintEffects(effects)});
  for (const coord::Reply& reply : effects.replies) TakeReply(reply);
  log_.insert(log_.end(), effects.log.begin(), effects.log.end());
  for (const coord::Record& record : effects.records) records_.push_back({now_, record});
  return effects;
}

void CoordinatorHarness::TakeReply(const coord::Reply& reply) {
  const auto state = states_.find(reply.call);
  if (state == states_.end()) {
    ADD_FAILURE() << "answers a call that was never made: " << PrintReply(reply);
    return;
  }
  if (state->second != CallState::kPending) {
    ADD_FAILURE() << "answers a call "
                  << (state->second == CallState::kLeft ? "whose caller left: " : "twice: ")
                  << PrintReply(reply);
    return;
  }
  state->second = CallState::kAnswered;
  replies_[reply.call] = reply;
  const auto registering = registering_.find(reply.call);
  const auto* registered = std::get_if<coord::Registered>(&reply.answer);
  if (registering != registering_.end() && !reply.error && registered != nullptr) {
    lives_[registering->second].service = registered->service;
  }
}

void CoordinatorHarness::CheckStopAnswersEverybody() {
  if (!stopped_) Stop();
  for (uint64_t call = 1; call <= calls_; ++call) {
    if (states_[CallId(call)] != CallState::kPending) continue;
    ADD_FAILURE() << "call " << call << " is not answered, not even when the coordinator stops";
  }
}

void CoordinatorHarness::CheckSameAgain() const {
  auto again = std::make_unique<coord::Coordinator>(options_);
  for (const Step& step : steps_) {
    if (!step.restarted_from.empty()) again = MakeFrom(step.restarted_from);
    ASSERT_EQ(PrintEffects(again->Handle(step.at, step.event)), step.effects)
        << "the same events gave other effects the second time, at "
        << absl::FormatDuration(step.at - Time()) << " " << PrintEvent(step.event);
  }
}

}  // namespace lockstep::testing
