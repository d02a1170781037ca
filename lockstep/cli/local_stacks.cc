#include "lockstep/cli/local_stacks.h"

#include <algorithm>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lockstep/launch/stack_taker.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {

using wire::native::StacksAsked;

namespace {

// Each look at a process costs some 40 us.
constexpr size_t kLooksAtOnce = 16;
// Between two looks that processes feel: gdb, signals.
constexpr absl::Duration kDisturbInterval = absl::Seconds(5);

// By a launcher, or the server, and not by a person.
bool IsByItself(const StacksAsked& asked) { return !asked.because.empty(); }

bool IsAskedFor(const StacksAsked& asked, int32_t member) {
  const auto& members = asked.members;
  return members.empty() || std::find(members.begin(), members.end(), member) != members.end();
}

}  // namespace

void LocalStacks::Note(const launch::ProcessReport& report) {
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

void LocalStacks::Look() {
  const MutexLock lock(mutex_);
  if (taking_) return;
  std::set<int64_t> all;
  for (const auto& [of, pid] : pids_) all.insert(pid);
  standstill_.KeepOnly(all);
  auto at = pids_.lower_bound(next_);
  for (size_t i = 0; i < std::min(kLooksAtOnce, pids_.size()); ++i) {
    if (at == pids_.end()) at = pids_.begin();
    if (const auto runs = launch::RunsOf(at->second)) {
      standstill_.Seen(runtime::MonotonicNow(), at->second, *runs);
    }
    next_ = at->first + 1;
    ++at;
  }
}

std::optional<int32_t> LocalStacks::StillFor(absl::Duration long_enough) const {
  const MutexLock lock(mutex_);
  if (taking_) return std::nullopt;
  const Time now = runtime::MonotonicNow();
  for (const auto& [member, pid] : pids_) {
    const auto still = standstill_.For(now, pid);
    if (still && *still >= long_enough) return member;
  }
  return std::nullopt;
}

std::vector<launch::ProcessStacks> LocalStacks::Take(const StacksAsked& asked) {
  std::vector<launch::StackQuestion> questions;
  std::vector<int64_t> still;
  std::vector<launch::ProcessStacks> taken;
  // What nobody asked for is not to be felt.
  const bool wants_to_disturb = (asked.native || asked.signal) && !IsByItself(asked);
  bool disturbs = false;
  {
    const MutexLock lock(mutex_);
    taking_ = true;
    disturbs = wants_to_disturb && runtime::MonotonicNow() >= disturb_at_;
    if (disturbs) disturb_at_ = runtime::MonotonicNow() + kDisturbInterval;
    for (const auto& [member, pid] : pids_) {
      if (!IsAskedFor(asked, member)) continue;
      const Time now = runtime::MonotonicNow();
      if (const auto runs = launch::RunsOf(pid)) standstill_.Seen(now, pid, *runs);
      const auto since = standstill_.For(now, pid);
      const int64_t since_us = since ? absl::ToInt64Microseconds(*since) : -1;
      questions.push_back({.member = member,
                           .name = absl::StrCat(subjects_.role, "/", member),
                           .host = subjects_.host,
                           .pid = pid,
                           .native = asked.native && disturbs,
                           .signal = asked.signal && disturbs});
      still.push_back(since_us);
    }
  }
  taken.resize(questions.size());
  // All at the same time: they are to be of one moment, and each may take seconds.
  std::vector<std::thread> threads;
  for (size_t i = 0; i < questions.size(); ++i) {
    threads.emplace_back([&, i] { taken[i] = launch::TakeStacks(questions[i], subjects_.folder); });
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
  taking_ = false;
  // So that who asked does not wait for them.
  for (const auto& [member, pid] : ended_) {
    if (!IsAskedFor(asked, member) || pids_.contains(member)) continue;
    taken.push_back({.member = member,
                     .name = absl::StrCat(subjects_.role, "/", member),
                     .host = subjects_.host,
                     .pid = pid,
                     .state = "ended",
                     .source = "launcher"});
  }
  return taken;
}

}  // namespace lockstep::cli
