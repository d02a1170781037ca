// One store of torch's clients: what the ranks of one attempt of a job tell each other. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/time.h"
#include "lockstep/tcpstore/commands.h"
#include "lockstep/tcpstore/effects.h"
#include "lockstep/tcpstore/gone_keys.h"
#include "lockstep/tcpstore/options.h"
#include "lockstep/tcpstore/process_groups.h"
#include "lockstep/tcpstore/store_waits.h"
#include "lockstep/tcpstore/view.h"

namespace lockstep::tcpstore {

// Does what torch's TCPStore server does (docs/protocols/tcpstore.md has the rows), and knows who
// waits for what. Keys are bytes, without order or directories. A queue is kept beside the value
// under the same key; a queue that holds something counts as the key's existence.
//
// Invariants: (1) nobody waits for a key that has a value; (2) `bytes` is the sum over all keys,
// values and queued values; (3) a queued value for which a waiter was woken that then did not take
// it wakes the next one; (4) its records, applied in order to a fresh store, make its keys and
// queues again.
//
// Threads: thread-compatible. Bounds: StoreOptions; what goes over one is refused and changes
// nothing. Time: only to say since when somebody waits.
class Store {
 public:
  explicit Store(const StoreOptions& options) : options_(options) {}
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Before the first command; `peer` is where it calls from.
  void Connected(ConnectionId connection, std::string peer);
  void Handle(Time now, ConnectionId from, const Command& command, Effects& out);

  // What is around it, until told otherwise: what clients' buffers hold, which counts for
  // store_bytes_max; and how much more the whole server may hold (`memory_max`).
  void SetSurroundings(size_t buffer_bytes, size_t room_bytes) {
    buffer_bytes_ = buffer_bytes;
    room_bytes_ = room_bytes;
  }
  // It is forgotten with its waits.
  void Left(ConnectionId connection, Effects& out);

  // Forgets all keys and queues.
  void Clear(Effects& out);
  // Forgets the values under the keys of the default process group (IsOfGroup), and says how many
  // those were.
  size_t ClearGroup(Effects& out);
  // What the two above have forgotten since this was last asked: to be freed in slices.
  GoneKeys TakeGone() { return std::exchange(gone_, {}); }
  bool has_gone() const { return !gone_.empty(); }

  // What a record says, before the first command. INVALID_ARGUMENT: it cannot follow those before
  // it.
  absl::Status Apply(const Record& record);
  // Records that make a fresh store's keys and queues those of this one; values are shared.
  std::vector<Record> Snapshot() const;

  StoreView View() const;
  size_t connections() const { return connections_.size(); }
  // Values and queued values.
  size_t size() const { return keys() + queued_; }
  size_t bytes() const { return bytes_; }
  // What it holds, as it costs.
  size_t memory() const {
    return bytes_ + size() * kValueBytes + waits_.bytes() + connections_.size() * kConnectionBytes;
  }

 private:
  // Nodes and headers, about: of a key with its value, or a queued value; of who is connected.
  static constexpr size_t kValueBytes = 160;
  static constexpr size_t kConnectionBytes = 192;

  struct Connection {
    std::string peer;
    std::optional<int32_t> rank;  // by the first key of its own that it set
    // The queue for whose value it was woken, until its next command.
    std::optional<std::string> woken_for;
  };
  // What handling a command goes along with.
  struct Call {
    Time now;
    ConnectionId from;
    Connection& connection;
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

  void Answer(Call& call, Answer answer);
  void Refuse(Call& call, std::string why);
  // So much more. False: over a limit, and the connection is refused; `what` has no room.
  bool Holds(Call& call, const std::string& what, size_t bytes);
  // So many keys and bytes more. False: over a limit, and the connection is refused.
  bool HasRoom(Call& call, absl::string_view key, size_t keys, size_t bytes);
  bool MayWait(Call& call, absl::string_view key, size_t cost);

  size_t keys() const { return keys_.size() + group_keys_.size(); }
  KeyTable& TableOf(absl::string_view key) { return IsOfGroup(key) ? group_keys_ : keys_; }
  const KeyTable& TableOf(absl::string_view key) const {
    return IsOfGroup(key) ? group_keys_ : keys_;
  }
  ValuePtr Lookup(absl::string_view key) const;
  bool Exists(absl::string_view key) const;
  void Put(absl::string_view key, ValuePtr value);
  // Puts the value, and records it; nobody is told yet.
  void Write(Effects& out, absl::string_view key, ValuePtr value);
  // There is a value now: whoever waits for the key is told.
  void TellWaiters(absl::string_view key, Effects& out);
  void KnowRank(Connection& connection, absl::string_view key);
  void Lengthen(absl::string_view key, absl::string_view more);
  void Push(absl::string_view key, ValuePtr value);
  ValuePtr Pop(QueueTable::iterator queue);
  bool Delete(absl::string_view key);
  void ForgetAll();
  void ForgetGroup();

  absl::Status ApplyTo(const record::Opened& record);
  absl::Status ApplyTo(const record::Used& record);
  absl::Status ApplyTo(const record::KeySet& record);
  absl::Status ApplyTo(const record::ValueAppended& record);
  absl::Status ApplyTo(const record::KeyDeleted& record);
  absl::Status ApplyTo(const record::QueuePushed& record);
  absl::Status ApplyTo(const record::QueuePopped& record);
  absl::Status ApplyTo(const record::Cleared& record);
  absl::Status ApplyTo(const record::GroupCleared& record);

  // The number after adding; nothing: it was refused.
  std::optional<int64_t> AddTo(Call& call, absl::string_view key, int64_t amount);
  // Wakes one who waits for the queue, if it holds anything.
  void Offer(const std::string& key, Effects& out);
  // The connection was woken for a queued value and does something else: it is another's.
  void PassOn(Connection& connection, Effects& out);

  WaiterView ViewOf(const StoreWaits::Waiter& waiter) const;
  AwaitedView ViewOf(const std::string& key, const StoreWaits::Waiters& waiters) const;

  const StoreOptions options_;
  // These four: never iterated for effects.
  KeyTable keys_;
  KeyTable group_keys_;  // those of the default process group
  QueueTable queues_;
  absl::flat_hash_map<ConnectionId, Connection> connections_;
  StoreWaits waits_;
  size_t queued_ = 0;
  size_t bytes_ = 0;
  size_t group_bytes_ = 0;  // of those, in group_keys_
  GoneKeys gone_;
  size_t buffer_bytes_ = 0;
  size_t room_bytes_ = std::numeric_limits<size_t>::max();
};

}  // namespace lockstep::tcpstore
