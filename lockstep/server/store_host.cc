#include "lockstep/server/store_host.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "lockstep/runtime/dial.h"
#include "lockstep/server/listen_address.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

// Lines of the log about clients, since whoever reaches the port can cause them.
constexpr int kComplaints = 10;
constexpr absl::Duration kComplaintsInterval = absl::Seconds(10);

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

StoreHost::StoreHost(runtime::Loop& loop, const StoreHostOptions& options, Tell tell, Tell warn)
    : loop_(loop),
      options_(options),
      tell_(std::move(tell)),
      warn_(std::move(warn)),
      complaints_(kComplaints, kComplaintsInterval) {}

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
  tell_(
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
  space.effects.Clear();
  space.store.Handle(runtime::MonotonicNow(), from, command, space.effects);
  space.door.CarryOut(space.effects);
}

void StoreHost::Left(tcpstore::ConnectionId connection) {
  Space& space = *space_;
  tcpstore::Effects effects;
  space.store.Left(connection, effects);
  space.door.CarryOut(effects);
  if (space.store.connections() > 0 || space.store.size() == 0) return;
  tell_(absl::StrFormat("everybody has left the store of attempt %d: its %d keys are forgotten",
                        attempt_, space.store.size()));
  space.store.Clear();
}

void StoreHost::Complain(std::string text) {
  const auto line = complaints_.Pass(runtime::MonotonicNow(), std::move(text));
  if (line) warn_(*line);
}

}  // namespace lockstep::server
