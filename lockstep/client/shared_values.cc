#include "lockstep/client/shared_values.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/transport/copy.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {

using rendezvous::Reason;
using rendezvous::Value;
using wire::native::WithReason;

absl::Status SharedValues::Check(const Value& value) {
  const auto bytes = rendezvous::BytesOf(value.about.type, value.about.shape);
  if (!bytes.ok()) {
    return WithReason(bytes.status(), rendezvous::ReasonName(Reason::kInvalidArgument));
  }
  if (value.dead || *bytes == value.bytes) return absl::OkStatus();
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat("a tensor of ", value.bytes,
                                              " bytes, and by its type and shape of ", *bytes)),
      rendezvous::ReasonName(Reason::kInvalidArgument));
}

absl::StatusOr<std::shared_ptr<transport::Block>> SharedValues::Allocate(uint64_t bytes) {
  auto block = arena_.Allocate(bytes);
  if (absl::IsResourceExhausted(block.status())) {
    return WithReason(block.status(), rendezvous::ReasonName(Reason::kQuotaExceeded));
  }
  return block;
}

bool SharedValues::InArena(const Value& value) const {
  const auto* block = dynamic_cast<const transport::Block*>(value.memory.get());
  return block != nullptr && arena_.Made(*block);
}

bool SharedValues::NeedsCopy(const Value& value) const {
  return options_.shares_memory && value.bytes > options_.inline_bytes_max && !InArena(value);
}

absl::Status SharedValues::Copy(Value& value) {
  auto copy = Allocate(value.bytes);
  if (!copy.ok()) return copy.status();
  transport::CopyBytes((*copy)->mutable_data(), value.memory->data(), value.bytes);
  value.memory = *std::move(copy);
  runtime::FaultPoint("rendezvous/value_copied");
  return absl::OkStatus();
}

void SharedValues::Keep(Value& value) {
  if (InArena(value)) kept_.push_back(std::move(value));
}

}  // namespace lockstep::client
