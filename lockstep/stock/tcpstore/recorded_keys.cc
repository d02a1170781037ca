#include "lockstep/stock/tcpstore/recorded_keys.h"

#include <memory>
#include <string>
#include <utility>

namespace lockstep::tcpstore {

void RecordedKeys::Set(const KeySpace::Place& place, ValuePtr value, std::vector<Record>& out) {
  if (keeps_) out.push_back(record::KeySet{std::string(place.key), value});
  keys_.Put(place, std::move(value));
}

void RecordedKeys::Append(absl::string_view key, absl::string_view more, std::vector<Record>& out) {
  // Not the whole value: one that grows by little costs little each time.
  if (keeps_) {
    out.push_back(
        record::ValueAppended{std::string(key), std::make_shared<const std::string>(more)});
  }
  keys_.Lengthen(key, more);
}

bool RecordedKeys::Delete(absl::string_view key, std::vector<Record>& out) {
  // What changes nothing is not recorded: a replay would refuse it.
  if (!keys_.Delete(key)) return false;
  if (keeps_) out.push_back(record::KeyDeleted{std::string(key)});
  return true;
}

void RecordedKeys::Push(absl::string_view key, ValuePtr value, std::vector<Record>& out) {
  if (keeps_) out.push_back(record::QueuePushed{std::string(key), value});
  keys_.Push(key, std::move(value));
}

ValuePtr RecordedKeys::Pop(absl::string_view key, std::vector<Record>& out) {
  ValuePtr value = keys_.Pop(key);
  if (value != nullptr && keeps_) out.push_back(record::QueuePopped{std::string(key)});
  return value;
}

void RecordedKeys::Clear(std::vector<Record>& out) {
  keys_.ForgetAll();
  // Recorded even when there was nothing: whoever replays begins with an empty store, too.
  if (keeps_) out.emplace_back(record::Cleared{});
}

size_t RecordedKeys::ClearGroup(std::vector<Record>& out) {
  const size_t count = keys_.ForgetGroup();
  // One record, however many keys: it is the same set of keys when the record is applied.
  if (count > 0 && keeps_) out.emplace_back(record::GroupCleared{});
  return count;
}

}  // namespace lockstep::tcpstore
