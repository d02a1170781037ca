#include "lockstep/platform/runtime/loop.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "asio/post.hpp"
#include "lockstep/base/check.h"

namespace lockstep::runtime {

Time MonotonicNow() {
  return Time::FromNanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

namespace {

constexpr absl::Duration kCpuClockEvery = absl::Milliseconds(1);
static_assert(kCpuClockEvery <= TurnBudget::kTime);  // a turn that keeps its budget is seen
static_assert(TurnBudget::kTime < TurnWatch::kWindow);

int64_t ThreadCpuNanoseconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

}  // namespace

void TurnWatch::Turned() {
  turns_.fetch_add(1, std::memory_order_relaxed);
  const Time now = MonotonicNow();
  const Time before = std::exchange(last_, now);
  if (now - cpu_read_ < kCpuClockEvery) return;
  const int64_t cpu = ThreadCpuNanoseconds();
  const int64_t used = cpu - std::exchange(cpu_, cpu);
  // Of the first turn nothing is known.
  if (std::exchange(cpu_read_, now) == Time()) return;
  if (now - window_began_ >= kWindow) {
    const bool lately = now - window_began_ < 2 * kWindow;
    longest_before_ = lately ? longest_now_.load() : 0;
    longest_now_ = 0;
    window_began_ = now;
  }
  const int64_t turn = std::min(used, absl::ToInt64Nanoseconds(now - before));
  if (turn > longest_now_.load(std::memory_order_relaxed)) longest_now_ = turn;
}

absl::Duration TurnWatch::longest() const {
  return absl::Nanoseconds(std::max(longest_now_.load(), longest_before_.load()));
}

void TurnWatch::Reset() {
  longest_now_ = 0;
  longest_before_ = 0;
}

// One thread runs it, which lets Asio leave out its own locks' slow paths.
Loop::Loop() : io_(1), keep_running_(io_.get_executor()) {}

void Loop::Post(Function function) { asio::post(io_, std::move(function)); }

void Loop::Run() {
  std::thread::id nobody;
  LOCKSTEP_CHECK(runner_.compare_exchange_strong(nobody, std::this_thread::get_id()));
  while (io_.run_one() > 0) {
    turns_.Turned();
    if (awake_until_ != Time()) StayAwake();
  }
}

void Loop::StayAwake() {
  while (!io_.stopped()) {
    if (io_.poll_one() > 0) {
      turns_.Turned();
      continue;
    }
    if (MonotonicNow() >= awake_until_) break;
    std::this_thread::yield();
  }
  awake_until_ = Time();
}

void Loop::Stop() { io_.stop(); }

void RunInTurns(Loop& loop, absl::AnyInvocable<bool()> step) {
  TurnBudget budget;
  while (step()) {
    if (!budget.Spent()) continue;
    return loop.Post(
        [&loop, step = std::move(step)]() mutable { RunInTurns(loop, std::move(step)); });
  }
}

void Timer::Arm(Time at, Loop::Function function) {
  Cancel();
  if (at.is_infinite()) return;
  armed_ = std::make_shared<Loop::Function>(std::move(function));
  timer_.expires_at(
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(at.nanoseconds())));
  timer_.async_wait([weak = std::weak_ptr(armed_)](const asio::error_code& error) {
    // Kept alive while it runs: the function may arm this timer again or destroy it.
    if (auto alive = weak.lock(); alive && !error) (*alive)();
  });
}

void Timer::Cancel() {
  armed_.reset();
  timer_.cancel();
}

}  // namespace lockstep::runtime
