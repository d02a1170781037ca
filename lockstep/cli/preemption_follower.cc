#include "lockstep/cli/preemption_follower.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"

namespace lockstep::cli {
namespace {

// Between the beginnings of two watches at least: the next one should miss nothing of what follows
// the end of an attempt.
constexpr absl::Duration kWatchEvery = absl::Milliseconds(200);

}  // namespace

PreemptionFollower::PreemptionFollower(runtime::Loop& loop, JobPreemptions job, Callbacks callbacks)
    : loop_(loop), job_(std::move(job)), callbacks_(std::move(callbacks)), again_(loop) {
  Restart();
}

void PreemptionFollower::Restart() {
  const uint64_t number = ++number_;
  began_ = runtime::MonotonicNow();
  watch_.reset();
  watch_ = job_.Watch([this, &loop = loop_, number](absl::StatusOr<PreemptionNotice> notice) {
    loop.Post([this, number, notice = std::move(notice)] {
      if (number == number_) Take(notice);
    });
  });
}

void PreemptionFollower::Take(const absl::StatusOr<PreemptionNotice>& notice) {
  if (!notice.ok()) {
    again_.Arm(std::max(runtime::MonotonicNow(), began_ + kWatchEvery), [this] {
      Restart();
      callbacks_.resumed();
    });
    return;
  }
  const auto which = std::make_pair(notice->attempt, notice->id);
  if (notice->id != 0 && !notice->open && which != ended_) {
    ended_ = which;
    callbacks_.ended(*notice);
  }
  callbacks_.changed(*notice);
}

void PreemptionFollower::Get(std::function<void(absl::StatusOr<PreemptionNotice>)> done) {
  // Not by `this`: an answer may come between our end and the session's.
  job_.GetAsync({},
                [&loop = loop_, done = std::move(done)](absl::StatusOr<PreemptionNotice> notice) {
                  if (absl::IsCancelled(notice.status())) return;  // the session is closed
                  loop.Post([done, notice = std::move(notice)] { done(notice); });
                });
}

}  // namespace lockstep::cli
