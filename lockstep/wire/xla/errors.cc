#include "lockstep/wire/xla/errors.h"

#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "lockstep/base/limits.h"
#include "proto/compat/xla/coordination_service.pb.h"
#include "proto/compat/xla/error_payloads.pb.h"

namespace lockstep::wire::xla {
namespace {

namespace pb = ::xla::coordination;
using ::tensorflow::distributed_runtime::GrpcPayloadContainer;

constexpr std::string_view kCutMark = "... [truncated]";

// Map entries in the order of their keys: one error, one byte string.
std::string SerializeDeterministically(const GrpcPayloadContainer& container) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    container.SerializeToCodedStream(&coded);
  }
  return bytes;
}

}  // namespace

std::string CutErrorText(std::string text) {
  if (text.size() <= kErrorTextBytesMax) return text;
  size_t end = kErrorTextBytesMax - kCutMark.size();
  // Not in the middle of a character: its following bytes are 10xxxxxx.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  text.append(kCutMark);
  return text;
}

EncodedError EncodeError(const coord::Error& error) {
  GrpcPayloadContainer container;
  auto& payloads = *container.mutable_payloads();
  if (error.from_service) {
    pb::CoordinationServiceError payload;
    payload.set_is_reported_error(error.reported);
    if (error.origin) payload.set_source_task_id(error.origin->value());
    payloads[std::string(kServiceErrorUrl)] = payload.SerializeAsString();
  }
  if (error.barrier) {
    pb::BarrierError payload;
    payload.set_barrier_id(error.barrier->id);
    payload.set_counter(error.barrier->counter);
    payloads[std::string(kBarrierErrorUrl)] = payload.SerializeAsString();
  }
  if (error.right_service) {
    pb::ServiceMismatchError payload;
    payload.set_service_incarnation(error.right_service->value());
    payloads[std::string(kServiceMismatchUrl)] = payload.SerializeAsString();
  }
  return {.code = error.code,
          .message = CutErrorText(error.message),
          .details = SerializeDeterministically(container),
          .reason = std::string(coord::ReasonName(error.reason))};
}

}  // namespace lockstep::wire::xla
