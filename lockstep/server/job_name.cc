#include "lockstep/server/job_name.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_format.h"
#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

constexpr size_t kJobNameBytesMax = 128;
static_assert(kJobNameBytesMax <= wire::native::kNameBytes.max);  // it can be asked for

bool IsJobNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

absl::Status CheckJobName(const std::string& name) {
  if (!name.empty() && name.size() <= kJobNameBytesMax &&
      std::all_of(name.begin(), name.end(), IsJobNameCharacter)) {
    return absl::OkStatus();
  }
  return wire::native::WithReason(
      absl::InvalidArgumentError(absl::StrFormat(
          "the name of a job has up to %d letters, digits, '.', '_' and '-'", kJobNameBytesMax)),
      "invalid_argument");
}

}  // namespace lockstep::server
