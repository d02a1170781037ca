#include "lockstep/net/xla_calls.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "google/protobuf/io/gzip_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "lockstep/base/limits.h"
#include "proto/compat/xla/coordination_service.grpc.pb.h"

namespace lockstep::net {
namespace {

using wire::xla::EncodedAnswer;
using wire::xla::EncodedError;
using wire::xla::Method;

// A client's deadline is wall time to gRPC; what counts is how long is left.
Time MonotonicDeadline(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return Time::Infinite();
  return runtime::MonotonicNow() + absl::FromChrono(deadline - std::chrono::system_clock::now());
}

grpc::Slice SliceOf(std::shared_ptr<const std::string> bytes) {
  // gRPC frees the slice when the bytes are on the wire; until then they live here.
  auto* keep = new std::shared_ptr<const std::string>(std::move(bytes));
  return grpc::Slice(
      const_cast<char*>((*keep)->data()), (*keep)->size(),
      [](void* kept) { delete static_cast<std::shared_ptr<const std::string>*>(kept); }, keep);
}

using Decoded = std::variant<coord::Event, coord::ErrorPtr>;

// No message of ours begins so: it would be a field of a wire type that does not exist. (Clients
// declare gzip for the whole call, but compress only the messages that it makes smaller.)
constexpr uint8_t kGzipFirstByte = 0x1f;

// By the first byte alone: a message comes in the pieces that the network made of it, and any of
// them may be a single byte.
bool IsGzip(grpc::ProtoBufferReader& bytes) {
  const void* data = nullptr;
  int size = 0;
  do {
    if (!bytes.Next(&data, &size)) return false;
  } while (size == 0);
  const bool is_gzip = *static_cast<const uint8_t*>(data) == kGzipFirstByte;
  bytes.BackUp(size);
  return is_gzip;
}

coord::ErrorPtr TooBig(Method method) {
  return coord::MakeError(
      absl::StatusCode::kResourceExhausted, coord::Reason::kLimitExceeded,
      absl::StrFormat("%s: the message is compressed and becomes larger than %d bytes "
                      "(message_bytes_max). Nothing was changed.",
                      std::string(wire::xla::MethodName(method)), kMessageBytesMax));
}

Decoded Decode(Method method, const grpc::ByteBuffer& request, wire::xla::CallContext about) {
  // The reader takes the buffer's slices without changing the buffer, but wants it mutable.
  grpc::ProtoBufferReader bytes(const_cast<grpc::ByteBuffer*>(&request));
  if (!IsGzip(bytes)) return wire::xla::DecodeRequest(method, &bytes, std::move(about));
  google::protobuf::io::GzipInputStream inflated(&bytes,
                                                 google::protobuf::io::GzipInputStream::GZIP);
  google::protobuf::io::LimitingInputStream limited(&inflated, kMessageBytesMax + 1);
  Decoded decoded = wire::xla::DecodeRequest(method, &limited, std::move(about));
  if (limited.ByteCount() > static_cast<int64_t>(kMessageBytesMax)) return TooBig(method);
  if (inflated.ZlibErrorCode() < 0) {
    return coord::MakeError(absl::StatusCode::kInvalidArgument, coord::Reason::kInvalidArgument,
                            absl::StrFormat("%s: the message cannot be decompressed.",
                                            std::string(wire::xla::MethodName(method))));
  }
  return decoded;
}

// Below this a copy is cheaper than a slice of its own.
constexpr size_t kCopyBytesMax = 4096;

}  // namespace

XlaInbox::XlaInbox(runtime::Loop& loop, size_t calls_max, runtime::Loop::Function drain)
    : loop_(loop), calls_max_(calls_max), drain_(std::move(drain)) {}

bool XlaInbox::Admit() {
  if (open_calls_.fetch_add(1, std::memory_order_relaxed) < calls_max_) return true;
  CallEnded();
  return false;
}

void XlaInbox::Put(Item item) {
  bool first;
  {
    std::lock_guard lock(mutex_);
    first = items_.empty();
    items_.push_back(std::move(item));
  }
  if (!first) return;
  loop_.Post([self = shared_from_this()] {
    if (self->drain_) self->drain_();
  });
}

std::vector<XlaInbox::Item> XlaInbox::Take() {
  std::vector<Item> items;
  std::lock_guard lock(mutex_);
  items.swap(items_);
  return items;
}

XlaCall::XlaCall(std::shared_ptr<XlaInbox> inbox, grpc::CallbackServerContext* context,
                 grpc::ByteBuffer* response)
    : inbox_(std::move(inbox)), context_(context), response_(response), id_(inbox_->NextCallId()) {}

XlaCall* XlaCall::Begin(std::shared_ptr<XlaInbox> inbox, Method method,
                        grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                        grpc::ByteBuffer* response) {
  auto* call = new XlaCall(std::move(inbox), context, response);
  XlaInbox& to = *call->inbox_;
  call->admitted_ = to.Admit();
  if (!call->admitted_) {
    call->FinishWith(wire::xla::EncodeError(
        {.code = absl::StatusCode::kResourceExhausted,
         .reason = coord::Reason::kLimitExceeded,
         .message = absl::StrFormat("%d calls are waiting at this address (calls_max). Try later.",
                                    to.calls_max())}));
    return call;
  }
  wire::xla::CallContext about{.call = call->id_};
  if (method == Method::kRegisterTask) {
    about.deadline = MonotonicDeadline(*context);
    about.peer = context->peer();
  }
  Decoded decoded = Decode(method, *request, std::move(about));
  if (auto* error = std::get_if<coord::ErrorPtr>(&decoded)) {
    call->FinishWith(wire::xla::EncodeError(**error));
  } else {
    // From here on the loop may finish the call at any time, even before gRPC has got it from us;
    // that is allowed.
    to.Put({call, call->id_, std::get<coord::Event>(std::move(decoded))});
  }
  return call;
}

void XlaCall::FinishWith(EncodedAnswer answer) {
  if (answer.tail && answer.tail->size() <= kCopyBytesMax) {
    answer.head.append(*answer.tail);
    answer.tail.reset();
  }
  grpc::Slice slices[2] = {grpc::Slice(answer.head), grpc::Slice()};
  size_t used = 1;
  if (answer.tail) slices[used++] = SliceOf(std::move(answer.tail));
  *response_ = grpc::ByteBuffer(slices, used);
  Finish(grpc::Status::OK);
}

void XlaCall::FinishWith(const EncodedError& error) {
  context_->AddTrailingMetadata(std::string(wire::xla::kReasonMetadata), error.reason);
  Finish(grpc::Status(static_cast<grpc::StatusCode>(error.code), error.message, error.details));
}

void XlaCall::FinishLeft() { Finish(grpc::Status(grpc::StatusCode::CANCELLED, "caller left")); }

void XlaCall::OnCancel() {
  if (admitted_) inbox_->Put({nullptr, id_, coord::CallLeft{.call = id_}});
}

void XlaCall::OnDone() {
  if (admitted_) inbox_->CallEnded();
  delete this;
}

namespace {

namespace pb = ::xla::coordination;
using Service = pb::CoordinationService;

// The generated wrappers mark one method each as handled with raw bytes; all of them in a row.
template <class Base>
using RawHalf = Service::WithRawCallbackMethod_RegisterTask<
    Service::WithRawCallbackMethod_Heartbeat<Service::WithRawCallbackMethod_PollForError<
        Service::WithRawCallbackMethod_ReportErrorToService<
            Service::WithRawCallbackMethod_ShutdownTask<Service::WithRawCallbackMethod_WatchTasks<
                Service::WithRawCallbackMethod_Barrier<Service::WithRawCallbackMethod_CancelBarrier<
                    Service::WithRawCallbackMethod_GetAliveTasks<Base>>>>>>>>>;
using RawService = RawHalf<Service::WithRawCallbackMethod_InsertKeyValue<
    Service::WithRawCallbackMethod_GetKeyValue<Service::WithRawCallbackMethod_TryGetKeyValue<
        Service::WithRawCallbackMethod_IncrementKeyValue<
            Service::WithRawCallbackMethod_GetKeyValueDir<
                Service::WithRawCallbackMethod_DeleteKeyValue<Service::Service>>>>>>>;

class XlaService final : public RawService {
 public:
  explicit XlaService(std::shared_ptr<XlaInbox> inbox) : inbox_(std::move(inbox)) {}

// One line per method; the names are the generated base class's.
#define LOCKSTEP_XLA_METHOD(name)                                                             \
  grpc::ServerUnaryReactor* name(grpc::CallbackServerContext* context,                        \
                                 const grpc::ByteBuffer* request, grpc::ByteBuffer* response) \
      override {                                                                              \
    return XlaCall::Begin(inbox_, Method::k##name, context, request, response);               \
  }
  LOCKSTEP_XLA_METHOD(RegisterTask)
  LOCKSTEP_XLA_METHOD(Heartbeat)
  LOCKSTEP_XLA_METHOD(PollForError)
  LOCKSTEP_XLA_METHOD(ReportErrorToService)
  LOCKSTEP_XLA_METHOD(ShutdownTask)
  LOCKSTEP_XLA_METHOD(WatchTasks)
  LOCKSTEP_XLA_METHOD(InsertKeyValue)
  LOCKSTEP_XLA_METHOD(GetKeyValue)
  LOCKSTEP_XLA_METHOD(TryGetKeyValue)
  LOCKSTEP_XLA_METHOD(IncrementKeyValue)
  LOCKSTEP_XLA_METHOD(GetKeyValueDir)
  LOCKSTEP_XLA_METHOD(DeleteKeyValue)
  LOCKSTEP_XLA_METHOD(Barrier)
  LOCKSTEP_XLA_METHOD(CancelBarrier)
  LOCKSTEP_XLA_METHOD(GetAliveTasks)
#undef LOCKSTEP_XLA_METHOD

 private:
  const std::shared_ptr<XlaInbox> inbox_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeXlaService(std::shared_ptr<XlaInbox> inbox) {
  return std::make_unique<XlaService>(std::move(inbox));
}

}  // namespace lockstep::net
