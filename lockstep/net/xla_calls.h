// The calls of stock JAX clients as gRPC delivers them: one reactor per call, one service that
// makes them. Internal to XlaDoor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/runtime/loop.h"
#include "lockstep/wire/xla/answers.h"
#include "lockstep/wire/xla/errors.h"
#include "lockstep/wire/xla/requests.h"

namespace lockstep::net {

class XlaCall;

// From gRPC's threads to the loop. One function is posted for everything that came since the last
// one ran, so a burst of requests costs the loop one wake-up.
//
// Threads: `Put...` is thread-safe; `Take` is the loop's. Bounds: one request and one departure per
// open call, of which there are at most `calls_max`.
class XlaInbox : public std::enable_shared_from_this<XlaInbox> {
 public:
  struct Item {
    XlaCall* call;  // null: a departure, and `event` is CallLeft
    CallId id;
    coord::Event event;
  };

  // `drain` runs on the loop whenever something has been put in, until `Close`.
  XlaInbox(runtime::Loop& loop, size_t calls_max, runtime::Loop::Function drain);

  // Counts the call in; false when there are `calls_max`, then nothing was counted.
  bool Admit();
  void CallEnded() { open_calls_.fetch_sub(1, std::memory_order_relaxed); }

  CallId NextCallId() { return CallId(last_call_.fetch_add(1, std::memory_order_relaxed) + 1); }
  size_t calls_max() const { return calls_max_; }

  void Put(Item item);
  // All that came, in order.
  std::vector<Item> Take();
  // On the loop, or when it does not run.
  void Close() { drain_ = nullptr; }

 private:
  runtime::Loop& loop_;
  const size_t calls_max_;
  runtime::Loop::Function drain_;
  std::atomic<uint64_t> last_call_{0};
  std::atomic<size_t> open_calls_{0};
  std::mutex mutex_;
  std::vector<Item> items_;  // under mutex_
};

// One call. gRPC owns its life: it deletes itself once gRPC is done with it, which is after one of
// the `Finish...` has been called and not before; so whoever may still finish it may use it.
class XlaCall final : public grpc::ServerUnaryReactor {
 public:
  // Decodes and puts the event into the inbox, or finishes at once with why not.
  static XlaCall* Begin(std::shared_ptr<XlaInbox> inbox, wire::xla::Method method,
                        grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                        grpc::ByteBuffer* response);

  // Exactly one of them, once; the call is not to be touched afterwards.
  void FinishWith(wire::xla::EncodedAnswer answer);
  void FinishWith(const wire::xla::EncodedError& error);
  void FinishLeft();

  void OnCancel() override;
  void OnDone() override;

  // Both reactions above only hand on or free, so gRPC need not move them to a thread of their own;
  // that move costs two context switches per call.
  bool InternalInlineable() override { return true; }

 private:
  XlaCall(std::shared_ptr<XlaInbox> inbox, grpc::CallbackServerContext* context,
          grpc::ByteBuffer* response);

  const std::shared_ptr<XlaInbox> inbox_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  const CallId id_;
  bool admitted_ = false;
};

// xla.coordination.CoordinationService without gRPC's own message handling: requests and answers
// pass as bytes, so that big values are not copied.
std::unique_ptr<grpc::Service> MakeXlaService(std::shared_ptr<XlaInbox> inbox);

}  // namespace lockstep::net
