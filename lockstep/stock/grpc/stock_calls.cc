#include "lockstep/stock/grpc/stock_calls.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/io/gzip_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/impl/rpc_service_method.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/secure_layer.h"
#include "lockstep/stock/wire/bounded_decode.h"

namespace lockstep::net {
namespace {

using wire::stock::Decoded;
using wire::stock::DecodeRequest;
using wire::stock::DecodeWhole;
using wire::stock::EncodedAnswer;
using wire::stock::EncodedError;
using wire::stock::Family;
using wire::stock::RequestBytesMax;
using wire::stock::TooBig;

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

// No message of ours begins so: it would be a field of a wire type that does not exist. (Clients
// declare gzip for the whole call, but compress only the messages that it makes smaller.)
constexpr uint8_t kGzipFirstByte = 0x1f;
static_assert((kGzipFirstByte & 7) > 5);  // 5 is the last wire type

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

Decoded Broken(std::string_view method, std::string_view what) {
  return {coord::MakeError(absl::StatusCode::kInvalidArgument, coord::Reason::kInvalidArgument,
                           absl::StrCat(std::string(method), ": ", std::string(what))),
          nullptr};
}

// What gRPC and we hold for a call, about; and messages that find room before they are read.
constexpr size_t kCallBytes = size_t{6} << 10;
constexpr size_t kLongMessageBytes = size_t{64} << 10;

// What comes out of a compressed message, counted piece by piece and before it is all there: 64 kB
// become 64 MB, in each of many calls at once. Ends early where the account has no room; what is
// short is let through, as it is when it comes uncompressed.
class CountedInput final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  // Outlived by all of them.
  CountedInput(google::protobuf::io::ZeroCopyInputStream& from, StockInbox& to)
      : from_(from), to_(to) {}

  bool Next(const void** data, int* size) override {
    if (refused_ || !from_.Next(data, size)) return false;
    const size_t more = kCopies * static_cast<size_t>(*size);
    read_ += static_cast<size_t>(*size);
    runtime::MemoryAccount* const memory = to_.memory();
    if (read_ > kLongMessageBytes && memory != nullptr && !memory->HasRoom(more)) {
      from_.BackUp(*size);
      refused_ = true;
      return false;
    }
    counted_ += more;
    to_.Grow(more);
    return true;
  }
  void BackUp(int count) override {
    from_.BackUp(count);
    read_ -= static_cast<size_t>(count);
    counted_ -= kCopies * static_cast<size_t>(count);
    to_.Shrink(kCopies * static_cast<size_t>(count));
  }
  bool Skip(int count) override { return from_.Skip(count); }
  int64_t ByteCount() const override { return from_.ByteCount(); }

  bool refused() const { return refused_; }
  size_t read() const { return read_; }
  // The message is read: of `counted` stay counted, with its call, so many bytes as it has, or
  // none.
  size_t Settle(bool kept) {
    const size_t stay = kept ? read_ : 0;
    to_.Shrink(counted_ - stay);
    counted_ = stay;
    return stay;
  }

 private:
  // A string that grows is there twice while it moves.
  static constexpr size_t kCopies = 2;

  google::protobuf::io::ZeroCopyInputStream& from_;
  StockInbox& to_;
  size_t read_ = 0;
  size_t counted_ = 0;
  bool refused_ = false;
};

Decoded NoRoom(StockInbox& to, size_t bytes) {
  return {coord::MakeError(absl::StatusCode::kResourceExhausted, coord::Reason::kMemoryMax,
                           to.memory()->Refusal(bytes)),
          nullptr};
}

// Values are read as they come, without a copy. What is below the limit and short, too.
Decoded DecodeStream(const Family& family, size_t method,
                     google::protobuf::io::ZeroCopyInputStream* bytes,
                     wire::stock::CallContext about) {
  google::protobuf::io::LimitingInputStream limited(bytes, kMessageBytesMax + 1);
  Decoded decoded = family.Decode(method, &limited, std::move(about));
  const std::string_view name = family.methods()[method];
  if (limited.ByteCount() > static_cast<int64_t>(kMessageBytesMax)) {
    return TooBig(name, kMessageBytesMax);
  }
  return decoded;
}

// `*counted`: what it became beyond its own bytes, which stays in the inbox's share.
Decoded Decode(const Family& family, size_t method, const grpc::ByteBuffer& request,
               wire::stock::CallContext about, StockInbox& to, size_t* counted) {
  const std::string_view name = family.methods()[method];
  const size_t most = RequestBytesMax(name);
  if (request.Length() > most) return TooBig(name, most);
  // The reader takes the buffer's slices without changing the buffer, but wants it mutable.
  grpc::ProtoBufferReader bytes(const_cast<grpc::ByteBuffer*>(&request));
  if (!IsGzip(bytes)) {
    return DecodeRequest(family, method, &bytes, request.Length(), std::move(about));
  }
  using google::protobuf::io::GzipInputStream;
  GzipInputStream inflated(&bytes, GzipInputStream::GZIP);
  CountedInput input(inflated, to);
  Decoded decoded = most == kMessageBytesMax
                        ? DecodeStream(family, method, &input, std::move(about))
                        : DecodeWhole(family, method, &input, std::move(about));
  *counted = input.Settle(std::holds_alternative<coord::Event>(decoded.event));
  if (input.refused()) return NoRoom(to, 2 * input.read());
  if (input.read() > most) return decoded;  // its error; what follows was not looked at
  if (inflated.ZlibErrorCode() < 0) return Broken(name, "the message cannot be decompressed.");
  return decoded;
}

// The machine holds the caller to it.
void Bind(MemberIndex member, coord::Event& event) {
  std::visit(
      [&](auto& e) {
        if constexpr (requires { e.caller; }) {
          e.caller.bound = member;
        } else if constexpr (requires { e.bound; }) {
          e.bound = member;
        }
      },
      event);
}

// Below this a copy is cheaper than a slice of its own.
constexpr size_t kCopyBytesMax = 4096;

}  // namespace

StockInbox::StockInbox(runtime::Loop& loop, size_t calls_max, runtime::Loop::Function drain,
                       runtime::MemoryShare* share, MemberOfUris member_of_uris)
    : loop_(loop),
      calls_max_(calls_max),
      drain_(std::move(drain)),
      share_(share),
      member_of_uris_(std::move(member_of_uris)) {}

bool StockInbox::Admit(size_t bytes) {
  share_->Add(static_cast<int64_t>(bytes));
  if (open_calls_.fetch_add(1, std::memory_order_relaxed) < calls_max_) return true;
  CallEnded(bytes);
  return false;
}

void StockInbox::Put(Item item) {
  bool posted;
  {
    const MutexLock lock(mutex_);
    posted = std::exchange(posted_, true);
    items_.push_back(std::move(item));
  }
  if (!posted) DrainAgain();
}

std::optional<StockInbox::Item> StockInbox::Next() {
  if (taken_.empty()) {
    std::vector<Item> items;
    {
      const MutexLock lock(mutex_);
      items.swap(items_);
      posted_ = !items.empty();
    }
    std::move(items.begin(), items.end(), std::back_inserter(taken_));
  }
  if (taken_.empty()) return std::nullopt;
  Item item = std::move(taken_.front());
  taken_.pop_front();
  return item;
}

void StockInbox::DrainAgain() {
  loop_.Post([self = shared_from_this()] {
    if (self->drain_) self->drain_();
  });
}

StockCall::StockCall(std::shared_ptr<StockInbox> inbox, const Family& family, size_t method,
                     grpc::CallbackServerContext* context, grpc::ByteBuffer* response)
    : inbox_(std::move(inbox)),
      family_(family),
      method_(method),
      context_(context),
      response_(response),
      id_(inbox_->NextCallId()) {}

wire::stock::CallContext StockCall::ContextOf() const {
  wire::stock::CallContext about{.call = id_};
  if (family_.methods()[method_] == "RegisterTask") {
    about.deadline = MonotonicDeadline(*context_);
    about.peer = context_->peer();
  }
  return about;
}

coord::ErrorPtr StockCall::Identify(std::optional<MemberIndex>& bound) const {
  const MemberOfUris& member_of_uris = inbox_->member_of_uris();
  if (member_of_uris == nullptr) return nullptr;
  std::vector<std::string> uris;
  const auto peer = context_->auth_context();
  for (const grpc::string_ref& uri : peer->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    if (uris.size() == runtime::kPeerUrisMax) break;
    uris.emplace_back(uri.data(), uri.size());
  }
  auto named = member_of_uris(uris);
  if (auto* refusal = std::get_if<coord::ErrorPtr>(&named)) return std::move(*refusal);
  bound = std::get<MemberIndex>(named);
  return nullptr;
}

StockCall* StockCall::Begin(std::shared_ptr<StockInbox> inbox, const Family& family, size_t method,
                            grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                            grpc::ByteBuffer* response) {
  auto* call = new StockCall(std::move(inbox), family, method, context, response);
  StockInbox& to = *call->inbox_;
  const size_t message = request->Length();
  call->bytes_ = kCallBytes + message;
  call->admitted_ = to.Admit(call->bytes_);
  if (!call->admitted_) {
    const coord::Error error{
        .code = absl::StatusCode::kResourceExhausted,
        .reason = coord::Reason::kLimitExceeded,
        .message = absl::StrFormat(
            "%d calls are already waiting at this address (calls_max). Retry later.",
            to.calls_max())};
    call->FinishWith(family.EncodeError(error, nullptr));
    return call;
  }
  // Room for what it becomes; short messages are looked at by the machine, which knows what grows.
  if (message > kLongMessageBytes && to.memory() != nullptr && !to.memory()->HasRoom(2 * message)) {
    const coord::Error error{.code = absl::StatusCode::kResourceExhausted,
                             .reason = coord::Reason::kMemoryMax,
                             .message = to.memory()->Refusal(2 * message)};
    call->FinishWith(family.EncodeError(error, nullptr));
    return call;
  }
  // Before the message is read: errors about it say more of the job than others may know.
  std::optional<MemberIndex> bound;
  if (const coord::ErrorPtr refusal = call->Identify(bound)) {
    call->FinishWith(family.EncodeError(*refusal, nullptr));
    return call;
  }
  size_t grown = 0;
  Decoded decoded = Decode(family, method, *request, call->ContextOf(), to, &grown);
  call->bytes_ += grown;
  call->asked_ = std::move(decoded.asked);
  if (auto* error = std::get_if<coord::ErrorPtr>(&decoded.event)) {
    call->FinishWith(family.EncodeError(**error, call->asked()));
    return call;
  }
  if (!family.requests_name_the_attempt()) call->asked_->peer = context->peer();
  if (bound) Bind(*bound, std::get<coord::Event>(decoded.event));
  // From here on the loop may finish the call at any time, even before gRPC has got it from us;
  // that is allowed.
  to.Put({call, call->id_, std::get<coord::Event>(std::move(decoded.event))});
  return call;
}

void StockCall::FinishWith(EncodedAnswer answer) {
  const size_t size = answer.head.size() + (answer.tail ? answer.tail->size() : 0);
  runtime::MemoryAccount* const memory = inbox_->memory();
  if (size > kLongMessageBytes && memory != nullptr && !memory->Holds(size)) {
    const coord::Error error{.code = absl::StatusCode::kResourceExhausted,
                             .reason = coord::Reason::kMemoryMax,
                             .message = memory->Refusal(size)};
    return FinishWith(family_.EncodeError(error, asked()));
  }
  // Its own bytes, until gRPC has sent them; values are in the store's account.
  if (admitted_ && answer.head.size() > kLongMessageBytes) {
    inbox_->Grow(answer.head.size());
    bytes_ += answer.head.size();
  }
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

void StockCall::FinishWith(const EncodedError& error) {
  context_->AddTrailingMetadata(std::string(wire::stock::kReasonMetadata), error.reason);
  Finish(grpc::Status(static_cast<grpc::StatusCode>(error.code), error.message, error.details));
}

void StockCall::FinishLeft() { Finish(grpc::Status(grpc::StatusCode::CANCELLED, "caller left")); }

void StockCall::OnCancel() {
  if (admitted_) inbox_->Put({nullptr, id_, coord::CallLeft{.call = id_}});
}

void StockCall::OnDone() {
  if (admitted_) inbox_->CallEnded(bytes_);
  delete this;
}

StockService::StockService(std::shared_ptr<StockInbox> inbox, const wire::stock::Family& family) {
  // What the code does that protoc makes for a method with raw bytes, in a loop.
  using Handler = grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>;
  for (size_t method = 0; method < family.methods().size(); ++method) {
    paths_.push_back(absl::StrCat("/", std::string(family.service()), "/",
                                  std::string(family.methods()[method])));
    AddMethod(new grpc::internal::RpcServiceMethod(paths_.back().c_str(),
                                                   grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
    MarkMethodRawCallback(static_cast<int>(method),
                          new Handler([inbox, &family, method](grpc::CallbackServerContext* context,
                                                               const grpc::ByteBuffer* request,
                                                               grpc::ByteBuffer* response) {
                            return StockCall::Begin(inbox, family, method, context, request,
                                                    response);
                          }));
  }
}

}  // namespace lockstep::net
