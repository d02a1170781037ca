#include "lockstep/coord/long_reads.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/coord/key_name.h"

namespace lockstep::coord {

std::vector<CallId> LongReads::calls() const {
  std::vector<CallId> calls;
  for (const Going& going : reads_) calls.push_back(going.read.call);
  return calls;
}

std::optional<LongReads::Ended> LongReads::ReadSlice(KeyLookup lookup) {
  if (reads_.empty()) return std::nullopt;
  // Only the oldest goes on, so that one call at a time holds values.
  Going& going = reads_.front();
  const std::vector<std::string>& keys = going.read.keys;
  // Once: the names must not move while the tables point to them.
  if (going.listed.empty()) {
    going.listed.reserve(keys.size());
    going.same.reserve(keys.size());
    going.places.reserve(keys.size());
  }
  const size_t end = std::min(keys.size(), going.listed.size() + kReadKeysSliceMax);
  for (size_t at = going.listed.size(); at < end; ++at) {
    const KeyName name(keys[at]);
    const StoredKeyPtr stored = lookup(name.view());
    // The first that is missing ends it: the caller waits for that key.
    if (stored == nullptr) return End(at);
    going.listed.push_back(EntryOf({}, stored));
    going.bytes += keys[at].size() + stored->value.size();
    // A name in normal spelling points into the request, which stays; another is kept here.
    const bool lasts = name.view().data() >= keys[at].data() &&
                       name.view().data() <= keys[at].data() + keys[at].size();
    const absl::string_view kept =
        lasts ? name.view() : absl::string_view(going.spelled.emplace_back(name.view()));
    uint32_t& place = going.places[kept];
    // A key may be asked for several times: its places are chained, the last one first.
    going.same.push_back(std::exchange(place, static_cast<uint32_t>(at) + 1));
  }
  // The next turn goes on; until then writes are followed by `KeySet` and `KeyGone`.
  if (end < keys.size()) return std::nullopt;
  return End(std::nullopt);
}

uint32_t LongReads::PlaceOf(absl::string_view key) const {
  if (reads_.empty()) return 0;
  const auto& places = reads_.front().places;
  const auto found = places.find(key);
  return found == places.end() ? 0 : found->second;
}

void LongReads::KeySet(absl::string_view key, const StoredKeyPtr& stored) {
  // What was read already follows the writes, so that the answer shows one moment: its end.
  for (uint32_t place = PlaceOf(key); place != 0; place = reads_.front().same[place - 1]) {
    LOCKSTEP_DCHECK(place <= reads_.front().listed.size());
    Going& going = reads_.front();
    KeyValue& entry = going.listed[place - 1];
    going.bytes += stored->value.size() - entry.value->size();
    entry = EntryOf({}, stored);
  }
}

std::optional<LongReads::Ended> LongReads::KeyGone(absl::string_view key) {
  const uint32_t place = PlaceOf(key);
  if (place == 0) return std::nullopt;
  return End(place - 1);
}

LongReads::Ended LongReads::End(std::optional<size_t> missing) {
  LOCKSTEP_DCHECK(!reads_.empty());
  Going& going = reads_.front();
  Ended ended = {.missing = missing, .bytes = going.bytes};
  LOCKSTEP_DCHECK(missing ? *missing < going.read.keys.size()
                          : going.listed.size() == going.read.keys.size());
  if (!missing) {
    for (size_t i = 0; i < going.listed.size(); ++i) {
      // The names come last, since the table of places pointed into them until now.
      going.listed[i].key = std::move(going.read.keys[i]);
    }
    going.read.keys.clear();
    ended.listed = std::move(going.listed);
  }
  ended.read = std::move(going.read);
  reads_.pop_front();
  return ended;
}

bool LongReads::Forget(CallId call) {
  const auto found = std::find_if(reads_.begin(), reads_.end(),
                                  [&](const Going& going) { return going.read.call == call; });
  if (found == reads_.end()) return false;
  reads_.erase(found);
  return true;
}

}  // namespace lockstep::coord
