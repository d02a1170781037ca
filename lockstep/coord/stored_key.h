// A key's value as it is kept. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"

namespace lockstep::coord {

// One value of a key with all that belongs to it, in one allocation; never changed. Answers share
// it, however many get it.
struct StoredKey {
  std::string value;
  int64_t revision = 0;
  Time set_at;
  Time expires = Time::Infinite();   // when it is deleted by its ttl
  std::optional<MemberIndex> owner;  // it dies with this member
};
using StoredKeyPtr = std::shared_ptr<const StoredKey>;

// The value alone, sharing its owner.
inline std::shared_ptr<const std::string> ValueOf(const StoredKeyPtr& stored) {
  return {stored, &stored->value};
}

// As answers have it; the value is shared.
inline KeyValue EntryOf(std::string key, const StoredKeyPtr& stored) {
  return {std::move(key), ValueOf(stored), stored->revision};
}

// What the store has under a key in normal spelling, or null.
using KeyLookup = absl::FunctionRef<StoredKeyPtr(absl::string_view key)>;

}  // namespace lockstep::coord
