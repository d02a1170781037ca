#include "lockstep/sim/stock/process.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/compat/xla/coordination_service.pb.h"

namespace lockstep::sim {
namespace {

namespace xla = ::xla::coordination;
using absl::StatusCode;
using Kind = KeyOperation::Kind;

constexpr absl::Duration kBeatEvery = absl::Seconds(5);
// Longer, and a stock client ends itself.
constexpr absl::Duration kBeatTimeout = absl::Seconds(8);
constexpr int kRows = 2;

}  // namespace

size_t StockJob::AttemptOf(ServiceIncarnation service) {
  const auto found = std::find(attempts.begin(), attempts.end(), service);
  if (found != attempts.end()) return static_cast<size_t>(found - attempts.begin());
  attempts.push_back(service);
  return attempts.size() - 1;
}

StockProcess::StockProcess(Schedule& schedule, StockHost& host, StockJob& job, Random random,
                           Setup setup)
    : schedule_(schedule),
      host_(host),
      job_(job),
      random_(random),
      setup_(setup),
      operations_left_(job.operations) {}

std::string StockProcess::name() const {
  return absl::StrCat("task/", setup_.rank, " (", setup_.incarnation, ")");
}

void StockProcess::Soon(absl::Duration most, std::function<void()> action) {
  schedule_.After(random_.Between(absl::ZeroDuration(), most), [this, action = std::move(action)] {
    if (alive_) action();
  });
}

template <class Request>
Request StockProcess::New() const {
  Request request;
  if constexpr (requires { request.mutable_incarnations(); }) {
    request.mutable_incarnations()->set_task_incarnation(setup_.incarnation);
    request.mutable_incarnations()->set_service_incarnation(service_.value());
  }
  if constexpr (requires { request.set_source_task_id(0); }) {
    request.set_source_task_id(setup_.rank);
  }
  return request;
}

// --- Calls ---

void StockProcess::Call(const std::string& method, std::string message, absl::Duration timeout,
                        Done done) {
  job_.calls.push_back(std::make_unique<TrackedCall>());
  TrackedCall* const call = job_.calls.back().get();
  call->method = method;
  call->host = &host_;
  open_.push_back(call);
  auto answered = [this, call, done](net::AgentAnswer answer) {
    if (++call->answers > 1) {
      return job_.Fail(absl::StrCat("once: ", name(), "'s ", call->method, " was answered twice"));
    }
    // By the loopback device, after what brings it about.
    schedule_.After(absl::Microseconds(20), [this, call, done, answer = std::move(answer)] {
      if (call->over) return;
      Ended(*call);
      done(answer);
    });
  };
  schedule_.After(absl::Microseconds(20), [this, call, timeout, message = std::move(message),
                                           answered = std::move(answered)]() mutable {
    host_.Do([this, call, timeout, message = std::move(message), answered = std::move(answered)] {
      call->leave = host_.Begin({.method = "/xla.coordination.CoordinationService/" + call->method,
                                 .bytes = message,
                                 .connection = setup_.connection,
                                 .left = timeout},
                                answered);
    });
  });
  if (timeout == absl::InfiniteDuration()) return;
  schedule_.After(timeout, [this, call, done] {
    if (call->over) return;
    Ended(*call);
    done({.code = StatusCode::kDeadlineExceeded});
  });
}

// For its caller; gRPC tells the agent of those that were not answered.
void StockProcess::Ended(TrackedCall& call) {
  call.over = true;
  std::erase(open_, &call);
  if (call.answers > 0) return;
  schedule_.After(absl::Microseconds(20), [this, &call] {
    host_.Do([&call] {
      if (call.answers == 0 && call.leave != nullptr) call.leave();
    });
  });
}

void StockProcess::Die() {
  if (!std::exchange(alive_, false)) return;
  for (TrackedCall* call : std::vector<TrackedCall*>(open_)) Ended(*call);
}

void StockProcess::End() {
  if (!alive_ || std::exchange(ending_, true)) return;
  schedule_.After(setup_.lingers, [this] { Die(); });
}

bool StockProcess::Over(const net::AgentAnswer& answer) {
  if (answer.code == StatusCode::kOk) return false;
  // With these nothing is wrong but what was asked.
  if (answer.reason == "key_exists" || answer.reason == "key_not_found") return false;
  if (!job_.may_fail && !host_.gave_up()) {
    job_.Fail(absl::StrCat("undisturbed: ", name(), " was told: ", answer.message));
  }
  told_ = true;
  return true;
}

// --- What its client does ---

void StockProcess::Start() { Register(); }

void StockProcess::Register() {
  auto request = New<xla::RegisterTaskRequest>();
  request.set_incarnation(setup_.incarnation);
  Call("RegisterTask", request.SerializeAsString(), absl::InfiniteDuration(),
       [this](const net::AgentAnswer& answer) { Registered(answer); });
}

void StockProcess::Registered(const net::AgentAnswer& answer) {
  if (answer.code != StatusCode::kOk) {
    if (!job_.may_fail) Over(answer);
    // The attempt before is not over yet.
    return Soon(absl::Seconds(1), [this] {
      if (!told_ && !ending_) Register();
    });
  }
  xla::RegisterTaskResponse response;
  if (!response.ParseFromString(answer.bytes)) return job_.Fail("no answer to a registration");
  service_ = ServiceIncarnation(response.service_incarnation());
  job_.AttemptOf(service_);
  job_.history.InAs(service_, MemberIndex(setup_.rank), setup_.incarnation);
  rows_open_ = kRows;
  Poll();
  Beat();
  NextOperation();
  NextRound();
}

void StockProcess::Poll() {
  Call("PollForError", New<xla::PollForErrorRequest>().SerializeAsString(),
       absl::InfiniteDuration(), [this](const net::AgentAnswer& answer) {
         if (!alive_ || done_ || leaving_ || !Over(answer)) return;
         const bool names_it = std::any_of(
             job_.killed.begin(), job_.killed.end(),
             [&](const std::string& killed) { return absl::StrContains(answer.message, killed); });
         // Among broken links it may also hear that it was lost itself.
         if (names_it || !job_.calm || host_.gave_up() || !job_.failure.empty() || ending_) return;
         job_.Fail(absl::StrCat("who: ", name(), " was told: ", answer.message));
       });
}

void StockProcess::Beat() {
  auto request = New<xla::HeartbeatRequest>();
  request.set_incarnation(setup_.incarnation);
  Call("Heartbeat", request.SerializeAsString(), kBeatTimeout,
       [this](const net::AgentAnswer& answer) {
         if (done_ || leaving_ || Over(answer)) return;
         schedule_.After(kBeatEvery, [this] {
           if (alive_ && !done_) Beat();
         });
       });
}

// --- Its program ---

void StockProcess::NextOperation() {
  if (operations_left_-- <= 0) return EndRow();
  const std::string key = absl::StrCat(random_.Percent(60) ? "text/" : "number/", random_.Index(3));
  const bool text = key[0] == 't';
  if (job_.history.Full(service_, key)) return EndRow();
  KeyOperation operation{.who = name()};
  std::string method = "TryGetKeyValue";
  std::string message;
  const int dice = random_.Index(3);
  if (dice == 0) {
    auto request = New<xla::TryGetKeyValueRequest>();
    request.set_key(key);
    message = request.SerializeAsString();
  } else if (!text) {
    method = "IncrementKeyValue";
    operation.kind = Kind::kAdd;
    operation.number = random_.Between(1, 9);
    auto request = New<xla::IncrementKeyValueRequest>();
    request.set_key(key);
    request.set_increment(operation.number);
    message = request.SerializeAsString();
  } else {
    method = "InsertKeyValue";
    operation.kind = random_.Percent(30) ? Kind::kSet : Kind::kSetIfAbsent;
    operation.value = absl::StrCat(setup_.incarnation, "-", operations_left_);
    auto request = New<xla::InsertKeyValueRequest>();
    request.mutable_kv()->set_key(key);
    request.mutable_kv()->set_value(operation.value);
    request.set_allow_overwrite(operation.kind == Kind::kSet);
    message = request.SerializeAsString();
  }
  const Kind kind = operation.kind;
  const History::Id id = job_.history.Ask(service_, key, std::move(operation));
  Call(method, std::move(message), absl::InfiniteDuration(),
       [this, id, kind](const net::AgentAnswer& answer) {
         if (Over(answer)) return;
         const bool done = answer.code == StatusCode::kOk;
         std::optional<std::string> result;
         if (done && kind == Kind::kRead) {
           xla::TryGetKeyValueResponse response;
           response.ParseFromString(answer.bytes);
           result = response.kv().value();
         } else if (done && kind == Kind::kAdd) {
           xla::IncrementKeyValueResponse response;
           response.ParseFromString(answer.bytes);
           result = response.kv().value();
         }
         job_.history.Answer(id, done, std::move(result));
         Soon(absl::Milliseconds(300), [this] { NextOperation(); });
       });
}

void StockProcess::NextRound() {
  const int round = round_++;
  if (round >= job_.rounds) return EndRow();
  if (random_.Percent(20)) TryInVain();
  round % 2 == 0 ? Meet(round) : Share(round);
}

// Stock members bring nothing to a barrier.
coord::MemberValues StockProcess::NoValues() const {
  auto values = std::make_shared<std::vector<coord::MemberValue>>();
  for (int32_t rank = 0; rank < job_.size; ++rank) values->push_back({MemberIndex(rank), ""});
  return values;
}

void StockProcess::Meet(int round) {
  const int64_t counter = round / 2;
  job_.history.Arrive(service_, "round", counter, MemberIndex(setup_.rank), "");
  auto request = New<xla::BarrierRequest>();
  request.set_barrier_id("round");
  request.set_counter(counter);
  request.set_barrier_timeout_in_ms(600'000);
  // Whoever is let into a later attempt may do the steps of this one's members.
  const bool replaced = job_.AttemptOf(service_) + 1 < job_.attempts.size();
  Call("Barrier", request.SerializeAsString(), absl::InfiniteDuration(),
       [this, counter, replaced](const net::AgentAnswer& answer) {
         if (Over(answer)) return GoOn();
         if (replaced) return job_.Fail(absl::StrCat("fencing: ", name(), " passes a barrier"));
         job_.history.Passed(service_, "round", counter, MemberIndex(setup_.rank), NoValues());
         Soon(absl::Milliseconds(500), [this] { NextRound(); });
       });
}

// One sets a value, for which all wait.
void StockProcess::Share(int round) {
  const std::string key = absl::StrCat("value/", round);
  const std::string value = absl::StrCat(service_.value(), " ", std::string(200, 'x'), round);
  if (round % job_.size == setup_.rank) {
    auto request = New<xla::InsertKeyValueRequest>();
    request.mutable_kv()->set_key(key);
    request.mutable_kv()->set_value(value);
    Call("InsertKeyValue", request.SerializeAsString(), absl::InfiniteDuration(),
         [this](const net::AgentAnswer& answer) {
           if (Over(answer) || answer.code == StatusCode::kOk) return;
           job_.Fail(absl::StrCat("once: ", name(), " is told of its own key: ", answer.message));
         });
  }
  auto request = New<xla::GetKeyValueRequest>();
  request.set_key(key);
  Call("GetKeyValue", request.SerializeAsString(), absl::InfiniteDuration(),
       [this, value](const net::AgentAnswer& answer) {
         if (Over(answer)) return GoOn();
         xla::GetKeyValueResponse response;
         if (!response.ParseFromString(answer.bytes) || response.kv().value() != value) {
           return job_.Fail(absl::StrCat(name(), " got another value"));
         }
         Soon(absl::Milliseconds(500), [this] { NextRound(); });
       });
}

// One that lingers does not heed what it is told.
void StockProcess::GoOn() {
  if (setup_.lingers > absl::ZeroDuration()) Soon(absl::Seconds(1), [this] { NextRound(); });
}

// Nobody ever sets that key.
void StockProcess::TryInVain() {
  auto request = New<xla::GetKeyValueRequest>();
  request.set_key("nothing");
  Call("GetKeyValue", request.SerializeAsString(),
       random_.Between(absl::Milliseconds(1), absl::Seconds(2)),
       [this](const net::AgentAnswer& answer) {
         if (answer.code == StatusCode::kDeadlineExceeded || Over(answer)) return;
         job_.Fail(absl::StrCat(name(), " got a value that nobody set"));
       });
}

void StockProcess::EndRow() {
  if (--rows_open_ == 0 && !told_) Leave();
}

void StockProcess::Leave() {
  leaving_ = true;
  Call("ShutdownTask", New<xla::ShutdownTaskRequest>().SerializeAsString(),
       absl::InfiniteDuration(), [this](const net::AgentAnswer& answer) {
         // The answer may be lost with its link; then it had left when it asked again.
         const bool had_left = answer.reason == "not_registered" || answer.reason == "member_left";
         if (!had_left && Over(answer)) return;
         done_ = true;
         Die();
       });
}

}  // namespace lockstep::sim
