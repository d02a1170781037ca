#include "lockstep/server/store_space.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"

namespace lockstep::server {
namespace {

// A record of a key while a snapshot is written.
constexpr size_t kSnapshotBytes = 192;

}  // namespace

StoreSpace::StoreSpace(runtime::Loop& loop, const tcpstore::StoreOptions& options,
                       const net::TorchStoreListenerOptions& listener, StoreJournal& journal,
                       runtime::MemoryShare& share, Events events)
    : loop_(loop),
      bytes_max_(options.store_bytes_max),
      journal_(journal),
      share_(share),
      store_(options),
      listener_(loop, options, listener,
                {.connected = events.connected,
                 .command = events.command,
                 .left =
                     [left = events.left](tcpstore::ConnectionId connection) {
                       tcpstore::Effects none;
                       left(connection, none);
                     },
                 .complain = std::move(events.complain),
                 .has_room = [this](size_t bytes) { return LimitOf(bytes); },
                 .counted = [this] { Count(); }}),
      passed_(options,
              {.connected = std::move(events.connected),
               .command = std::move(events.command),
               .again =
                   [this](tcpstore::ConnectionId connection, tcpstore::ValuePtr answer) {
                     tcpstore::Effects effects;
                     effects.replies.push_back({connection, tcpstore::Encoded{std::move(answer)}});
                     Settle(effects);
                   },
               .cancelled = std::move(events.cancelled),
               .left = std::move(events.left),
               .answer = std::move(events.answer)}) {}

tcpstore::Effects& StoreSpace::NoEffects() {
  effects_.Clear();
  return effects_;
}

void StoreSpace::Handle(Time now, tcpstore::ConnectionId from, const tcpstore::Command& command,
                        tcpstore::Effects& out) {
  const runtime::MemoryAccount* const memory = share_.account();
  const uint64_t room = memory == nullptr ? std::numeric_limits<uint64_t>::max() : memory->Room();
  // Beside what is kept there is a record, and the entry that it becomes.
  store_.SetSurroundings(listener_.memory() + passed_.memory() + held_.bytes,
                         room / (journal_.writes() ? 3 : 2));
  store_.Handle(now, from, command, out);
  passed_.Handled(from, command, out);
  for (tcpstore::Refusal& refusal : out.refusals) {
    if (!absl::StrContains(refusal.why, "(memory_max)")) continue;
    absl::StrAppend(&refusal.why, ": ", share_.account()->Refusal(0));
  }
}

void StoreSpace::Left(tcpstore::ConnectionId connection, tcpstore::Effects& out) {
  store_.Left(connection, out);
  passed_.Replied(out);
}

void StoreSpace::Settle(tcpstore::Effects& effects) {
  // What it tells of may be a change that is not durable yet.
  const bool waits =
      (!effects.records.empty() && journal_.writes()) || held_.count > 0 || journal_.confirms();
  waits ? Hold(effects) : CarryOut(effects);
  Count();
  FreeGone();
  MakeLists();
}

void StoreSpace::CarryOut(const tcpstore::Effects& effects) {
  listener_.CarryOut(effects);
  passed_.CarryOut(effects);
}

void StoreSpace::Hold(tcpstore::Effects& effects) {
  std::vector<std::string> entries;
  if (!effects.records.empty() && journal_.writes()) entries = journal_.EntriesOf(effects.records);
  effects.records.clear();
  size_t bytes = 0;
  for (const std::string& entry : entries) bytes += entry.size();
  for (const tcpstore::Reply& reply : effects.replies)
    bytes += tcpstore::ValueBytesOf(reply.answer);
  // As it would be if they were closed now.
  for (const tcpstore::Refusal& refusal : effects.refusals)
    listener_.TakeNoMoreOf(refusal.connection);
  ++held_.count;
  held_.bytes += bytes;
  if (held_.count >= kHeldMax || held_.bytes >= kHeldBytesMax || journal_.behind()) {
    held_.paused = true;
    listener_.Pause();
  }
  journal_.Commit(std::move(entries), [this, bytes, alive = std::weak_ptr(alive_),
                                       effects = std::exchange(effects, {})](bool durable) {
    if (!alive.expired()) LetGo(effects, bytes, durable);
  });
}

// A journal that has failed ends the server, and the connections with it.
void StoreSpace::LetGo(const tcpstore::Effects& effects, size_t bytes, bool durable) {
  LOCKSTEP_DCHECK(held_.count > 0 && held_.bytes >= bytes);
  --held_.count;
  held_.bytes -= bytes;
  LOCKSTEP_DCHECK(held_.count > 0 || held_.bytes == 0);
  if (durable) CarryOut(effects);
  if (!held_.paused || held_.count > kHeldMax / 2 || held_.bytes > kHeldBytesMax / 2) return;
  held_.paused = false;
  listener_.Resume();
}

void StoreSpace::AgentGone(SessionId agent) {
  runtime::RunInTurns(loop_, [this, agent, alive = std::weak_ptr(alive_)] {
    return !alive.expired() && passed_.EndOneOf(agent);
  });
}

void StoreSpace::Discard(const absl::Status& why) {
  passed_.Close(why);
  tcpstore::Effects unheard;
  store_.Clear(unheard);
  FreeGone();
}

void StoreSpace::FreeGone() {
  if (!store_.has_gone()) return;
  auto gone = std::make_unique<tcpstore::GoneKeys>(store_.TakeGone());
  runtime::RunInTurns(loop_, [gone = std::move(gone)] { return gone->FreeSome(); });
}

void StoreSpace::MakeLists() {
  if (!store_.lists() || std::exchange(lists_, true)) return;
  // In turns of their own: this one may be another connection's.
  loop_.Post([this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    runtime::RunInTurns(loop_, [this, alive] { return !alive.expired() && ListSome(); });
  });
}

bool StoreSpace::ListSome() {
  tcpstore::Effects effects;
  if (store_.lists()) store_.ListSome(effects);
  if (effects.replies.empty() && effects.refusals.empty()) {
    Count();  // of the list so far
  } else {
    passed_.Replied(effects);
    Settle(effects);
  }
  return lists_ = store_.lists();
}

void StoreSpace::Count() {
  const size_t snapshot = journal_.writes() ? store_.size() * kSnapshotBytes : 0;
  share_.Set(store_.memory() + listener_.memory() + passed_.memory() + snapshot);
}

std::string StoreSpace::LimitOf(size_t bytes) const {
  const size_t held = store_.memory() + listener_.memory() + passed_.memory() + held_.bytes;
  if (held > bytes_max_ || bytes > bytes_max_ - held) {
    return absl::StrFormat("torch_store_bytes_max (%d), of which %d are held", bytes_max_, held);
  }
  runtime::MemoryAccount* const memory = share_.account();
  return memory == nullptr || memory->HasRoom(bytes) ? "" : memory->Refusal(bytes);
}

}  // namespace lockstep::server
