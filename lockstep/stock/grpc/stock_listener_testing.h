// A listener with a small stand-in for the coordinator behind it. Tests only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/channel.h"
#include "grpcpp/support/channel_arguments.h"
#include "gtest/gtest.h"
#include "lockstep/base/mutex.h"
#include "lockstep/stock/grpc/stock_listener.h"
#include "proto/compat/xla/coordination_service.grpc.pb.h"

namespace lockstep::net {

namespace pb = ::xla::coordination;

// Waits of tests end with a failure rather than never.
inline constexpr std::chrono::seconds kTestPatience{60};

// A queue between threads.
template <class T>
class Mailbox {
 public:
  void Put(T item) {
    const MutexLock lock(mutex_);
    items_.push_back(std::move(item));
    changed_.NotifyAll();
  }
  // Nothing when nothing came for long.
  std::optional<T> Take() {
    const MutexLock lock(mutex_);
    const WaitLimit until = WaitLimitAfter(absl::FromChrono(kTestPatience));
    while (items_.empty()) {
      if (!changed_.WaitUntil(mutex_, until)) return {};
    }
    std::optional<T> item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
};

// Key-values that wait, and whatever a test sets for the other events. Loop-confined but for
// `seen`.
class FakeJob {
 public:
  // Answers the event, or leaves it parked by returning nothing.
  using Script = std::function<std::optional<coord::Reply>(const coord::Event&)>;

  std::vector<coord::Reply> Handle(const coord::Event& event);
  // A reply to each call that waits for a key.
  std::vector<coord::Reply> Stop();

  Script script;
  bool record = true;
  Mailbox<coord::Event> seen;

 private:
  std::map<std::string, std::shared_ptr<const std::string>> values_;
  std::map<CallId, std::string> waiting_;
};

// The call of any request event.
std::optional<CallId> CallOf(const coord::Event& event);

class StockListenerTest : public ::testing::Test {
 protected:
  // Opens the listener; for tests that set `options_` first.
  void Open();
  void TearDown() override;

  void OnLoop(std::function<void()> function);  // and waits for it
  // Waits for an event of this type, dropping others.
  template <class Event>
  Event Await() {
    while (auto event = job_.seen.Take()) {
      if (auto* wanted = std::get_if<Event>(&*event)) return std::move(*wanted);
    }
    ADD_FAILURE() << "the event did not come";
    return {};
  }

  // A client with a connection of its own.
  std::unique_ptr<pb::CoordinationService::Stub> Client(grpc::ChannelArguments arguments = {});
  // A plain TCP connection.
  int Connect();
  std::string target() const;

  StockListenerOptions options_;
  ServiceIncarnation current_{1};  // the loop's
  FakeJob job_;
  runtime::Loop loop_;
  std::unique_ptr<StockListener> listener_;
  std::thread runner_;
  Mailbox<std::string> complaints_;
};

// The status, answer and metadata of one call, once it is over.
template <class Response>
struct PendingCall {
  grpc::ClientContext context;
  Response response;
  Mailbox<grpc::Status> done;
};

}  // namespace lockstep::net
