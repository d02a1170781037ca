#include "lockstep/stock/tcpstore/store.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/stock/tcpstore/stored_number.h"

namespace lockstep::tcpstore {
namespace {

// What a value in an answer costs beside its bytes.
constexpr size_t kAnsweredBytes = 96;

ValuePtr MakeValue(absl::string_view bytes) {
  return std::make_shared<const std::string>(bytes.data(), bytes.size());
}

size_t SizeOf(const ValuePtr& value) { return value ? value->size() : 0; }

// 0: there is none.
int64_t NumberAt(const KeySpace::Place& place) {
  return place.stored == nullptr ? 0 : NumberIn(**place.stored).value_or(0);
}

std::string TooLongList(size_t names, size_t bytes, size_t bytes_max) {
  return absl::StrCat("the names of ", names, " keys are ", bytes,
                      " bytes, over the limit torch_answer_bytes_max (", bytes_max, ")");
}

}  // namespace

void Store::Connected(ConnectionId connection, std::string peer) {
  clients_.Came(connection, std::move(peer));
}

void Store::Handle(Time now, ConnectionId from, const Command& command, Effects& out) {
  LOCKSTEP_CHECK(clients_.Has(from));
  LOCKSTEP_DCHECK(!listings_.Has(from));
  // Before the command: what it does may be seen by whoever is woken now.
  if (clients_.AnyWoken()) {
    for (const std::string& queue : clients_.Asks(from, command)) Offer(queue, out);
  }
  Call call = {.now = now, .from = from, .out = out};
  std::visit([&](const auto& is) { Do(call, is); }, command);
  LOCKSTEP_DCHECK(!pace_.IsDue(size() + waits_.size()) || InvariantsHold());
}

void Store::Left(ConnectionId connection, Effects& out) {
  // Its waits first, so that a value it was woken for is not offered to itself.
  waits_.Forget(connection);
  listings_.Forget(connection);
  for (const std::string& queue : clients_.Left(connection)) Offer(queue, out);
  LOCKSTEP_DCHECK(!pace_.IsDue(size() + waits_.size()) || InvariantsHold());
}

// (1) is with the waits. (2): where somebody waits for the queue alone, each queued value has a
// waiter that was woken for it.
bool Store::InvariantsHold() const {
  const KeySpace& keys = keys_.now();
  // The parts first: what follows counts on them.
  if (!keys.InvariantsHold() || !waits_.InvariantsHold(keys)) return false;
  for (const auto& [key, slot] : waits_.slots()) {
    const size_t queued = keys.QueueLength(key);
    const bool waits_for_it =
        std::any_of(slot.waiting.begin(), slot.waiting.end(), [&](const auto& waiting) {
          const StoreWaits::Waiter& waiter = waiting.second;
          return !StoreWaits::FirstMissing(waiter.keys, waiter.at, keys);
        });
    if (queued > 0 && waits_for_it && queued > clients_.CountWoken(key)) return false;
  }
  return true;
}

bool Store::Fits(Call& call, const std::string& what, size_t bytes) {
  std::optional<std::string> refusal = room_.Refusal(what, bytes, Held());
  if (refusal) call.Refuse(*std::move(refusal));
  return !refusal;
}

bool Store::KeysFit(Call& call, absl::string_view key, size_t keys, size_t bytes) {
  const StoreRoom::Held held = Held();
  // Most commands are far from any limit, and make no text.
  if (room_.HasRoomForKeys(keys, bytes, held)) return true;
  call.Refuse(room_.RefusalOfKeys(key, keys, bytes, held));
  return false;
}

// The connection's own limit first: it is the one that the client can do something about.
bool Store::MayWait(Call& call, absl::string_view key, size_t cost) {
  if (waits_.Count(call.from) < options_.waits_per_connection_max) {
    return Fits(call, absl::StrCat("a wait for ", Quoted(key)), cost);
  }
  call.Refuse(absl::StrCat("it waits for ", options_.waits_per_connection_max,
                           " things already (torch_waits_per_connection_max) and asks to wait for ",
                           Quoted(key)));
  return false;
}

void Store::Do(Call& call, const Set& command) {
  const KeySpace::Place place = keys_.Find(command.key);
  const bool is_new = place.stored == nullptr;
  if (!KeysFit(call, command.key, is_new ? 1 : 0, command.key.size() + command.value.size())) {
    return;
  }
  // Before anybody is told: whoever is woken finds it.
  keys_.Set(place, MakeValue(command.value), call.out.records);
  // Nobody waits for a key that had a value.
  if (!is_new) return;
  waits_.KeySet(command.key, keys_.now(), call.out);
  clients_.MadeKey(call.from, command.key);
}

void Store::Do(Call& call, const CompareSet& command) {
  const KeySpace::Place place = keys_.Find(command.key);
  const bool is_new = place.stored == nullptr;
  // As torch's server does: a missing key is no error here, and what was expected comes back.
  if (is_new && !command.expected.empty()) {
    return call.Answer(SentValue{std::string(command.expected)});
  }
  // The client learns the value that it has to expect next.
  if (!is_new && **place.stored != command.expected) return call.Answer(Value{*place.stored});
  if (!KeysFit(call, command.key, is_new ? 1 : 0, command.key.size() + command.desired.size())) {
    return;
  }
  const ValuePtr desired = MakeValue(command.desired);
  // Its own answer first, as torch's server sends them.
  call.Answer(Value{desired});
  keys_.Set(place, desired, call.out.records);
  waits_.KeySet(command.key, keys_.now(), call.out);
  clients_.MadeKey(call.from, command.key);
}

void Store::Do(Call& call, const Get& command) {
  call.Answer(Value{keys_.now().Value(command.key)});
}

std::optional<int64_t> Store::AddTo(Call& call, absl::string_view key, int64_t amount) {
  const KeySpace::Place place = keys_.Find(key);
  int64_t number = 0;
  if (place.stored != nullptr) {
    // Read as torch's server reads it; a text that is no number ends the connection.
    const std::optional<int64_t> parsed = NumberIn(**place.stored);
    if (!parsed) {
      call.Refuse(absl::StrCat("it adds to key ", Quoted(key),
                               ", whose value is not a number: ", Quoted(**place.stored)));
      return std::nullopt;
    }
    number = *parsed;
  }
  // The text is made before there is room for it: how long it is depends on the number.
  number = AddAround(number, amount);
  std::string text = absl::StrCat(number);
  const size_t new_keys = place.stored == nullptr ? 1 : 0;
  if (!KeysFit(call, key, new_keys, key.size() + text.size())) return std::nullopt;
  keys_.Set(place, std::make_shared<const std::string>(std::move(text)), call.out.records);
  return number;
}

void Store::Do(Call& call, const Add& command) {
  const auto number = AddTo(call, command.key, command.amount);
  // It was refused, and nothing was changed.
  if (!number) return;
  // Its own answer first, then those who waited for the key, then those who counted on it.
  call.Answer(Number{*number});
  waits_.KeySet(command.key, keys_.now(), call.out);
  waits_.Counted(command.key, *number, call.out);
}

void Store::Do(Call& call, const Check& command) {
  const bool all = std::all_of(command.keys.begin(), command.keys.end(),
                               [this](absl::string_view key) { return keys_.now().Exists(key); });
  call.Answer(all ? Readiness::kReady : Readiness::kNotReady);
}

void Store::Do(Call& call, const Wait& command) {
  const auto missing = StoreWaits::FirstMissing(command.keys, 0, keys_.now());
  // Whoever misses nothing needs no room for a wait.
  if (!missing) return call.Answer(Readiness::kReady);
  if (!MayWait(call, command.keys[*missing], StoreWaits::CostOf(command.keys))) return;
  waits_.Park(call.now, call.from, command.keys, *missing);
}

void Store::Do(Call& call, const CountKeys& /*command*/) {
  call.Answer(Number{static_cast<int64_t>(keys_.now().keys())});
}

void Store::Do(Call& call, const DeleteKey& command) {
  call.Answer(Number{keys_.Delete(command.key, call.out.records) ? 1 : 0});
}

void Store::Do(Call& call, const Append& command) {
  const ValuePtr stored = keys_.now().Value(command.key);
  const size_t bytes = SizeOf(stored) + command.value.size();
  // The whole value has a limit of its own, however little is added to it.
  if (bytes > options_.value_bytes_max) {
    return call.Refuse(absl::StrCat(
        "its append would make the value of key ", Quoted(command.key), " ", bytes,
        " bytes long, over the limit torch_value_bytes_max (", options_.value_bytes_max, ")"));
  }
  if (!KeysFit(call, command.key, stored ? 0 : 1, command.key.size() + bytes)) return;
  // Before anybody is told, as in Set.
  keys_.Append(command.key, command.value, call.out.records);
  waits_.KeySet(command.key, keys_.now(), call.out);
  clients_.MadeKey(call.from, command.key);
}

void Store::Do(Call& call, const MultiGet& command) {
  Values values;
  values.values.reserve(command.keys.size());
  size_t bytes = 0;
  size_t cost = 0;
  for (const absl::string_view key : command.keys) {
    values.values.push_back(keys_.now().Value(key));
    const size_t size = SizeOf(values.values.back());
    bytes += size;
    // Long values are shared with the answer and cost nothing more.
    cost += kAnsweredBytes + (size < kSharedBytesMin ? size : 0);
  }
  if (bytes > options_.answer_bytes_max) {
    return call.Refuse(absl::StrCat("the values of ", command.keys.size(), " keys from ",
                                    Quoted(command.keys.front()), " on are ", bytes,
                                    " bytes, over the limit torch_answer_bytes_max (",
                                    options_.answer_bytes_max, "): ask for fewer at once"));
  }
  if (!Fits(call, absl::StrCat("an answer of ", command.keys.size(), " values"), cost)) return;
  call.Answer(std::move(values));
}

void Store::Do(Call& call, const MultiSet& command) {
  // No key to name in a refusal, and nothing to do.
  if (command.pairs.empty()) return;
  size_t new_keys = 0;
  size_t bytes = 0;
  for (const Set& pair : command.pairs) {
    if (!keys_.now().HasValue(pair.key)) ++new_keys;
    bytes += pair.key.size() + pair.value.size();
  }
  // All or nothing; a key that comes twice counts twice, which errs on the safe side.
  if (!KeysFit(call, command.pairs.front().key, new_keys, bytes)) return;
  // All of them are there before anybody is told of one.
  for (const Set& pair : command.pairs) {
    keys_.Set(pair.key, MakeValue(pair.value), call.out.records);
  }
  for (const Set& pair : command.pairs) waits_.KeySet(pair.key, keys_.now(), call.out);
}

void Store::Do(Call& call, const CancelWait& /*command*/) {
  // What is said of the waits is read before they are forgotten.
  for (GivenUp& given_up : WaitsGivenUp(keys_.now(), waits_, clients_, call.from)) {
    call.out.given_up.push_back(std::move(given_up));
  }
  // Torch's client waits for one thing at a time, and takes back all that it waits for.
  waits_.Forget(call.from);
  call.Answer(WaitCancelled{});
}

void Store::Do(Call& call, const Ping& command) { call.Answer(Echo{command.number}); }

void Store::Do(Call& call, const QueuePush& command) {
  const bool is_new = keys_.now().QueueLength(command.key) == 0;
  const size_t bytes = (is_new ? command.key.size() : 0) + command.value.size();
  if (!KeysFit(call, command.key, 1, bytes)) return;
  // Into the queue first, also where somebody waits: who is woken takes it with its next command.
  keys_.Push(command.key, MakeValue(command.value), call.out.records);
  Offer(std::string(command.key), call.out);
}

void Store::Offer(const std::string& queue, Effects& out) {
  // The value may have been taken by a client that did not wait.
  if (keys_.now().QueueLength(queue) == 0) return;
  const auto woken = waits_.QueuePushed(queue, keys_.now(), out);
  if (woken) clients_.Woken(*woken, queue);
}

void Store::Do(Call& call, const QueuePop& command) {
  // With the value that is taken.
  const size_t length = keys_.now().QueueLength(command.key);
  ValuePtr value = keys_.Pop(command.key, call.out.records);
  LOCKSTEP_DCHECK((length > 0) == (value != nullptr));
  call.Answer(Popped{.length = static_cast<int64_t>(length), .value = std::move(value)});
}

void Store::Do(Call& call, const QueueLength& command) {
  call.Answer(Number{static_cast<int64_t>(keys_.now().QueueLength(command.key))});
}

void Store::Do(Call& call, const ListKeys& /*command*/) {
  // Their size before the names themselves: an answer that is refused costs no memory.
  const KeySpace& keys = keys_.now();
  if (keys.NameBytes() > options_.answer_bytes_max) {
    return call.Refuse(TooLongList(keys.keys(), keys.NameBytes(), options_.answer_bytes_max));
  }
  const size_t cost = KeyListings::CostOf(keys);
  if (!Fits(call, absl::StrCat("an answer of ", keys.keys(), " names"), cost)) return;
  if (KeyListings::IsLong(keys)) return listings_.Add(call.from, cost);
  // A short one does not wait for those that are being made.
  KeyListings at_once;
  at_once.Add(call.from, cost);
  call.Answer(at_once.ListSlice(keys, options_.answer_bytes_max)->names);
}

void Store::ListSome(Effects& out) {
  LOCKSTEP_DCHECK(lists());
  std::optional<KeyListings::Ended> ended =
      listings_.ListSlice(keys_.now(), options_.answer_bytes_max);
  if (!ended) return;
  // Keys that were set meanwhile may have made it too long.
  if (ended->name_bytes > options_.answer_bytes_max) {
    out.refusals.push_back({ended->connection, TooLongList(ended->names.count, ended->name_bytes,
                                                           options_.answer_bytes_max)});
  } else {
    out.replies.push_back({ended->connection, std::move(ended->names)});
  }
}

void Store::Do(Call& call, const Barrier& command) {
  // Who would have to wait and may not does not arrive either.
  if (!MayWait(call, command.key, StoreWaits::CostOf({command.key}))) return;
  const auto count =
      command.arrived ? NumberAt(keys_.Find(command.key)) : AddTo(call, command.key, 1);
  if (!count) return;
  // A barrier of nobody is open, also where somebody has made the number negative.
  if (command.size <= 0 || *count >= command.size) {
    call.Answer(Readiness::kReady);
  } else {
    // Before the others are told: it is one of those who count.
    waits_.ParkAtBarrier(call.now, call.from, command);
  }
  if (command.arrived) return;
  // A barrier counts by a key, for which others may wait as for any.
  waits_.KeySet(command.key, keys_.now(), call.out);
  waits_.Counted(command.key, *count, call.out);
}

}  // namespace lockstep::tcpstore
