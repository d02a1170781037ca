#include "lockstep/cli/run_stacks.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/launch/stack_taker.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {

using wire::native::DecodeQuestion;
using wire::native::EncodeQuestion;
using wire::native::StacksAsked;

namespace {

constexpr std::chrono::seconds kLinesTimeout(1);
// Each look at a process costs some 40 us.
constexpr absl::Duration kFollowInterval = absl::Seconds(1);
constexpr size_t kFollowedAtOnce = 16;
// From when on a process that has not moved is worth a look: `stacks_standstill`; and until the
// next one.
constexpr absl::Duration kLongStill = absl::Seconds(8);
constexpr absl::Duration kAskAgain = absl::Seconds(45);
// Between two looks that processes feel (gdb, signals): whoever reaches the server may ask for one.
constexpr absl::Duration kDisturbInterval = absl::Seconds(5);

// By a launcher, or the server, and not by a person.
bool IsByItself(const StacksAsked& asked) { return !asked.because.empty(); }

bool IsAskedFor(const StacksAsked& asked, int32_t member) {
  const auto& members = asked.members;
  return members.empty() || std::find(members.begin(), members.end(), member) != members.end();
}

}  // namespace

RunStacks::RunStacks(std::string folder, std::string host, std::string role)
    : folder_(std::move(folder)), host_(std::move(host)), role_(std::move(role)) {}

RunStacks::~RunStacks() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.NotifyAll();
  if (opening_.joinable()) opening_.join();
  if (following_.joinable()) following_.join();
  watch_.reset();
}

// On a thread of its own, since it waits for the server.
void RunStacks::Start(const launch::JobAddress& address, AskLastLines ask_last_lines, Say say) {
  ask_last_lines_ = std::move(ask_last_lines);
  say_ = std::move(say);
  opening_ = std::thread([this, address] { Open(address); });
  following_ = std::thread([this] { Follow(); });
}

void RunStacks::Open(const launch::JobAddress& address) {
  auto session =
      Session::Open({.address = address.link,
                     .job = address.job,
                     .who = "lockstep run, for stacks",
                     .grace = absl::InfiniteDuration(),
                     .interrupted = [this]() -> absl::Status {
                       return stopping_ ? absl::CancelledError("it ends") : absl::OkStatus();
                     }});
  // Without it the run goes on, and `lockstep stacks` says that nobody answers.
  if (!session.ok()) return;
  session_ = *std::move(session);
  {
    const MutexLock lock(mutex_);
    opened_ = true;
  }
  watch_ = session_->keys().Watch(wire::native::kStackQuestionKey,
                                  [this](absl::StatusOr<KeyChanges> told) {
                                    if (!told.ok()) return;
                                    for (const KeyChange& change : told->changes) {
                                      if (change.value) Answer(*change.value);
                                    }
                                  });
}

void RunStacks::Take(const launch::ProcessReport& report) {
  using Kind = launch::ProcessReport::Kind;
  const MutexLock lock(mutex_);
  const int32_t member = report.member.value();
  if (report.kind == Kind::kStarted) {
    // The next attempt, in which members may be other nodes'.
    if (pids_.empty()) ended_.clear();
    pids_[member] = report.pid;
    ended_.erase(member);
  } else if (report.kind == Kind::kEnded) {
    pids_.erase(member);
    ended_[member] = report.pid;
  }
}

RunStacks::LastLines RunStacks::WhatWasWritten() {
  auto told = std::make_shared<std::promise<LastLines>>();
  std::future<LastLines> lines = told->get_future();
  ask_last_lines_([told](LastLines all) { told->set_value(std::move(all)); });
  // The loop may have ended meanwhile, and then nobody needs them.
  return lines.wait_for(kLinesTimeout) == std::future_status::ready ? lines.get() : LastLines();
}

// Looks at a few processes a second, in turn, so that it can be said since when they stand still.
void RunStacks::Follow() {
  int32_t next = 0;
  Time ask_at;
  while (true) {
    std::optional<int32_t> member;
    {
      const MutexLock lock(mutex_);
      const WaitLimit look_at = WaitLimitAfter(kFollowInterval);
      while (!stopping_ && stop_.WaitUntil(mutex_, look_at)) {
      }
      if (stopping_) return;
      if (asking_) continue;
      std::set<int64_t> all;
      for (const auto& [of, pid] : pids_) all.insert(pid);
      standstill_.KeepOnly(all);
      auto at = pids_.lower_bound(next);
      for (size_t i = 0; i < std::min(kFollowedAtOnce, pids_.size()); ++i) {
        if (at == pids_.end()) at = pids_.begin();
        if (const auto runs = launch::RunsOf(at->second)) {
          standstill_.Seen(runtime::MonotonicNow(), at->second, *runs);
        }
        next = at->first + 1;
        ++at;
      }
      if (opened_) member = LongStill();
    }
    if (!member || runtime::MonotonicNow() < ask_at) continue;
    ask_at = runtime::MonotonicNow() + kAskAgain;
    // Without the mutex: the question comes back as an answer, which takes it.
    AskAll(*member);
  }
}

std::optional<int32_t> RunStacks::LongStill() const {
  const Time now = runtime::MonotonicNow();
  for (const auto& [member, pid] : pids_) {
    const auto still = standstill_.For(now, pid);
    if (still && *still >= kLongStill) return member;
  }
  return std::nullopt;
}

// Of all launchers the first: it would be the same question.
void RunStacks::AskAll(int32_t member) {
  const Keys keys = session_->keys();
  const absl::Duration timeout = absl::Seconds(5);
  const auto first = keys.CompareAndSet(wire::native::kStackAskerKey, KeyMust::NotExist(), host_,
                                        {.ttl = kAskAgain, .timeout = timeout});
  if (!first.ok() || !first->swapped) return;
  const StacksAsked question = {.id = absl::StrCat(host_, "-", ::getpid(), "-", ++asked_),
                                .because = absl::StrCat(role_, "/", member, " had not moved for ",
                                                        absl::FormatDuration(kLongStill))};
  // A look that cannot be had is none.
  static_cast<void>(
      keys.Set(wire::native::kStackQuestionKey, EncodeQuestion(question),
               {.ttl = wire::native::kStackQuestionOfTimeoutLives, .timeout = timeout}));
}

// All at the same time: they are to be of one moment, and each may take seconds.
std::vector<launch::ProcessStacks> RunStacks::TakeAll(const StacksAsked& asked) {
  std::vector<launch::StackQuestion> questions;
  std::vector<int64_t> still;
  std::vector<launch::ProcessStacks> taken;
  // What nobody asked for is not to be felt.
  const bool wants_to_disturb = (asked.native || asked.signal) && !IsByItself(asked);
  bool disturbs = false;
  {
    const MutexLock lock(mutex_);
    asking_ = true;
    disturbs = wants_to_disturb && runtime::MonotonicNow() >= disturb_at_;
    if (disturbs) disturb_at_ = runtime::MonotonicNow() + kDisturbInterval;
    for (const auto& [member, pid] : pids_) {
      if (!IsAskedFor(asked, member)) continue;
      const Time now = runtime::MonotonicNow();
      if (const auto runs = launch::RunsOf(pid)) standstill_.Seen(now, pid, *runs);
      const auto since = standstill_.For(now, pid);
      const int64_t since_us = since ? absl::ToInt64Microseconds(*since) : -1;
      questions.push_back({.member = member,
                           .name = absl::StrCat(role_, "/", member),
                           .host = host_,
                           .pid = pid,
                           .native = asked.native && disturbs,
                           .signal = asked.signal && disturbs});
      still.push_back(since_us);
    }
  }
  taken.resize(questions.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < questions.size(); ++i) {
    threads.emplace_back([&, i] { taken[i] = launch::TakeStacks(questions[i], folder_); });
  }
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < questions.size(); ++i) {
    taken[i].still_us = still[i];
    if (disturbs) standstill_.Disturbed(questions[i].pid);
    if (wants_to_disturb && !disturbs) {
      taken[i].note = absl::StrCat("without gdb and signals, which were last used less than ",
                                   absl::FormatDuration(kDisturbInterval), " ago");
    }
  }
  asking_ = false;
  // So that who asked does not wait for them.
  for (const auto& [member, pid] : ended_) {
    if (!IsAskedFor(asked, member) || pids_.contains(member)) continue;
    taken.push_back({.member = member,
                     .name = absl::StrCat(role_, "/", member),
                     .host = host_,
                     .pid = pid,
                     .state = "ended",
                     .source = "launcher"});
  }
  return taken;
}

void RunStacks::Answer(const std::string& question) {
  const auto asked = DecodeQuestion(question);
  if (!asked.ok() || asked->id == answered_) return;
  answered_ = asked->id;
  std::vector<launch::ProcessStacks> taken = TakeAll(*asked);
  if (asked->say && !taken.empty()) {
    // Anybody may have asked: a terminal must not obey what the question says.
    say_(absl::StrCat(observe::CleanText(asked->because), ": ", launch::StacksSentence(taken)));
  }
  LastLines lines = WhatWasWritten();
  for (launch::ProcessStacks& process : taken) {
    process.last_lines = std::move(lines[process.member]);
  }
  const std::string key =
      absl::StrCat(wire::native::StackAnswersDirectory(asked->id), "/", host_, "-", ::getpid());
  // While a process stands still there are many looks, and the last is what counts.
  const bool one_of_many = !asked->because.empty() && !asked->say;
  if (one_of_many && !kept_.empty()) {
    static_cast<void>(session_->keys().Delete(kept_, {.timeout = absl::Seconds(5)}));
  }
  if (one_of_many) kept_ = key;
  // Who asked says so when nothing comes.
  static_cast<void>(
      session_->keys().Set(key, launch::EncodeStacks(taken),
                           {.ttl = asked->because.empty() ? wire::native::kStackKeysLive
                                                          : wire::native::kStacksOfTimeoutLive,
                            .timeout = absl::Seconds(5)}));
}

}  // namespace lockstep::cli
