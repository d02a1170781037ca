#include "lockstep/server/store_host.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "lockstep/base/limits.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/server/entries.h"
#include "lockstep/server/listen_address.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/store/torch_entry.h"

namespace lockstep::server {
namespace {

// Lines of a kind about clients, since whoever reaches the port can cause them.
constexpr int kLines = 10;
constexpr absl::Duration kLinesInterval = absl::Seconds(10);

// A record of a key while a snapshot is written.
constexpr size_t kSnapshotBytes = 192;

// With so much waiting for the disk, of all that the server writes, no more is taken.
constexpr size_t kQueuedBytesMax = size_t{64} << 20;

// Who waits for less than this looks whether a key is there, and misses nobody.
constexpr absl::Duration kWaitToldMin = absl::Seconds(1);

// The others do not look at the time, and there may be a million of them a second.
bool MayPark(const tcpstore::Command& command) {
  return std::holds_alternative<tcpstore::Wait>(command) ||
         std::holds_alternative<tcpstore::Barrier>(command) ||
         std::holds_alternative<tcpstore::CancelWait>(command);
}

// Of HOST:PORT.
std::string HostOf(absl::string_view peer) { return std::string(peer.substr(0, peer.rfind(':'))); }

// "rank 3"; empty: the job has no such rank, or none is known.
std::string RankText(std::optional<int32_t> rank, int32_t ranks) {
  return rank && *rank < ranks ? absl::StrFormat("rank %d", *rank) : std::string();
}

std::vector<std::string> EntriesOfRecords(const std::string& job,
                                          const std::vector<tcpstore::Record>& all) {
  return EntriesOf(absl::MakeConstSpan(all), [&](auto records, std::string& out) {
    return wire::store::EncodeTorchRecords(job, absl::Now(), records, out);
  });
}

}  // namespace

StoreHost::Space::Space(StoreHost& host, runtime::Loop& loop, const StoreHostOptions& options)
    : store(options.store),
      door(loop, options.store, options.door,
           {.connected = [&host](tcpstore::ConnectionId connection,
                                 std::string peer) { host.Connected(connection, std::move(peer)); },
            .command = [&host](tcpstore::ConnectionId from,
                               const tcpstore::Command& command) { host.Command(from, command); },
            .left = [&host](tcpstore::ConnectionId connection) { host.Left(connection); },
            .complain = [&host](std::string text) { host.Complain(std::move(text)); },
            .has_room = [&host, this](size_t bytes) { return host.LimitOf(*this, bytes); },
            .counted = [&host, this] { host.Count(*this); }}) {}

StoreHost::StoreHost(runtime::Loop& loop, const StoreHostOptions& options, CommitQueue& commits,
                     std::string job, int32_t ranks, Tellers tell, runtime::MemoryAccount* memory)
    : loop_(loop),
      options_(options),
      commits_(commits),
      job_(std::move(job)),
      ranks_(ranks),
      tell_(std::move(tell)),
      complaints_(kLines, kLinesInterval),
      given_up_(kLines, kLinesInterval),
      attempts_(options.store.keeps),
      share_(memory, absl::StrFormat("job '%s'", job_), "torch's store"),
      lifetime_(options.rest, ranks) {}

absl::StatusOr<std::unique_ptr<StoreHost::Space>> StoreHost::MakeSpace(uint16_t but) {
  auto space = std::make_unique<Space>(*this, loop_, options_);
  absl::Status status = ListenOnChosenPort(host_, [&](const runtime::Address& at) {
    if (at.port == but) return absl::UnavailableError("the port of the store before");
    return space->door.Listen(at);
  });
  if (!status.ok()) return status;
  return space;
}

absl::Status StoreHost::Apply(const tcpstore::Record& record) {
  if (absl::Status applied = attempts_.Apply(record); !applied.ok()) return applied;
  if (std::holds_alternative<tcpstore::record::Opened>(record)) space_.reset();
  if (options_.none || !options_.store.keeps) return absl::OkStatus();
  if (space_ == nullptr) space_ = std::make_unique<Space>(*this, loop_, options_);
  return space_->store.Apply(record);
}

absl::Status StoreHost::Listen(const std::string& host) {
  if (options_.none) return absl::OkStatus();
  host_ = host;
  const tcpstore::Attempts::Begin begin = attempts_.Start();
  if (begin.again) return ListenAgain(begin.port);
  auto space = MakeSpace(begin.port);
  if (!space.ok()) return space.status();
  space_ = *std::move(space);
  attempts_.Listens(space_->door.address().port());
  return absl::OkStatus();
}

absl::Status StoreHost::ListenAgain(uint16_t port) {
  attempts_.Listens(port);
  absl::Status status = space_->door.Listen({.host = host_, .port = port});
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrFormat("torch's store of attempt %d, with %d keys: %s (its clients know no other "
                      "address: restart the server when the address is free, or without "
                      "--torch-store-durable, which discards the store and begins another)",
                      attempt(), space_->store.size(), std::string(status.message())));
}

void StoreHost::Keep() {
  if (space_ == nullptr) return;
  Write(attempts_.Keep());
  Count(*space_);
}

std::vector<tcpstore::Record> StoreHost::Snapshot() const {
  if (space_ == nullptr) return {};
  std::vector<tcpstore::Record> all = attempts_.Snapshot();
  if (!options_.store.keeps) return all;
  std::vector<tcpstore::Record> records = space_->store.Snapshot();
  all.insert(all.end(), std::make_move_iterator(records.begin()),
             std::make_move_iterator(records.end()));
  return all;
}

void StoreHost::Write(const std::vector<tcpstore::Record>& records) {
  if (records.empty() || !Writes()) return;
  commits_.Commit(EntriesOfRecords(job_, records), [](bool /*durable*/) {});
}

void StoreHost::Start() {
  if (space_ == nullptr || std::exchange(started_, true)) return;
  space_->door.Start();
}

absl::Status StoreHost::Open(int64_t attempt, int64_t of_job) {
  if (space_ == nullptr) return absl::OkStatus();
  const tcpstore::Attempts::Wish wish = attempts_.Asked(attempt);
  if (wish == tcpstore::Attempts::Wish::kCurrent) {
    // Who does not know the number is told where the store is, and has started nobody.
    if (attempt != 0) lifetime_.Launched();
    Write(attempts_.Told());
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
    return wire::native::WithReason(
        absl::FailedPreconditionError(
            absl::StrFormat("attempt %d of the store is over: attempt %d has begun, at %s. The "
                            "caller belongs to an attempt that has been abandoned: end it",
                            attempt, before, address())),
        "attempt_over");
  }
  auto next = MakeSpace(space_->door.address().port());
  if (!next.ok()) return next.status();
  const size_t connections = space_->store.connections();
  tcpstore::Effects unheard;  // the store is over
  space_->store.Clear(unheard);
  FreeGone(*space_);
  space_ = *std::move(next);
  lifetime_.Begin(/*launched=*/true);
  Write(attempts_.Next(attempt, space_->door.address().port()));
  if (started_) space_->door.Start();
  Count(*space_);
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

void StoreHost::Connected(tcpstore::ConnectionId connection, std::string peer) {
  Write(attempts_.Visited());
  lifetime_.Came(runtime::MonotonicNow(), connection, HostOf(peer));
  space_->store.Connected(connection, std::move(peer));
}

void StoreHost::Command(tcpstore::ConnectionId from, const tcpstore::Command& command) {
  Space& space = *space_;
  ++commands_[command.index()];
  const Time now = MayPark(command) ? runtime::MonotonicNow() : Time();
  space.effects.Clear();
  ForgetFirst(from, command, space.effects);
  Surround(space);
  space.store.Handle(now, from, command, space.effects);
  for (tcpstore::Refusal& refusal : space.effects.refusals) {
    if (!absl::StrContains(refusal.why, "(memory_max)")) continue;
    absl::StrAppend(&refusal.why, ": ", share_.account()->Refusal(0));
  }
  for (const tcpstore::GivenUp& given_up : space.effects.given_up) TellGivenUp(now, given_up);
  Finish(space, space.effects);
  Count(space);
  FreeGone(space);
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
      space_->store.ClearGroup(out);
  }
}

void StoreHost::FreeGone(Space& space) {
  if (!space.store.has_gone()) return;
  auto gone = std::make_unique<tcpstore::GoneKeys>(space.store.TakeGone());
  runtime::RunInTurns(loop_, [gone = std::move(gone)] { return gone->FreeSome(); });
}

void StoreHost::Surround(Space& space) {
  const runtime::MemoryAccount* const memory = share_.account();
  const uint64_t room = memory == nullptr ? std::numeric_limits<uint64_t>::max() : memory->Room();
  // Beside what is kept there is a record, and the entry that it becomes.
  space.store.SetSurroundings(space.door.memory() + space.held_bytes, room / (Writes() ? 3 : 2));
}

void StoreHost::Count(const Space& space) {
  const size_t snapshot = Writes() ? space.store.size() * kSnapshotBytes : 0;
  share_.Set(space.store.memory() + space.door.memory() + snapshot);
}

std::string StoreHost::LimitOf(const Space& space, size_t bytes) const {
  const size_t limit = options_.store.store_bytes_max;
  const size_t held = space.store.memory() + space.door.memory() + space.held_bytes;
  if (held > limit || bytes > limit - held) {
    return absl::StrFormat("torch_store_bytes_max (%d), of which %d are held", limit, held);
  }
  runtime::MemoryAccount* const memory = share_.account();
  return memory == nullptr || memory->HasRoom(bytes) ? "" : memory->Refusal(bytes);
}

void StoreHost::Left(tcpstore::ConnectionId connection) {
  Space& space = *space_;
  const size_t before = space.store.connections();
  tcpstore::Effects effects;
  space.store.Left(connection, effects);
  Finish(space, effects);
  Count(space);
  // Who never said a word was not there.
  if (space.store.connections() == before) return;
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
  Finish(*space_, effects);
  Count(*space_);
  FreeGone(*space_);
}

void StoreHost::ForgetKeys(const std::string& because, tcpstore::Effects& out) {
  tcpstore::Store& store = space_->store;
  if (store.size() == 0) return;
  tell_.notice(absl::StrFormat("discarded the %d keys in the store of attempt %d: %s", store.size(),
                               attempt(), because));
  store.Clear(out);
}

void StoreHost::Finish(Space& space, tcpstore::Effects& effects) {
  // What it tells of may be a change that is not durable yet.
  const bool waits = (!effects.records.empty() && Writes()) || space.held > 0;
  waits ? Hold(space, effects) : space.door.CarryOut(effects);
}

void StoreHost::Hold(Space& space, tcpstore::Effects& effects) {
  const bool changes = !effects.records.empty() && Writes();
  std::vector<std::string> entries;
  if (changes) entries = EntriesOfRecords(job_, effects.records);
  effects.records.clear();
  size_t bytes = 0;
  for (const std::string& entry : entries) bytes += entry.size();
  for (const tcpstore::Reply& reply : effects.replies)
    bytes += tcpstore::ValueBytesOf(reply.answer);
  // As it would be if they were closed now.
  for (const tcpstore::Refusal& refusal : effects.refusals) {
    space.door.TakeNoMoreOf(refusal.connection);
  }
  ++space.held;
  space.held_bytes += bytes;
  if (space.held >= kHeldMax || space.held_bytes >= kHeldBytesMax ||
      commits_.queued_bytes() >= kQueuedBytesMax) {
    space.paused = true;
    space.door.Pause();
  }
  CommitQueue::Release release = [this, &space, bytes, alive = std::weak_ptr(space.alive),
                                  effects = std::exchange(effects, {})](bool durable) {
    if (!alive.expired()) LetGo(space, effects, bytes, durable);
  };
  if (changes) return commits_.Commit(std::move(entries), std::move(release));
  commits_.Follow(std::move(release));
}

// A journal that has failed ends the server, and the connections with it.
void StoreHost::LetGo(Space& space, const tcpstore::Effects& effects, size_t bytes, bool durable) {
  --space.held;
  space.held_bytes -= bytes;
  if (durable) space.door.CarryOut(effects);
  if (!space.paused || space.held > kHeldMax / 2 || space.held_bytes > kHeldBytesMax / 2) return;
  space.paused = false;
  space.door.Resume();
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
    text += absl::StrFormat("; %d of %d had arrived", wait.arrived, wait.barrier_size);
  }
  if (wait.waiters > 1) text += absl::StrFormat("; %d more are waiting for it", wait.waiters - 1);
  if (const auto line = given_up_.Pass(now, std::move(text))) {
    tell_.given_up(*line, whose.empty() ? std::nullopt : wait.rank);
  }
}

}  // namespace lockstep::server
