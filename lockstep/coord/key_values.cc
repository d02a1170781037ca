#include "lockstep/coord/key_values.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

// Texts quote at most this much of a key.
std::string Quoted(absl::string_view key) {
  constexpr size_t kShown = 200;
  return absl::StrCat("'", absl::CHexEscape(key.substr(0, kShown)),
                      key.size() > kShown ? "..." : "", "'");
}

ErrorPtr OverLimit(absl::string_view what, absl::string_view limit, size_t value) {
  return MakeError(
      absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
      absl::StrCat(what, " is over the limit ", limit, " (", value, "); nothing was changed"));
}

// Stock clients take these for answers of the service by their code alone.
ErrorPtr WithoutMark(absl::StatusCode code, Reason reason, std::string text) {
  return MakeError(
      Error{.code = code, .reason = reason, .message = std::move(text), .from_service = false});
}

}  // namespace

std::string NormalKey(absl::string_view key) {
  return absl::StrJoin(absl::StrSplit(key, '/', absl::SkipEmpty()), "/");
}

ErrorPtr KeyValues::CheckKey(absl::string_view key) const {
  if (key.size() > options_.key_bytes_max) {
    return OverLimit(absl::StrCat("a key of ", key.size(), " bytes"), "key_bytes_max",
                     options_.key_bytes_max);
  }
  if (key.find('\0') != absl::string_view::npos) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kKeyInvalid,
                     absl::StrCat("key ", Quoted(key), " has a zero byte in it"));
  }
  return nullptr;
}

void KeyValues::Set(const SetKey& request, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(request.key)) return out.Fail(call, error);
  const std::string key = NormalKey(request.key);
  if (!request.overwrite && values_.contains(key)) {
    return out.Fail(call, WithoutMark(absl::StatusCode::kAlreadyExists, Reason::kKeyExists,
                                      absl::StrCat("Config key ", Quoted(key),
                                                   " already exists; its value was kept")));
  }
  if (ErrorPtr error = Store(key, request.value, out)) return out.Fail(call, error);
  out.Succeed(call);
}

ErrorPtr KeyValues::Store(const std::string& key, std::string value, Effects& out) {
  if (value.size() > options_.value_bytes_max) {
    return OverLimit(absl::StrCat("a value of ", value.size(), " bytes for ", Quoted(key)),
                     "value_bytes_max", options_.value_bytes_max);
  }
  auto old = values_.find(key);
  const bool is_new = old == values_.end();
  if (is_new && values_.size() >= options_.keys_max) {
    return OverLimit(absl::StrCat("one key more, ", Quoted(key), ","), "keys_max",
                     options_.keys_max);
  }
  const size_t bytes =
      bytes_ + value.size() + (is_new ? key.size() : 0) - (is_new ? 0 : old->second->size());
  if (bytes > options_.store_bytes_max) {
    return OverLimit(absl::StrCat("the store with ", Quoted(key)), "store_bytes_max",
                     options_.store_bytes_max);
  }
  bytes_ = bytes;
  const Value stored = std::make_shared<const std::string>(std::move(value));
  values_[key] = stored;

  if (auto waiting = waiters_.find(key); waiting != waiters_.end()) {
    for (const auto& [call, waiter] : waiting->second) {
      calls_.erase(call);
      out.Succeed(call, KeyRead{{waiter.asked, stored}});
    }
    waiters_.erase(waiting);
  }
  return nullptr;
}

void KeyValues::Get(Time now, const GetKey& request, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(request.key)) return out.Fail(call, error);
  std::string key = NormalKey(request.key);
  if (auto found = values_.find(key); found != values_.end()) {
    return out.Succeed(call, KeyRead{{request.key, found->second}});
  }
  waiters_[key].emplace(call, Waiter{request.caller.incarnation, request.key, now});
  calls_.emplace(call, std::move(key));
}

void KeyValues::TryGet(const TryGetKey& request, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(request.key)) return out.Fail(call, error);
  auto found = values_.find(NormalKey(request.key));
  if (found == values_.end()) {
    return out.Fail(call,
                    MakeError(absl::StatusCode::kNotFound, Reason::kKeyNotFound,
                              absl::StrCat("Config key ", Quoted(request.key), " not found")));
  }
  out.Succeed(call, KeyRead{{request.key, found->second}});
}

void KeyValues::Increment(const IncrementKey& request, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(request.key)) return out.Fail(call, error);
  const std::string key = NormalKey(request.key);
  int64_t number = 0;
  if (auto found = values_.find(key);
      found != values_.end() && !absl::SimpleAtoi(*found->second, &number)) {
    return out.Fail(call, MakeError(absl::StatusCode::kFailedPrecondition, Reason::kKeyNotANumber,
                                    absl::StrCat("the value of key ", Quoted(key),
                                                 " cannot be incremented: it is not an integer")));
  }
  if (__builtin_add_overflow(number, request.increment, &number)) {
    return out.Fail(call, MakeError(absl::StatusCode::kOutOfRange, Reason::kNumberOverflow,
                                    absl::StrCat("key ", Quoted(key), " plus ", request.increment,
                                                 " does not fit in 64 bits; it was kept")));
  }
  std::string text = absl::StrCat(number);
  if (ErrorPtr error = Store(key, text, out)) return out.Fail(call, error);
  out.Succeed(call, KeyRead{{request.key, std::make_shared<const std::string>(std::move(text))}});
}

void KeyValues::List(const ListKeys& request, Effects& out) const {
  if (ErrorPtr error = CheckKey(request.directory)) return out.Fail(request.caller.call, error);
  const std::string prefix = NormalKey(request.directory) + "/";
  KeysListed listed;
  size_t bytes = 0;
  for (auto it = values_.lower_bound(prefix);
       it != values_.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) {
    bytes += it->first.size() + it->second->size();
    if (bytes > options_.list_bytes_max) {
      return out.Fail(request.caller.call,
                      OverLimit(absl::StrCat("what is below ", Quoted(request.directory)),
                                "list_bytes_max", options_.list_bytes_max));
    }
    listed.entries.push_back({it->first, it->second});
  }
  out.Succeed(request.caller.call, std::move(listed));
}

void KeyValues::Delete(const DeleteKey& request, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(request.key)) return out.Fail(call, error);
  const std::string key = NormalKey(request.key);
  auto drop = [this](auto it) {
    bytes_ -= it->first.size() + it->second->size();
    return values_.erase(it);
  };
  if (auto found = values_.find(key); found != values_.end()) drop(found);
  const std::string prefix = key + "/";
  auto it = values_.lower_bound(prefix);
  while (it != values_.end() && it->first.compare(0, prefix.size(), prefix) == 0) it = drop(it);
  out.Succeed(call);
}

bool KeyValues::Forget(CallId call) {
  auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  auto waiting = waiters_.find(found->second);
  LOCKSTEP_CHECK(waiting != waiters_.end());
  waiting->second.erase(call);
  if (waiting->second.empty()) waiters_.erase(waiting);
  calls_.erase(found);
  return true;
}

void KeyValues::FailAll(const ErrorPtr& error, Effects& out) {
  for (const auto& [key, waiters] : waiters_) {
    for (const auto& [call, waiter] : waiters) out.Fail(call, error);
  }
  waiters_.clear();
  calls_.clear();
}

}  // namespace lockstep::coord
