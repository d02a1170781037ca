#include "lockstep/stock/grpc/agent_listener.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server_builder.h"
#include "lockstep/stock/grpc/peer_name.h"
#include "lockstep/stock/wire/errors.h"

namespace lockstep::net {
namespace {

// gRPC ends a process that gives it metadata of other characters, and gives up answers whose texts
// are longer: what they say comes from a server, and is not trusted so far.
AgentAnswer Bounded(AgentAnswer answer) {
  constexpr size_t kReasonBytesMax = 64;
  constexpr size_t kDetailsBytesMax = size_t{4} << 10;
  const int code = static_cast<int>(answer.code);
  if (code < 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    answer.code = absl::StatusCode::kUnknown;
  }
  const bool is_reason = std::all_of(answer.reason.begin(), answer.reason.end(), [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) || c == '_';
  });
  if (!is_reason || answer.reason.size() > kReasonBytesMax) answer.reason.clear();
  answer.message = wire::stock::CutErrorText(std::move(answer.message));
  if (answer.details.size() > kDetailsBytesMax) answer.details.clear();
  return answer;
}

absl::Duration TimeLeft(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteDuration();
  return absl::FromChrono(deadline - std::chrono::system_clock::now());
}

std::optional<std::string> BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return std::nullopt;
  std::string bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

void AgentListener::Connections::Add(const std::string& peer) {
  const MutexLock lock(mutex_);
  numbers_[peer] = ++last_;
}

uint64_t AgentListener::Connections::Find(const std::string& peer) const {
  const MutexLock lock(mutex_);
  const auto found = numbers_.find(peer);
  return found == numbers_.end() ? 0 : found->second;
}

// One reactor a call: reads the message, hands it on, writes the answer.
class AgentListener::Service final : public grpc::CallbackGenericService {
 public:
  Service(const Connections& connections, Begin begin, size_t calls_max)
      : connections_(connections), begin_(std::move(begin)), calls_max_(calls_max) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Reactor(*this, *context);
  }

 private:
  // gRPC owns its life: it deletes itself when gRPC is done with it, which is after `Finish`.
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor(Service& service, grpc::GenericCallbackServerContext& context)
        : service_(service),
          context_(context),
          admitted_(service.calls_.fetch_add(1, std::memory_order_relaxed) < service.calls_max_) {
      if (admitted_) {
        StartRead(&request_);
      } else {
        Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                            absl::StrFormat("%d calls are already waiting at this agent "
                                            "(calls_max). Retry later.",
                                            service.calls_max_)));
      }
    }

    void OnReadDone(bool ok) override {
      std::optional<std::string> bytes;
      if (ok) bytes = BytesOf(request_);
      request_.Clear();
      if (!bytes)
        return Finish(grpc::Status(grpc::StatusCode::CANCELLED,
                                   "the call ended before its request message arrived"));
      // The answer may come, and this be gone, before `begin` returns.
      const std::shared_ptr<Leaving> leaving = leaving_;
      leaving->Set(service_.begin_({.method = context_.method(),
                                    .bytes = *std::move(bytes),
                                    .connection = service_.connections_.Find(context_.peer()),
                                    .left = TimeLeft(context_)},
                                   [this](AgentAnswer answer) { FinishWith(std::move(answer)); }));
    }
    void OnCancel() override { leaving_->Leave(); }
    void OnDone() override {
      service_.calls_.fetch_sub(1, std::memory_order_relaxed);
      delete this;
    }

   private:
    // The caller may leave while the call begins.
    class Leaving {
     public:
      void Set(std::function<void()> leave) {
        {
          const MutexLock lock(mutex_);
          if (!left_) {
            leave_ = std::move(leave);
            return;
          }
        }
        if (leave) leave();
      }
      void Leave() {
        std::function<void()> leave;
        {
          const MutexLock lock(mutex_);
          left_ = true;
          leave.swap(leave_);
        }
        if (leave) leave();
      }

     private:
      Mutex mutex_;
      bool left_ ABSL_GUARDED_BY(mutex_) = false;
      std::function<void()> leave_ ABSL_GUARDED_BY(mutex_);
    };

    void FinishWith(AgentAnswer unbounded) {
      const AgentAnswer answer = Bounded(std::move(unbounded));
      if (answer.code == absl::StatusCode::kOk) {
        const grpc::Slice slice(answer.bytes);
        response_ = grpc::ByteBuffer(&slice, 1);
        return StartWriteAndFinish(&response_, {}, grpc::Status::OK);
      }
      if (!answer.reason.empty()) {
        context_.AddTrailingMetadata(std::string(wire::stock::kReasonMetadata), answer.reason);
      }
      Finish(
          grpc::Status(static_cast<grpc::StatusCode>(answer.code), answer.message, answer.details));
    }

    Service& service_;
    grpc::GenericCallbackServerContext& context_;
    const bool admitted_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer response_;
    const std::shared_ptr<Leaving> leaving_ = std::make_shared<Leaving>();
  };

  const Connections& connections_;
  const Begin begin_;
  const size_t calls_max_;
  std::atomic<size_t> calls_{0};
};

AgentListener::AgentListener(runtime::Loop& loop, StockListenerOptions options, Begin begin,
                             runtime::Complain complain)
    : options_(std::move(options)),
      complain_(std::move(complain)),
      acceptor_(
          loop, options_.connections, [this](int fd) { TakeConnection(fd); },
          [this](std::string text) { complain_(std::move(text)); }),
      service_(std::make_unique<Service>(connections_, std::move(begin), options_.calls_max)),
      server_(options_) {}

AgentListener::~AgentListener() = default;

void AgentListener::TakeConnection(int fd) {
  const bool serves = server_.Start(
      [this](grpc::ServerBuilder& builder) {
        builder.RegisterCallbackGenericService(service_.get());
      },
      {});
  if (!serves) {
    close(fd);
    return complain_("the gRPC server failed to start; connection refused");
  }
  connections_.Add(PeerName(fd));
  server_.Take(fd);
}

}  // namespace lockstep::net
