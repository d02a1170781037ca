// For tests: the keys of native callers, and their answers as text. Not part of the product.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/coord/key_values.h"

namespace lockstep::coord {

inline Time At(double seconds) { return Time() + absl::Seconds(seconds); }

// Each call returns its id; `Text` is what it was answered: "waits", "r7" (a revision), "k=v@7",
// "k=nil@7" (a deletion), or the error as clients print it.
class NativeKeys : public testing::Test {
 protected:
  explicit NativeKeys(CoordinatorOptions options = {}) : options_(std::move(options)) {}

  CallId Set(const std::string& key, const std::string& value, KeyLifetime lifetime = {},
             std::optional<int32_t> owner = std::nullopt, Time now = Time()) {
    return SetIf(key, value, true, lifetime, owner, now);
  }
  CallId Insert(const std::string& key, const std::string& value) {
    return SetIf(key, value, false, {}, std::nullopt, Time());
  }
  CallId CompareAndSet(const std::string& key, KeyCondition expected, const std::string& value,
                       KeyLifetime lifetime = {}) {
    keys_.CompareAndSet(Time(),
                        {.caller = Next(),
                         .key = key,
                         .expected = std::move(expected),
                         .value = value,
                         .lifetime = lifetime},
                        std::nullopt, out_);
    return last_;
  }
  CallId Increment(const std::string& key, int64_t by, Time now = Time()) {
    keys_.Increment(now, {.caller = Next(), .key = key, .increment = by}, out_);
    return last_;
  }
  CallId Max(const std::string& key, int64_t number) {
    keys_.Max(Time(), {.caller = Next(), .key = key, .number = number}, out_);
    return last_;
  }
  CallId Delete(const std::string& key, bool below = false,
                std::optional<int64_t> revision = std::nullopt) {
    keys_.Delete({.caller = Next(), .key = key, .only_key = !below, .revision = revision}, out_);
    return last_;
  }
  CallId Get(const std::string& key) {
    keys_.Get(Time(), GetKey{.caller = Next(), .key = key}, true, out_);
    return last_;
  }
  CallId GetAll(std::vector<std::string> keys) {
    GetKeys request{.caller = Next(), .keys = std::move(keys)};
    keys_.Get(Time(), request, true, out_);
    return last_;
  }
  CallId TryGet(const std::string& key) {
    keys_.TryGet({.caller = Next(), .key = key}, out_);
    return last_;
  }
  CallId List(const std::string& directory, size_t limit = 0, const std::string& after = "") {
    keys_.List({.caller = Next(), .directory = directory, .limit = limit, .after = after}, out_);
    return last_;
  }
  CallId Watch(const std::string& key, int64_t after) {
    keys_.Watch({.caller = Next(), .key = key, .after = after}, true, out_);
    return last_;
  }

  std::string Text(CallId call) const {
    std::string text = "waits";
    for (const Reply& reply : out_.replies) {
      if (reply.call != call) continue;
      if (text != "waits") return "answered twice";
      text = reply.error ? ToString(*reply.error)
                         : std::visit([](const auto& a) { return Of(a); }, reply.answer);
    }
    return text;
  }
  std::optional<Reason> Why(CallId call) const {
    for (const Reply& reply : out_.replies) {
      if (reply.call == call && reply.error) return reply.error->reason;
    }
    return std::nullopt;
  }

  Caller Next() {
    last_ = CallId(last_.value() + 1);
    return {.call = last_, .session = {1, 1}, .number = last_.value()};
  }

  const CoordinatorOptions options_;
  KeyValues keys_{options_};
  Effects out_;
  CallId last_;

 private:
  CallId SetIf(const std::string& key, const std::string& value, bool overwrite,
               KeyLifetime lifetime, std::optional<int32_t> owner, Time now) {
    lifetime.with_member = owner.has_value();
    std::optional<MemberIndex> member;
    if (owner) member = MemberIndex(*owner);
    keys_.Set(now,
              {.caller = Next(),
               .key = key,
               .value = value,
               .overwrite = overwrite,
               .lifetime = lifetime},
              member, out_);
    return last_;
  }

  static std::string Of(const KeyValue& entry) {
    return absl::StrCat(entry.key, "=", entry.value ? *entry.value : "nil", "@", entry.revision);
  }
  static std::string Of(const std::vector<KeyValue>& entries) {
    std::string text;
    for (const KeyValue& entry : entries) absl::StrAppend(&text, Of(entry), " ");
    return text;
  }
  static std::string Of(const KeyWritten& a) { return absl::StrCat("r", a.revision); }
  static std::string Of(const KeyRead& a) { return Of(a.entry); }
  static std::string Of(const KeySwapped& a) {
    return absl::StrCat(a.swapped ? "swapped " : "kept ", a.entry ? Of(*a.entry) : "nothing");
  }
  static std::string Of(const KeysDeleted& a) {
    return absl::StrCat(a.deleted, " deleted, r", a.revision);
  }
  static std::string Of(const KeysListed& a) {
    return absl::StrCat(Of(a.entries), "r", a.revision, a.more ? " more" : "");
  }
  static std::string Of(const KeysChanged& a) {
    return absl::StrCat(Of(a.changes), "r", a.revision, a.snapshot ? " snapshot" : "");
  }
  template <class Other>
  static std::string Of(const Other&) {
    return "ok";
  }
};

}  // namespace lockstep::coord
