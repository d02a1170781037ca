#include "lockstep/stock/wire/bounded_decode.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "lockstep/base/limits.h"

namespace lockstep::wire::stock {
namespace {

constexpr size_t kListBytesMax = size_t{2} << 20;
constexpr size_t kOtherBytesMax = size_t{1} << 20;
// Fewer bytes than this hold no list that costs much.
constexpr size_t kShortBytes = size_t{64} << 10;
static_assert(kShortBytes < kOtherBytesMax && kOtherBytesMax < kListBytesMax);
static_assert(kListBytesMax < kMessageBytesMax);
// Fields of a message beside its longest list.
constexpr size_t kOtherFieldsMax = 64;

// Before a long message becomes objects, of which an empty one costs thirty times its bytes.
bool HasTooManyFields(const std::string& bytes) {
  google::protobuf::io::CodedInputStream fields(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  size_t count = 0;
  while (const uint32_t tag = fields.ReadTag()) {
    if (++count > static_cast<size_t>(kMembersMax) + kOtherFieldsMax) return true;
    if (!google::protobuf::internal::WireFormatLite::SkipField(&fields, tag)) return false;
  }
  return false;
}

}  // namespace

size_t RequestBytesMax(std::string_view method) {
  if (method == "InsertKeyValue") return kMessageBytesMax;
  const bool lists = method == "Barrier" || method == "GetAliveTasks" || method == "GetTaskState";
  return lists ? kListBytesMax : kOtherBytesMax;
}

Decoded TooBig(std::string_view method, size_t most) {
  return {coord::MakeError(
              absl::StatusCode::kResourceExhausted, coord::Reason::kLimitExceeded,
              absl::StrFormat("%s: the message has more than %d bytes, or would once decompressed "
                              "(message_bytes_max of this call). Nothing was changed.",
                              std::string(method), most)),
          nullptr};
}

Decoded DecodeRequest(const Family& family, size_t method,
                      google::protobuf::io::ZeroCopyInputStream* bytes, size_t size,
                      CallContext context) {
  // Values are read as they come, without a copy. What is short, too.
  const bool is_value = RequestBytesMax(family.methods()[method]) == kMessageBytesMax;
  return is_value || size <= kShortBytes ? family.Decode(method, bytes, std::move(context))
                                         : DecodeWhole(family, method, bytes, std::move(context));
}

Decoded DecodeWhole(const Family& family, size_t method,
                    google::protobuf::io::ZeroCopyInputStream* from, CallContext context) {
  const std::string_view name = family.methods()[method];
  const size_t most = RequestBytesMax(name);
  std::string whole;
  const void* piece = nullptr;
  for (int size = 0; from->Next(&piece, &size);) {
    if (static_cast<size_t>(size) > most - whole.size()) return TooBig(name, most);
    whole.append(static_cast<const char*>(piece), static_cast<size_t>(size));
  }
  if (HasTooManyFields(whole)) {
    return {coord::MakeError(absl::StatusCode::kResourceExhausted, coord::Reason::kLimitExceeded,
                             absl::StrFormat("%s: the message lists more than the %d that a job "
                                             "can have (members_max). Nothing was changed.",
                                             std::string(name), kMembersMax)),
            nullptr};
  }
  google::protobuf::io::ArrayInputStream array(whole.data(), static_cast<int>(whole.size()));
  return family.Decode(method, &array, std::move(context));
}

}  // namespace lockstep::wire::stock
