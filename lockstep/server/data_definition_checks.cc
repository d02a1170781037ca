#include "lockstep/server/data_definition_checks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/dispatch/error.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

namespace native = wire::native;

// Definitions up to here are checked where they are taken: that costs less than a millisecond.
constexpr size_t kCheckedAtOnceBytes = size_t{64} << 10;
static_assert(kCheckedAtOnceBytes < DataDefinitionChecks::kCheckedBytesMax);
// The largest definition that there may be is checked beside another one.
static_assert(2 * plan::kDefinitionBytesMax <= DataDefinitionChecks::kCheckedBytesMax);

CheckedDefinition CheckOne(CallId call, native::RegisterDataset& message) {
  CheckedDefinition checked;
  auto definition = native::DecodeDefinition(message.definition.data);
  if (!definition.ok()) {
    checked.status = native::WithReason(definition.status(), "definition_invalid");
    return checked;
  }
  const auto spec = plan::Check(*definition);
  if (!spec.ok()) {
    checked.status = spec.status();
    return checked;
  }
  checked.event = {.call = call,
                   .name = std::move(message.name),
                   .identity = plan::Identity(*definition),
                   .definition = std::move(message.definition.data),
                   .element_spec = plan::ToText(*spec),
                   .needs_manifest = plan::NeedsManifest(*definition)};
  return checked;
}

}  // namespace

DataDefinitionChecks::DataDefinitionChecks(runtime::Loop& loop, size_t definition_bytes_max,
                                           Checked checked, std::function<void()> resized)
    : loop_(loop),
      definition_bytes_max_(definition_bytes_max),
      checked_(std::move(checked)),
      resized_(std::move(resized)) {}

absl::Status DataDefinitionChecks::CheckLength(size_t bytes) const {
  if (bytes <= definition_bytes_max_) return absl::OkStatus();
  return native::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                "the definition has ", bytes,
                                " bytes (definition_bytes_max: ", definition_bytes_max_, ")")),
                            dispatch::reason::kLimitReached);
}

absl::Status DataDefinitionChecks::CheckRoom(size_t bytes) const {
  if (bytes_ == 0 || bytes_ + bytes <= kCheckedBytesMax) return absl::OkStatus();
  return native::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                "definitions of ", bytes_, " bytes are being checked already ",
                                "(definitions_checked_bytes_max: ", kCheckedBytesMax,
                                "); nothing was changed, try again later")),
                            dispatch::reason::kLimitReached);
}

void DataDefinitionChecks::Check(CallId call, native::RegisterDataset message) {
  const size_t bytes = message.definition.data.size();
  if (bytes <= kCheckedAtOnceBytes) return checked_(call, CheckOne(call, message));
  bytes_ += bytes;
  resized_();
  thread_.Push(
      [this, alive = std::weak_ptr(alive_), call, bytes, message = std::move(message)]() mutable {
        loop_.Post([this, alive = std::move(alive), call, bytes,
                    checked = CheckOne(call, message)]() mutable {
          if (alive.expired()) return;
          LOCKSTEP_DCHECK(bytes_ >= bytes);
          bytes_ -= bytes;
          resized_();
          checked_(call, std::move(checked));
        });
      });
}

}  // namespace lockstep::server
