// The calls of stock clients as gRPC delivers them: one reactor per call, one service per family
// that makes them. Internal to StockListener.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/mutex.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/stock/grpc/stock_listener_options.h"
#include "lockstep/stock/wire/family.h"

namespace lockstep::net {

class StockCall;

// From gRPC's threads to the loop. One function is posted for everything that came since the last
// one ran, so a burst of requests costs the loop one wake-up.
//
// Threads: `Put`, `Admit`, `Grow`, `Shrink` and `CallEnded` are thread-safe; `Next` and
// `DrainAgain` are the loop's. Bounds: one request and one departure per open call, of which there
// are at most `calls_max`.
class StockInbox : public std::enable_shared_from_this<StockInbox> {
 public:
  struct Item {
    StockCall* call;  // null: a departure, and `event` is CallLeft
    CallId id;
    coord::Event event;
  };

  // `drain` runs on the loop whenever something has been put in, until `Close`. What calls hold is
  // in `share`, which outlives them. `member_of_uris`: as StockListenerOptions.
  StockInbox(runtime::Loop& loop, size_t calls_max, runtime::Loop::Function drain,
             runtime::MemoryShare* share, MemberOfUris member_of_uris);

  // Counts the call in, which holds so many bytes; false when there are `calls_max`, then nothing
  // was counted.
  bool Admit(size_t bytes);
  // A call that was counted in is over; `bytes` is what it holds by then. Any thread.
  void CallEnded(size_t bytes) {
    open_calls_.fetch_sub(1, std::memory_order_relaxed);
    share_->Add(-static_cast<int64_t>(bytes));
  }
  // A call that was counted in holds so much more, or less.
  void Grow(size_t bytes) { share_->Add(static_cast<int64_t>(bytes)); }
  // The reverse of `Grow`, while the call goes on.
  void Shrink(size_t bytes) { share_->Add(-static_cast<int64_t>(bytes)); }
  // Whose account calls are in; may be null.
  runtime::MemoryAccount* memory() const { return share_->account(); }

  // From 1 up; never used again in this inbox.
  CallId NextCallId() { return CallId(last_call_.fetch_add(1, std::memory_order_relaxed) + 1); }
  size_t calls_max() const { return calls_max_; }  // open at a time
  const MemberOfUris& member_of_uris() const { return member_of_uris_; }

  // Queues it and has `drain` called on the loop, once for many. Any thread.
  void Put(Item item);
  // The oldest that came, if there is any. Who drains calls it until there is none, or says
  // `DrainAgain`.
  std::optional<Item> Next();
  // Has `drain` called again in a turn of its own: there may be more.
  void DrainAgain();
  // On the loop, or when it does not run.
  void Close() { drain_ = nullptr; }

 private:
  runtime::Loop& loop_;
  const size_t calls_max_;
  runtime::Loop::Function drain_;
  runtime::MemoryShare* const share_;
  const MemberOfUris member_of_uris_;
  std::atomic<uint64_t> last_call_{0};
  std::atomic<size_t> open_calls_{0};
  Mutex mutex_;
  std::vector<Item> items_ ABSL_GUARDED_BY(mutex_);
  bool posted_ ABSL_GUARDED_BY(mutex_) = false;  // a call of `drain` is on its way, or runs
  std::deque<Item> taken_;                       // the loop's; older than those
};

// One call. gRPC owns its life: it deletes itself once gRPC is done with it, which is after one of
// the `Finish...` has been called and not before; so whoever may still finish it may use it.
class StockCall final : public grpc::ServerUnaryReactor {
 public:
  // Decodes and puts the event into the inbox, or finishes at once with why not: RESOURCE_EXHAUSTED
  // with `limit_exceeded` (calls_max, message_bytes_max) or `memory_max`, INVALID_ARGUMENT with
  // `invalid_argument`, or what `member_of_uris` says. `family` outlives the call.
  static StockCall* Begin(std::shared_ptr<StockInbox> inbox, const wire::stock::Family& family,
                          size_t method, grpc::CallbackServerContext* context,
                          const grpc::ByteBuffer* request, grpc::ByteBuffer* response);

  const wire::stock::Family& family() const { return family_; }  // of the service that was called
  size_t method() const { return method_; }  // its place in `family().methods()`
  // The loop's, from the moment the call is in the inbox. May be null.
  wire::stock::Asked* asked() const { return asked_.get(); }

  // Exactly one of them, once; the call is not to be touched afterwards.
  void FinishWith(wire::stock::EncodedAnswer answer);
  // Code, text and trailing metadata, as the family has encoded them.
  void FinishWith(const wire::stock::EncodedError& error);
  void FinishLeft();  // for a caller that is gone: nothing is sent

  // Cancelled, over its deadline or disconnected: puts a departure into the inbox.
  void OnCancel() override;
  // gRPC is done with it: counts the call out and deletes it.
  void OnDone() override;

  // Both reactions above only hand on or free, so gRPC need not move them to a thread of their own;
  // that move costs two context switches per call.
  bool InternalInlineable() override { return true; }

 private:
  StockCall(std::shared_ptr<StockInbox> inbox, const wire::stock::Family& family, size_t method,
            grpc::CallbackServerContext* context, grpc::ByteBuffer* response);
  wire::stock::CallContext ContextOf() const;
  // The member that the caller's certificate names, where those name members; or why it may not
  // call.
  coord::ErrorPtr Identify(std::optional<MemberIndex>& bound) const;

  const std::shared_ptr<StockInbox> inbox_;
  const wire::stock::Family& family_;
  const size_t method_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  const CallId id_;
  std::unique_ptr<wire::stock::Asked> asked_;
  bool admitted_ = false;
  size_t bytes_ = 0;  // that it was counted with
};

// A family's service without gRPC's own message handling: requests and answers pass as bytes, so
// that big values are not copied.
class StockService final : public grpc::Service {
 public:
  // `family` outlives it.
  StockService(std::shared_ptr<StockInbox> inbox, const wire::stock::Family& family);

 private:
  std::deque<std::string> paths_;  // gRPC keeps pointers into them
};

}  // namespace lockstep::net
