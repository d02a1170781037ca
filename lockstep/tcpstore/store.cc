#include "lockstep/tcpstore/store.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/tcpstore/rank_name.h"

namespace lockstep::tcpstore {
namespace {

constexpr size_t kKeyBytesInText = 128;

// What a value in an answer costs beside its bytes.
constexpr size_t kAnsweredBytes = 96;

ValuePtr MakeValue(absl::string_view bytes) {
  return std::make_shared<const std::string>(bytes.data(), bytes.size());
}

size_t SizeOf(const ValuePtr& value) { return value ? value->size() : 0; }

// For a sentence.
std::string Quoted(absl::string_view key) {
  return absl::StrCat("'", absl::CHexEscape(key.substr(0, kKeyBytesInText)),
                      key.size() > kKeyBytesInText ? "..." : "", "'");
}

// As C's strtoll reads it: blanks, a sign, and as many digits as there are, at least one. Nothing:
// it is no number, or one beyond 64 bits.
std::optional<int64_t> NumberIn(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  const bool negative = !text.empty() && text.front() == '-';
  if (negative || (!text.empty() && text.front() == '+')) text.remove_prefix(1);
  const uint64_t most = (uint64_t{1} << 63) - (negative ? 0 : 1);
  uint64_t number = 0;
  size_t digits = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') break;
    const uint64_t digit = static_cast<uint64_t>(c - '0');
    if (number > (most - digit) / 10) return std::nullopt;
    number = number * 10 + digit;
    ++digits;
  }
  if (digits == 0) return std::nullopt;
  return static_cast<int64_t>(negative ? ~number + 1 : number);
}

// Past the last number comes the first, as in torch's server.
int64_t AddAround(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace

void Store::Connected(ConnectionId connection, std::string peer) {
  connections_[connection].peer = std::move(peer);
}

void Store::Handle(Time now, ConnectionId from, const Command& command, Effects& out) {
  const auto found = connections_.find(from);
  LOCKSTEP_CHECK(found != connections_.end());
  Connection& connection = found->second;
  if (connection.woken_for) {
    const auto* pop = std::get_if<QueuePop>(&command);
    if (pop != nullptr && pop->key == *connection.woken_for) {
      connection.woken_for.reset();
    } else {
      PassOn(connection, out);
    }
  }
  Call call = {now, from, connection, out};
  std::visit([&](const auto& is) { Do(call, is); }, command);
}

void Store::Left(ConnectionId connection, Effects& out) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  waits_.Forget(connection);
  Connection gone = std::move(found->second);
  connections_.erase(found);
  PassOn(gone, out);
}

void Store::Clear(Effects& out) {
  ForgetAll();
  if (options_.keeps) out.records.emplace_back(record::Cleared{});
}

size_t Store::ClearGroup(Effects& out) {
  const size_t count = group_keys_.size();
  if (count == 0) return 0;
  ForgetGroup();
  if (options_.keeps) out.records.emplace_back(record::GroupCleared{});
  return count;
}

void Store::Answer(Call& call, tcpstore::Answer answer) {
  call.out.replies.push_back({call.from, std::move(answer)});
}

void Store::Refuse(Call& call, std::string why) {
  call.out.refusals.push_back({call.from, std::move(why)});
}

bool Store::Holds(Call& call, const std::string& what, size_t bytes) {
  if (bytes > room_bytes_) {
    Refuse(call, absl::StrCat(what, " finds no room in the server's memory (memory_max)"));
    return false;
  }
  const size_t held = memory() + buffer_bytes_;
  if (bytes > options_.store_bytes_max - std::min(held, options_.store_bytes_max)) {
    Refuse(call, absl::StrCat(what, " is over the limit torch_store_bytes_max (",
                              options_.store_bytes_max, "), of which ", held,
                              " bytes are held: ", bytes_, " in keys and values, ", waits_.bytes(),
                              " in waits, ", buffer_bytes_, " on their way to and from clients"));
    return false;
  }
  return true;
}

bool Store::HasRoom(Call& call, absl::string_view key, size_t keys, size_t bytes) {
  if (size() + keys > options_.keys_max) {
    Refuse(call, absl::StrCat("key ", Quoted(key), " is over the limit torch_keys_max (",
                              options_.keys_max, " keys and queued values)"));
    return false;
  }
  // Most commands are far from any limit, and make no text.
  const size_t cost = bytes + keys * kValueBytes;
  const size_t held = memory() + buffer_bytes_;
  if (cost <= room_bytes_ && held <= options_.store_bytes_max &&
      cost <= options_.store_bytes_max - held) {
    return true;
  }
  return Holds(call, absl::StrCat("key ", Quoted(key)), cost);
}

bool Store::MayWait(Call& call, absl::string_view key, size_t cost) {
  if (waits_.Count(call.from) < options_.waits_per_connection_max) {
    return Holds(call, absl::StrCat("a wait for ", Quoted(key)), cost);
  }
  Refuse(call, absl::StrCat("it waits for ", options_.waits_per_connection_max,
                            " things already (torch_waits_per_connection_max) and now for ",
                            Quoted(key)));
  return false;
}

ValuePtr Store::Lookup(absl::string_view key) const {
  const KeyTable& values = TableOf(key);
  const auto found = values.find(key);
  return found == values.end() ? nullptr : found->second;
}

bool Store::Exists(absl::string_view key) const {
  return TableOf(key).contains(key) || queues_.contains(key);
}

void Store::Write(Effects& out, absl::string_view key, ValuePtr value) {
  if (options_.keeps) out.records.push_back(record::KeySet{std::string(key), value});
  Put(key, std::move(value));
}

void Store::TellWaiters(absl::string_view key, Effects& out) {
  waits_.KeySet(
      key, [this](absl::string_view other) { return Exists(other); }, out);
}

// Whoever starts sets a key of its own first.
void Store::KnowRank(Connection& connection, absl::string_view key) {
  if (!connection.rank) connection.rank = RankOfKey(key);
}

void Store::Do(Call& call, const Set& command) {
  const size_t before = keys();
  if (!HasRoom(call, command.key, TableOf(command.key).contains(command.key) ? 0 : 1,
               command.key.size() + command.value.size())) {
    return;
  }
  Write(call.out, command.key, MakeValue(command.value));
  // Nobody waits for a key that had a value.
  if (keys() == before) return;
  TellWaiters(command.key, call.out);
  KnowRank(call.connection, command.key);
}

void Store::Do(Call& call, const CompareSet& command) {
  const ValuePtr stored = Lookup(command.key);
  if (!stored && !command.expected.empty()) {
    return Answer(call, SentValue{std::string(command.expected)});
  }
  if (stored && *stored != command.expected) return Answer(call, Value{stored});
  if (!HasRoom(call, command.key, stored ? 0 : 1, command.key.size() + command.desired.size())) {
    return;
  }
  const ValuePtr desired = MakeValue(command.desired);
  Answer(call, Value{desired});
  Write(call.out, command.key, desired);
  TellWaiters(command.key, call.out);
  KnowRank(call.connection, command.key);
}

void Store::Do(Call& call, const Get& command) { Answer(call, Value{Lookup(command.key)}); }

std::optional<int64_t> Store::AddTo(Call& call, absl::string_view key, int64_t amount) {
  const ValuePtr stored = Lookup(key);
  int64_t number = 0;
  if (stored) {
    const std::optional<int64_t> parsed = NumberIn(*stored);
    if (!parsed) {
      Refuse(call, absl::StrCat("it adds to key ", Quoted(key),
                                ", whose value is no number: ", Quoted(*stored)));
      return std::nullopt;
    }
    number = *parsed;
  }
  number = AddAround(number, amount);
  std::string text = absl::StrCat(number);
  if (!HasRoom(call, key, stored ? 0 : 1, key.size() + text.size())) return std::nullopt;
  Write(call.out, key, std::make_shared<const std::string>(std::move(text)));
  return number;
}

void Store::Do(Call& call, const Add& command) {
  const auto number = AddTo(call, command.key, command.amount);
  if (!number) return;
  Answer(call, Number{*number});
  TellWaiters(command.key, call.out);
  waits_.Counted(command.key, *number, call.out);
}

void Store::Do(Call& call, const Check& command) {
  const bool all = std::all_of(command.keys.begin(), command.keys.end(),
                               [this](absl::string_view key) { return Exists(key); });
  Answer(call, all ? Readiness::kReady : Readiness::kNotReady);
}

void Store::Do(Call& call, const Wait& command) {
  const auto missing = StoreWaits::FirstMissing(
      command.keys, 0, [this](absl::string_view key) { return Exists(key); });
  if (!missing) return Answer(call, Readiness::kReady);
  if (!MayWait(call, command.keys[*missing], StoreWaits::CostOf(command.keys))) return;
  waits_.Park(call.now, call.from, command.keys, *missing);
}

void Store::Do(Call& call, const CountKeys& /*command*/) {
  Answer(call, Number{static_cast<int64_t>(keys())});
}

void Store::Do(Call& call, const DeleteKey& command) {
  if (!Delete(command.key)) return Answer(call, Number{0});
  if (options_.keeps) call.out.records.push_back(record::KeyDeleted{std::string(command.key)});
  Answer(call, Number{1});
}

void Store::Do(Call& call, const Append& command) {
  const ValuePtr stored = Lookup(command.key);
  const size_t bytes = SizeOf(stored) + command.value.size();
  if (bytes > options_.value_bytes_max) {
    return Refuse(call, absl::StrCat("what it appends makes the value of key ", Quoted(command.key),
                                     " ", bytes, " bytes long, over the limit ",
                                     "torch_value_bytes_max (", options_.value_bytes_max, ")"));
  }
  if (!HasRoom(call, command.key, stored ? 0 : 1, command.key.size() + bytes)) return;
  // Not the whole of it: a value that grows by little costs little each time.
  if (options_.keeps) {
    call.out.records.push_back(
        record::ValueAppended{std::string(command.key), MakeValue(command.value)});
  }
  Lengthen(command.key, command.value);
  TellWaiters(command.key, call.out);
  KnowRank(call.connection, command.key);
}

void Store::Do(Call& call, const MultiGet& command) {
  Values values;
  values.values.reserve(command.keys.size());
  size_t bytes = 0;
  size_t cost = 0;
  for (const absl::string_view key : command.keys) {
    values.values.push_back(Lookup(key));
    const size_t size = SizeOf(values.values.back());
    bytes += size;
    cost += kAnsweredBytes + (size < kSharedBytesMin ? size : 0);
  }
  if (bytes > options_.answer_bytes_max) {
    return Refuse(call, absl::StrCat("the values of ", command.keys.size(), " keys from ",
                                     Quoted(command.keys.front()), " on are ", bytes,
                                     " bytes, over the limit torch_answer_bytes_max (",
                                     options_.answer_bytes_max, "): it may ask for fewer at once"));
  }
  if (!Holds(call, absl::StrCat("an answer of ", command.keys.size(), " values"), cost)) return;
  Answer(call, std::move(values));
}

void Store::Do(Call& call, const MultiSet& command) {
  if (command.pairs.empty()) return;
  size_t keys = 0;
  size_t bytes = 0;
  for (const Set& pair : command.pairs) {
    if (!TableOf(pair.key).contains(pair.key)) ++keys;
    bytes += pair.key.size() + pair.value.size();
  }
  if (!HasRoom(call, command.pairs.front().key, keys, bytes)) return;
  // All of them are there before anybody is told of one.
  for (const Set& pair : command.pairs) Write(call.out, pair.key, MakeValue(pair.value));
  for (const Set& pair : command.pairs) TellWaiters(pair.key, call.out);
}

void Store::Do(Call& call, const CancelWait& /*command*/) {
  waits_.ForEachOf(call.from, [&](const std::string& key, const StoreWaits::Slot& slot,
                                  const StoreWaits::Waiter& waiter) {
    const bool barrier = waiter.barrier_size != 0;
    GivenUp given_up = {.wait = ViewOf(key, barrier ? slot.at_barrier : slot.waiting),
                        .since = waiter.since};
    given_up.wait.first_waiters = {ViewOf(waiter)};
    call.out.given_up.push_back(std::move(given_up));
  });
  waits_.Forget(call.from);
  Answer(call, WaitCancelled{});
}

void Store::Do(Call& call, const Ping& command) { Answer(call, Echo{command.number}); }

void Store::Do(Call& call, const QueuePush& command) {
  const bool is_new = !queues_.contains(command.key);
  const size_t bytes = (is_new ? command.key.size() : 0) + command.value.size();
  if (!HasRoom(call, command.key, 1, bytes)) return;
  ValuePtr value = MakeValue(command.value);
  if (options_.keeps) {
    call.out.records.push_back(record::QueuePushed{std::string(command.key), value});
  }
  Push(command.key, std::move(value));
  Offer(std::string(command.key), call.out);
}

void Store::Offer(const std::string& key, Effects& out) {
  if (!queues_.contains(key)) return;
  const auto woken = waits_.QueuePushed(
      key, [this](absl::string_view other) { return Exists(other); }, out);
  if (woken) connections_.at(*woken).woken_for = key;
}

void Store::PassOn(Connection& connection, Effects& out) {
  if (!connection.woken_for) return;
  const std::string key = *std::move(connection.woken_for);
  connection.woken_for.reset();
  Offer(key, out);
}

void Store::Do(Call& call, const QueuePop& command) {
  const auto queue = queues_.find(command.key);
  if (queue == queues_.end()) return Answer(call, Popped{});
  if (options_.keeps) call.out.records.push_back(record::QueuePopped{std::string(command.key)});
  Popped popped = {.length = static_cast<int64_t>(queue->second.size())};
  popped.value = Pop(queue);
  Answer(call, std::move(popped));
}

void Store::Do(Call& call, const QueueLength& command) {
  const auto queue = queues_.find(command.key);
  const size_t length = queue == queues_.end() ? 0 : queue->second.size();
  Answer(call, Number{static_cast<int64_t>(length)});
}

void Store::Do(Call& call, const ListKeys& /*command*/) {
  size_t bytes = 0;
  for (const KeyTable* values : {&keys_, &group_keys_}) {
    for (const auto& [key, value] : *values) bytes += key.size();
  }
  if (bytes > options_.answer_bytes_max) {
    return Refuse(call, absl::StrCat("the names of ", keys(), " keys are ", bytes,
                                     " bytes, over the limit torch_answer_bytes_max (",
                                     options_.answer_bytes_max, ")"));
  }
  // The names, and once more as they go out.
  const size_t cost = 2 * bytes + keys() * kAnsweredBytes;
  if (!Holds(call, absl::StrCat("an answer of ", keys(), " names"), cost)) return;
  KeyNames names;
  names.keys.reserve(keys());
  for (const KeyTable* values : {&keys_, &group_keys_}) {
    for (const auto& [key, value] : *values) names.keys.push_back(key);
  }
  std::sort(names.keys.begin(), names.keys.end());
  Answer(call, std::move(names));
}

void Store::Do(Call& call, const Barrier& command) {
  // Who would have to wait and may not does not arrive either.
  if (!MayWait(call, command.key, StoreWaits::CostOf({command.key}))) return;
  const auto count = AddTo(call, command.key, 1);
  if (!count) return;
  if (*count >= command.size) {
    Answer(call, Readiness::kReady);
  } else {
    waits_.ParkAtBarrier(call.now, call.from, command);
  }
  TellWaiters(command.key, call.out);
  waits_.Counted(command.key, *count, call.out);
}

WaiterView Store::ViewOf(const StoreWaits::Waiter& waiter) const {
  const Connection& connection = connections_.at(waiter.connection);
  return {.connection = waiter.connection,
          .peer = connection.peer,
          .rank = connection.rank,
          .since = waiter.since};
}

AwaitedView Store::ViewOf(const std::string& key, const StoreWaits::Waiters& waiters) const {
  const StoreWaits::Waiter& oldest = waiters.begin()->second;
  AwaitedView view = {.key = key, .waiters = waiters.size(), .since = oldest.since};
  for (const auto& [number, waiter] : waiters) {
    if (view.first_waiters.size() == kWaitersPerRowMax) break;
    view.first_waiters.push_back(ViewOf(waiter));
  }
  if (oldest.barrier_size != 0) {
    view.barrier_size = oldest.barrier_size;
    const ValuePtr count = Lookup(key);
    view.arrived = count ? NumberIn(*count).value_or(0) : 0;
  } else {
    view.rank = RankOfKey(key);
  }
  return view;
}

StoreView Store::View() const {
  StoreView view = {.connections = connections_.size(),
                    .keys = keys(),
                    .queues = queues_.size(),
                    .bytes = bytes_,
                    .waits = waits_.size()};
  using Row = std::pair<const std::string*, const StoreWaits::Waiters*>;
  std::vector<Row> rows;
  for (const auto& [key, slot] : waits_.slots()) {
    if (!slot.waiting.empty()) rows.emplace_back(&key, &slot.waiting);
    if (!slot.at_barrier.empty()) rows.emplace_back(&key, &slot.at_barrier);
  }
  view.keys_awaited = rows.size();
  const size_t shown = std::min(rows.size(), options_.view_rows_max);
  std::partial_sort(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(shown), rows.end(),
                    [](const Row& a, const Row& b) {
                      // Numbers of waits grow with time: no two rows have the same one.
                      return a.second->begin()->first < b.second->begin()->first;
                    });
  for (size_t i = 0; i < shown; ++i) {
    view.awaited.push_back(ViewOf(*rows[i].first, *rows[i].second));
  }
  return view;
}

}  // namespace lockstep::tcpstore
