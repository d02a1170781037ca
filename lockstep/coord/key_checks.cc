#include "lockstep/coord/key_checks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/coord/key_name.h"

namespace lockstep::coord {

ErrorPtr OverLimit(absl::string_view what, absl::string_view limit, size_t value) {
  return MakeError(
      absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
      absl::StrCat(what, " is over the limit ", limit, " (", value, "); nothing was changed"));
}

ErrorPtr InvalidRequest(std::string text) {
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument, std::move(text));
}

ErrorPtr CheckKey(const CoordinatorOptions& options, const Caller& caller, absl::string_view key) {
  // The length comes first: the texts below quote the key.
  if (key.size() > options.key_bytes_max) {
    return OverLimit(absl::StrCat("a key of ", key.size(), " bytes"), "key_bytes_max",
                     options.key_bytes_max);
  }
  if (key.find('\0') != absl::string_view::npos) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kKeyInvalid,
                     absl::StrCat("key ", QuotedKey(key), " has a zero byte in it"));
  }
  // To a stock caller no key at all is a key, too.
  if (caller.native() && key.find_first_not_of('/') == absl::string_view::npos) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kKeyInvalid,
                     absl::StrCat("key ", QuotedKey(key), " names nothing; give a key"));
  }
  return nullptr;
}

ErrorPtr CheckLifetime(const KeyLifetime& lifetime) {
  if (lifetime.ttl > absl::ZeroDuration()) return nullptr;
  return InvalidRequest(absl::StrCat("a key cannot live for ", absl::FormatDuration(lifetime.ttl),
                                     "; give a time above zero, or none"));
}

ErrorPtr CheckCondition(const CompareAndSetKey& request) {
  const KeyCondition& expected = request.expected;
  if (expected.absent + expected.value.has_value() + expected.revision.has_value() == 1) {
    return nullptr;
  }
  return InvalidRequest(absl::StrCat("a conditional write of key ", QuotedKey(request.key),
                                     " must expect exactly one thing: that the key is "
                                     "absent, a value, or a revision"));
}

}  // namespace lockstep::coord
