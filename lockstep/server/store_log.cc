#include "lockstep/server/store_log.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/stock/tcpstore/view.h"

namespace lockstep::server {
namespace {

constexpr int kLines = 10;
constexpr absl::Duration kLinesInterval = absl::Seconds(10);

// Who waits for less than this looks whether a key is there, and misses nobody.
constexpr absl::Duration kWaitToldMin = absl::Seconds(1);

// "rank 3"; empty: the job has no such rank, or none is known.
std::string RankText(std::optional<int32_t> rank, int32_t ranks) {
  return rank && *rank < ranks ? absl::StrFormat("rank %d", *rank) : std::string();
}

}  // namespace

StoreLog::StoreLog(Tellers tell, int32_t ranks)
    : tell_(std::move(tell)),
      ranks_(ranks),
      foreign_(kLines, kLinesInterval),
      given_up_(kLines, kLinesInterval) {}

void StoreLog::Foreign(std::string text) {
  const auto line = foreign_.Pass(runtime::MonotonicNow(), std::move(text));
  if (line) tell_.foreign(*line);
}

void StoreLog::GivenUp(Time now, const tcpstore::GivenUp& given_up) {
  if (now - given_up.since < kWaitToldMin) return;
  const tcpstore::AwaitedView& wait = given_up.wait;
  const tcpstore::WaiterView& waiter = wait.first_waiters.front();
  const std::string who = RankText(waiter.rank, ranks_);
  const std::string whose = RankText(wait.rank, ranks_);
  std::string text = absl::StrFormat(
      "torch's store: %s (%s) gave up waiting %s '%s'%s after %s", who.empty() ? "a client" : who,
      waiter.peer, wait.barrier_size > 0 ? "at barrier" : "for key", absl::CHexEscape(wait.key),
      whose.empty() ? "" : ", which is probably for " + whose + " to set,",
      absl::FormatDuration(absl::Trunc(now - given_up.since, absl::Milliseconds(1))));
  if (wait.barrier_size > 0) {
    text += absl::StrFormat("; %d of %d had arrived", wait.arrived, wait.barrier_size);
  }
  if (wait.waiters > 1) text += absl::StrFormat("; %d more are waiting for it", wait.waiters - 1);
  if (const auto line = given_up_.Pass(now, std::move(text))) {
    tell_.given_up(*line, whose.empty() ? std::nullopt : wait.rank);
  }
}

}  // namespace lockstep::server
