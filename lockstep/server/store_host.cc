#include "lockstep/server/store_host.h"

#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "lockstep/runtime/dial.h"
#include "lockstep/server/listen_address.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

// Lines of a kind about clients, since whoever reaches the port can cause them.
constexpr int kLines = 10;
constexpr absl::Duration kLinesInterval = absl::Seconds(10);

// Who waits for less than this looks whether a key is there, and misses nobody.
constexpr absl::Duration kWaitToldMin = absl::Seconds(1);

// The others do not look at the time, and there may be a million of them a second.
bool MayPark(const tcpstore::Command& command) {
  return std::holds_alternative<tcpstore::Wait>(command) ||
         std::holds_alternative<tcpstore::Barrier>(command) ||
         std::holds_alternative<tcpstore::CancelWait>(command);
}

// "rank 3"; empty: the job has no such rank, or none is known.
std::string RankText(std::optional<int32_t> rank, int32_t ranks) {
  return rank && *rank < ranks ? absl::StrFormat("rank %d", *rank) : std::string();
}

}  // namespace

StoreHost::Space::Space(StoreHost& host, runtime::Loop& loop, const StoreHostOptions& options)
    : store(options.store),
      door(loop, options.store, options.door,
           {.connected = [this](tcpstore::ConnectionId connection,
                                std::string peer) { store.Connected(connection, std::move(peer)); },
            .command = [&host](tcpstore::ConnectionId from,
                               const tcpstore::Command& command) { host.Command(from, command); },
            .left = [&host](tcpstore::ConnectionId connection) { host.Left(connection); },
            .complain = [&host](std::string text) { host.Complain(std::move(text)); }}) {}

StoreHost::StoreHost(runtime::Loop& loop, const StoreHostOptions& options, int32_t ranks,
                     Tellers tell)
    : loop_(loop),
      options_(options),
      ranks_(ranks),
      tell_(std::move(tell)),
      complaints_(kLines, kLinesInterval),
      given_up_(kLines, kLinesInterval) {}

absl::StatusOr<std::unique_ptr<StoreHost::Space>> StoreHost::MakeSpace() {
  auto space = std::make_unique<Space>(*this, loop_, options_);
  absl::Status status =
      ListenOnChosenPort(host_, [&](const runtime::Address& at) { return space->door.Listen(at); });
  if (!status.ok()) return status;
  return space;
}

absl::Status StoreHost::Listen(const std::string& host) {
  if (options_.none) return absl::OkStatus();
  host_ = host;
  auto space = MakeSpace();
  if (!space.ok()) return space.status();
  space_ = *std::move(space);
  return absl::OkStatus();
}

void StoreHost::Start() {
  if (space_ == nullptr || std::exchange(started_, true)) return;
  space_->door.Start();
}

absl::Status StoreHost::Open(int64_t attempt) {
  if (attempt == 0 || attempt == attempt_ || space_ == nullptr) return absl::OkStatus();
  if (attempt < attempt_) {
    return wire::native::WithReason(absl::FailedPreconditionError(absl::StrFormat(
                                        "attempt %d of the store is over: attempt %d has begun, at "
                                        "%s. Whoever asks was started "
                                        "for an attempt that others have given up: end it",
                                        attempt, attempt_, address())),
                                    "attempt_over");
  }
  auto next = MakeSpace();
  if (!next.ok()) return next.status();
  const size_t connections = space_->store.connections();
  space_ = *std::move(next);
  const int64_t before = std::exchange(attempt_, attempt);
  if (started_) space_->door.Start();
  tell_.notice(
      absl::StrFormat("attempt %d of the store begins at %s; that of attempt %d is closed, with "
                      "%d connections",
                      attempt, address(), before, connections));
  return absl::OkStatus();
}

void StoreHost::Stop() {
  if (space_ != nullptr) space_->door.Close();
}

std::string StoreHost::address() const {
  return space_ == nullptr ? std::string() : runtime::ToString(space_->door.address());
}

tcpstore::StoreView StoreHost::View() const {
  return space_ == nullptr ? tcpstore::StoreView() : space_->store.View();
}

void StoreHost::Command(tcpstore::ConnectionId from, const tcpstore::Command& command) {
  Space& space = *space_;
  const Time now = MayPark(command) ? runtime::MonotonicNow() : Time();
  space.effects.Clear();
  space.store.Handle(now, from, command, space.effects);
  space.door.CarryOut(space.effects);
  for (const tcpstore::GivenUp& given_up : space.effects.given_up) TellGivenUp(now, given_up);
}

void StoreHost::Left(tcpstore::ConnectionId connection) {
  Space& space = *space_;
  tcpstore::Effects effects;
  space.store.Left(connection, effects);
  space.door.CarryOut(effects);
  if (space.store.connections() > 0 || space.store.size() == 0) return;
  tell_.notice(
      absl::StrFormat("everybody has left the store of attempt %d: its %d keys are forgotten",
                      attempt_, space.store.size()));
  space.store.Clear();
}

void StoreHost::Complain(std::string text) {
  const auto line = complaints_.Pass(runtime::MonotonicNow(), std::move(text));
  if (line) tell_.foreign(*line);
}

void StoreHost::TellGivenUp(Time now, const tcpstore::GivenUp& given_up) {
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
    text += absl::StrFormat("; %d of %d had come", wait.arrived, wait.barrier_size);
  }
  if (wait.waiters > 1) text += absl::StrFormat("; %d more wait for it", wait.waiters - 1);
  if (const auto line = given_up_.Pass(now, std::move(text))) {
    tell_.given_up(*line, whose.empty() ? std::nullopt : wait.rank);
  }
}

}  // namespace lockstep::server
