// One store of torch's clients: what the ranks of one attempt of a job tell each other. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/check_pace.h"
#include "lockstep/base/time.h"
#include "lockstep/stock/tcpstore/clients.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/effects.h"
#include "lockstep/stock/tcpstore/gone_keys.h"
#include "lockstep/stock/tcpstore/key_listing.h"
#include "lockstep/stock/tcpstore/options.h"
#include "lockstep/stock/tcpstore/recorded_keys.h"
#include "lockstep/stock/tcpstore/store_room.h"
#include "lockstep/stock/tcpstore/store_view.h"
#include "lockstep/stock/tcpstore/store_waits.h"
#include "lockstep/stock/tcpstore/view.h"

namespace lockstep::tcpstore {

// Does what torch's TCPStore server does, command by command (docs/protocols/tcpstore.md has the
// rows). It joins machines of one job each: RecordedKeys hold what is there, StoreWaits who waits
// for what, KeyListings which lists are being made, Clients who is connected, and StoreRoom says
// what does not fit.
//
// Invariants, beside those of its parts: (1) nobody waits for a key that has a value; (2) a queued
// value for which a waiter was woken that then did not take it wakes the next one: no queue holds
// more values than waiters were woken for while another waits that needs nothing else.
//
// Threads: thread-compatible. Bounds: StoreOptions; what goes over one is refused and changes
// nothing. Time: only to say since when somebody waits.
class Store {
 public:
  explicit Store(const StoreOptions& options)
      : options_(options), keys_(options.keeps), room_(options) {}
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Before the first command; `peer` is where it calls from.
  void Connected(ConnectionId connection, std::string peer);
  // Answers it, parks it, or refuses it, which changes nothing but ends the connection. `from` is
  // connected. Those who are woken are answered in the order in which they came.
  void Handle(Time now, ConnectionId from, const Command& command, Effects& out);
  // Lists of many keys are answered later: while `lists`, `ListSome` makes one slice, and answers
  // when that was the last. Whom a list is made for asks for nothing before it has that answer.
  bool lists() const { return !listings_.empty(); }
  void ListSome(Effects& out);
  // It is forgotten with its waits.
  void Left(ConnectionId connection, Effects& out);

  // See StoreRoom.
  void SetSurroundings(size_t buffer_bytes, size_t room_bytes) {
    room_.SetSurroundings(buffer_bytes, room_bytes);
  }

  // Forgets all keys and queues.
  void Clear(Effects& out) { keys_.Clear(out.records); }
  // Forgets the values under the keys of the default process group (IsOfGroup), and says how many
  // those were.
  size_t ClearGroup(Effects& out) { return keys_.ClearGroup(out.records); }
  // What the two above have forgotten since this was last asked: to be freed in slices.
  GoneKeys TakeGone() { return keys_.TakeGone(); }
  // Whether `TakeGone` has something to give.
  bool has_gone() const { return keys_.now().has_gone(); }

  // What a record says, before the first command. INVALID_ARGUMENT: it cannot follow those before
  // it.
  absl::Status Apply(const Record& record) { return keys_.Apply(record); }
  // Records that make a fresh store's keys and queues those of this one; values are shared.
  std::vector<Record> Snapshot() const { return keys_.now().Snapshot(); }

  // At most view_rows_max rows of waits; for people.
  StoreView View() const { return MakeView(keys_.now(), waits_, clients_, options_.view_rows_max); }
  size_t connections() const { return clients_.size(); }  // that did not leave
  // Values and queued values.
  size_t size() const { return keys_.now().size(); }
  size_t bytes() const { return keys_.now().bytes(); }  // of keys, values and queued values
  // What it holds, as it costs.
  size_t memory() const {
    return bytes() + size() * KeySpace::kValueBytes + waits_.bytes() + clients_.memory() +
           listings_.bytes();
  }

 private:
  // What handling a command goes along with.
  struct Call {
    void Answer(Answer answer) { out.replies.push_back({from, std::move(answer)}); }
    void Refuse(std::string why) { out.refusals.push_back({from, std::move(why)}); }

    Time now;
    ConnectionId from;
    Effects& out;
  };

  void Do(Call& call, const Set& command);
  void Do(Call& call, const CompareSet& command);
  void Do(Call& call, const Get& command);
  void Do(Call& call, const Add& command);
  void Do(Call& call, const Check& command);
  void Do(Call& call, const Wait& command);
  void Do(Call& call, const CountKeys& command);
  void Do(Call& call, const DeleteKey& command);
  void Do(Call& call, const Append& command);
  void Do(Call& call, const MultiGet& command);
  void Do(Call& call, const MultiSet& command);
  void Do(Call& call, const CancelWait& command);
  void Do(Call& call, const Ping& command);
  void Do(Call& call, const QueuePush& command);
  void Do(Call& call, const QueuePop& command);
  void Do(Call& call, const QueueLength& command);
  void Do(Call& call, const ListKeys& command);
  void Do(Call& call, const Barrier& command);

  StoreRoom::Held Held() const {
    return {
        .entries = size(), .key_bytes = bytes(), .wait_bytes = waits_.bytes(), .total = memory()};
  }
  // Whether so much more fits. False: it was refused, for `what`.
  bool Fits(Call& call, const std::string& what, size_t bytes);
  // The same for so many keys and bytes more.
  bool KeysFit(Call& call, absl::string_view key, size_t keys, size_t bytes);
  bool MayWait(Call& call, absl::string_view key, size_t cost);

  // The number after adding; nothing: it was refused.
  std::optional<int64_t> AddTo(Call& call, absl::string_view key, int64_t amount);
  // Wakes one who waits for the queue, if it holds anything.
  void Offer(const std::string& queue, Effects& out);
  bool InvariantsHold() const;

  const StoreOptions options_;
  RecordedKeys keys_;
  StoreWaits waits_;
  KeyListings listings_;
  Clients clients_;
  StoreRoom room_;
  CheckPace pace_;
};

}  // namespace lockstep::tcpstore
