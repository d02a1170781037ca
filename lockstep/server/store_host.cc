#include "lockstep/server/store_host.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/server/listen_address.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

// The others do not look at the time, and there may be a million of them a second.
bool MayPark(const tcpstore::Command& command) {
  return std::holds_alternative<tcpstore::Wait>(command) ||
         std::holds_alternative<tcpstore::Barrier>(command) ||
         std::holds_alternative<tcpstore::CancelWait>(command);
}

// Of HOST:PORT.
std::string HostOf(absl::string_view peer) { return std::string(peer.substr(0, peer.rfind(':'))); }

}  // namespace

StoreHost::StoreHost(runtime::Loop& loop, const StoreHostOptions& options, CommitQueue& commits,
                     std::string job, int32_t ranks, Tellers tell, runtime::MemoryAccount* memory,
                     Answer answer)
    : loop_(loop),
      options_(options),
      journal_(commits, job),
      log_(std::move(tell), ranks),
      share_(memory, absl::StrFormat("job '%s'", job), "torch's store"),
      attempts_(options.store.keeps),
      lifetime_(options.rest, ranks),
      answer_(std::move(answer)) {}

std::unique_ptr<StoreSpace> StoreHost::MakeSpace() {
  return std::make_unique<StoreSpace>(
      loop_, options_.store, options_.listener, journal_, share_,
      StoreSpace::Events{
          .connected = [this](tcpstore::ConnectionId connection,
                              std::string peer) { Connected(connection, std::move(peer)); },
          .command = [this](tcpstore::ConnectionId from,
                            const tcpstore::Command& command) { Command(from, command); },
          .cancelled = [this](tcpstore::ConnectionId connection) { Cancelled(connection); },
          .left = [this](tcpstore::ConnectionId connection,
                         tcpstore::Effects& out) { Left(connection, out); },
          .complain = [this](std::string text) { log_.Foreign(std::move(text)); },
          .answer = answer_});
}

absl::StatusOr<std::unique_ptr<StoreSpace>> StoreHost::MakeSpaceNotAt(uint16_t port) {
  std::unique_ptr<StoreSpace> space = MakeSpace();
  absl::Status status = ListenOnChosenPort(host_, [&](const runtime::Address& at) {
    if (at.port == port) return absl::UnavailableError("the port of the store before");
    return space->listener().Listen(at);
  });
  if (!status.ok()) return status;
  return space;
}

absl::Status StoreHost::Apply(const tcpstore::Record& record) {
  if (absl::Status applied = attempts_.Apply(record); !applied.ok()) return applied;
  if (std::holds_alternative<tcpstore::record::Opened>(record)) space_.reset();
  if (options_.none || !options_.store.keeps) return absl::OkStatus();
  if (space_ == nullptr) space_ = MakeSpace();
  space_->passed().Apply(record);
  return space_->store().Apply(record);
}

absl::Status StoreHost::Listen(const std::string& host) {
  if (options_.none) return absl::OkStatus();
  host_ = host;
  const tcpstore::Attempts::Begin begin = attempts_.Start();
  if (begin.again) return ListenAgain(begin.port);
  auto space = MakeSpaceNotAt(begin.port);
  if (!space.ok()) return space.status();
  space_ = *std::move(space);
  attempts_.Listens(space_->listener().address().port());
  return absl::OkStatus();
}

absl::Status StoreHost::ListenAgain(uint16_t port) {
  attempts_.Listens(port);
  absl::Status status = space_->listener().Listen({.host = host_, .port = port});
  if (status.ok()) return status;
  if (options_.moves) {
    status = ListenOnChosenPort(
        host_, [this](const runtime::Address& at) { return space_->listener().Listen(at); });
    if (status.ok()) attempts_.Listens(space_->listener().address().port());
    return status;
  }
  return absl::Status(
      status.code(),
      absl::StrFormat("torch's store of attempt %d, with %d keys: %s (its clients know no other "
                      "address: restart the server when the address is free, or without "
                      "--torch-store-durable, which discards the store and begins another)",
                      attempt(), space_->store().size(), std::string(status.message())));
}

void StoreHost::Keep() {
  if (space_ == nullptr) return;
  journal_.Write(attempts_.Keep());
  space_->Count();
}

std::vector<tcpstore::Record> StoreHost::Snapshot() const {
  if (space_ == nullptr) return {};
  std::vector<tcpstore::Record> all = attempts_.Snapshot();
  if (!options_.store.keeps) return all;
  std::vector<tcpstore::Record> records = space_->store().Snapshot();
  all.insert(all.end(), std::make_move_iterator(records.begin()),
             std::make_move_iterator(records.end()));
  std::vector<tcpstore::Record> passed = space_->passed().Snapshot();
  all.insert(all.end(), std::make_move_iterator(passed.begin()),
             std::make_move_iterator(passed.end()));
  return all;
}

void StoreHost::Start() {
  if (space_ == nullptr || std::exchange(started_, true)) return;
  space_->listener().Start();
}

absl::Status StoreHost::Open(int64_t attempt, int64_t of_job) {
  if (space_ == nullptr) return absl::OkStatus();
  const tcpstore::Attempts::Wish wish = attempts_.Asked(attempt);
  if (wish == tcpstore::Attempts::Wish::kCurrent) {
    // Who does not know the number is told where the store is, and has started nobody.
    if (attempt != 0) lifetime_.Launched();
    journal_.Write(attempts_.Told());
    return absl::OkStatus();
  }
  const int64_t before = attempts_.current();
  if (!IsAttemptWithin(attempt, std::max(before, of_job))) {
    return wire::native::WithReason(
        absl::InvalidArgumentError(
            absl::StrFormat("attempt %d of the store is more than %d ahead of the current attempt "
                            "%d (attempts_ahead_max); correct the number",
                            attempt, kAttemptsAheadMax, std::max(before, of_job))),
        "invalid_argument");
  }
  if (wish == tcpstore::Attempts::Wish::kOver) {
    return AttemptOver(attempt, *this);
  }
  auto next = MakeSpaceNotAt(space_->listener().address().port());
  if (!next.ok()) return next.status();
  const size_t connections = space_->store().connections();
  journal_.Write(attempts_.Next(attempt, (*next)->listener().address().port()));
  {
    const auto old = std::exchange(space_, *std::move(next));
    old->Discard(AttemptOver(before, *this));
  }
  lifetime_.Begin(/*launched=*/true);
  if (started_) space_->listener().Start();
  space_->Count();
  log_.Write(
      absl::StrFormat("attempt %d of the store begins at %s; that of attempt %d is closed, with "
                      "%d connections",
                      attempt, address(), before, connections));
  return absl::OkStatus();
}

absl::Status AttemptOver(int64_t attempt, const StoreHost& stores) {
  return wire::native::WithReason(
      absl::FailedPreconditionError(absl::StrFormat(
          "attempt %d of the store is over: attempt %d has begun, at %s. The caller "
          "belongs to an attempt that has been abandoned: end it",
          attempt, stores.attempt(), stores.address())),
      "attempt_over");
}

void StoreHost::Stop() {
  if (space_ != nullptr) space_->listener().Close();
}

std::string StoreHost::address() const {
  return space_ == nullptr ? std::string() : runtime::ToString(space_->listener().address());
}

tcpstore::StoreView StoreHost::View() const {
  return space_ == nullptr ? tcpstore::StoreView() : space_->store().View();
}

void StoreHost::Connected(tcpstore::ConnectionId connection, std::string peer) {
  journal_.Write(attempts_.Visited());
  lifetime_.Came(runtime::MonotonicNow(), connection, HostOf(peer));
  space_->store().Connected(connection, std::move(peer));
}

void StoreHost::Command(tcpstore::ConnectionId from, const tcpstore::Command& command) {
  LOCKSTEP_DCHECK(space_ != nullptr && started_);
  ++commands_[command.index()];
  const Time now = MayPark(command) ? runtime::MonotonicNow() : Time();
  tcpstore::Effects& effects = space_->NoEffects();
  ForgetFirst(from, command, effects);
  space_->Handle(now, from, command, effects);
  for (const tcpstore::GivenUp& given_up : effects.given_up) log_.GivenUp(now, given_up);
  space_->Settle(effects);
}

void StoreHost::ForgetFirst(tcpstore::ConnectionId from, const tcpstore::Command& command,
                            tcpstore::Effects& out) {
  switch (lifetime_.Asks(from, command)) {
    case tcpstore::Lifetime::Forget::kNothing:
      return;
    case tcpstore::Lifetime::Forget::kAll:
      return ForgetKeys(
          "after an idle period, a process that was not there before begins a new run", out);
    case tcpstore::Lifetime::Forget::kGroup:
      space_->store().ClearGroup(out);
  }
}

void StoreHost::Cancelled(tcpstore::ConnectionId connection) {
  const Time now = runtime::MonotonicNow();
  tcpstore::Effects effects;
  space_->Handle(now, connection, tcpstore::CancelWait{}, effects);
  for (const tcpstore::GivenUp& given_up : effects.given_up) log_.GivenUp(now, given_up);
  space_->Settle(effects);
}

void StoreHost::Left(tcpstore::ConnectionId connection, tcpstore::Effects& effects) {
  const size_t before = space_->store().connections();
  space_->Left(connection, effects);
  space_->Settle(effects);
  // Who never said a word was not there.
  if (space_->store().connections() == before) return;
  ForgetIfOver(lifetime_.Left(runtime::MonotonicNow(), connection));
}

void StoreHost::Note(const coord::Event& event) {
  if (space_ == nullptr) return;
  if (const auto* began = std::get_if<coord::RunBegan>(&event)) {
    lifetime_.RunBegan(began->size);
  } else if (const auto* started = std::get_if<coord::ProcessStarted>(&event)) {
    lifetime_.ProcessStarted(started->member.value(), started->pid);
  } else if (const auto* ended = std::get_if<coord::ProcessEnded>(&event)) {
    ForgetIfOver(lifetime_.ProcessEnded(ended->member.value(), ended->pid));
  }
}

void StoreHost::ForgetIfOver(bool over) {
  if (!over) return;
  tcpstore::Effects effects;
  ForgetKeys("all processes of the attempt have ended", effects);
  space_->Settle(effects);
}

void StoreHost::ForgetKeys(const std::string& because, tcpstore::Effects& out) {
  tcpstore::Store& store = space_->store();
  if (store.size() == 0) return;
  log_.Write(absl::StrFormat("discarded the %d keys in the store of attempt %d: %s", store.size(),
                             attempt(), because));
  store.Clear(out);
}

}  // namespace lockstep::server
