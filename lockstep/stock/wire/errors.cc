#include "lockstep/stock/wire/errors.h"

#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "lockstep/base/limits.h"
#include "lockstep/stock/wire/append.h"
#include "proto/compat/stock/error_payloads.pb.h"

namespace lockstep::wire::stock {
namespace {

using ::tensorflow::distributed_runtime::GrpcPayloadContainer;

constexpr std::string_view kCutMark = "... [truncated]";
static_assert(kCutMark.size() < kErrorTextBytesMax);

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

EncodedError EncodeError(const coord::Error& error, std::string service_error) {
  GrpcPayloadContainer container;
  auto& payloads = *container.mutable_payloads();
  if (error.from_service) payloads[std::string(kServiceErrorUrl)] = std::move(service_error);
  if (error.barrier) {
    std::string& payload = payloads[std::string(kBarrierErrorUrl)];
    if (!error.barrier->id.empty()) AppendBlock(1, error.barrier->id, payload);
    AppendInt64(2, error.barrier->counter, payload);
  }
  if (error.right_service) {
    AppendFixed64(1, error.right_service->value(), payloads[std::string(kServiceMismatchUrl)]);
  }
  return {.code = error.code,
          .message = CutErrorText(error.message),
          .details = SerializeDeterministically(container),
          .reason = std::string(coord::ReasonName(error.reason))};
}

}  // namespace lockstep::wire::stock
