#include "lockstep/stock/grpc/stock_listener_testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"

namespace lockstep::net {

std::optional<CallId> CallOf(const coord::Event& event) {
  return std::visit(
      [](const auto& some) -> std::optional<CallId> {
        if constexpr (requires { some.caller.call; }) {
          return some.caller.call;
        } else if constexpr (requires { some.incarnation, some.call; }) {
          return some.call;
        } else {
          return std::nullopt;
        }
      },
      event);
}

std::vector<coord::Reply> FakeJob::Handle(const coord::Event& event) {
  if (record) seen.Put(event);
  std::vector<coord::Reply> replies;
  if (script) {
    if (auto reply = script(event)) replies.push_back(*reply);
    return replies;
  }
  if (auto* set = std::get_if<coord::SetKey>(&event)) {
    auto value = std::make_shared<const std::string>(set->value);
    values_[set->key] = value;
    replies.push_back({set->caller.call, nullptr, {}});
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->second != set->key) {
        ++it;
        continue;
      }
      replies.push_back({it->first, nullptr, coord::KeyRead{{set->key, value}}});
      it = waiting_.erase(it);
    }
  } else if (auto* get = std::get_if<coord::GetKey>(&event)) {
    if (auto it = values_.find(get->key); it != values_.end()) {
      replies.push_back({get->caller.call, nullptr, coord::KeyRead{{get->key, it->second}}});
    } else {
      waiting_[get->caller.call] = get->key;
    }
  } else if (auto* left = std::get_if<coord::CallLeft>(&event)) {
    waiting_.erase(left->call);
  }
  return replies;
}

std::vector<coord::Reply> FakeJob::Stop() {
  auto stopped = coord::MakeError(absl::StatusCode::kCancelled, coord::Reason::kServiceStopped,
                                  "the service stops");
  std::vector<coord::Reply> replies;
  for (const auto& [call, key] : waiting_) replies.push_back({call, stopped, {}});
  waiting_.clear();
  return replies;
}

void StockListenerTest::Open() {
  listener_ = std::make_unique<StockListener>(
      loop_, options_, [this](coord::Event event) { listener_->Answer(job_.Handle(event)); },
      [this] { return current_; }, [this](std::string text) { complaints_.Put(std::move(text)); });
  ASSERT_TRUE(listener_->Listen({.host = "127.0.0.1", .port = 0}).ok());
  listener_->Start();
  runner_ = std::thread([this] { loop_.Run(); });
}

void StockListenerTest::TearDown() {
  if (!listener_) return;
  OnLoop([this] {
    listener_->StopAccepting();
    listener_->Answer(job_.Stop());
  });
  listener_->Shutdown();
  OnLoop([this] { EXPECT_EQ(listener_->open_calls(), 0u); });
  loop_.Stop();
  runner_.join();
  listener_.reset();
}

void StockListenerTest::OnLoop(std::function<void()> function) {
  std::promise<void> done;
  loop_.Post([&] {
    function();
    done.set_value();
  });
  done.get_future().wait();
}

std::string StockListenerTest::target() const {
  return absl::StrCat("ipv4:127.0.0.1:", listener_->address().port());
}

std::unique_ptr<pb::CoordinationService::Stub> StockListenerTest::Client(
    grpc::ChannelArguments arguments) {
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return pb::CoordinationService::NewStub(
      grpc::CreateCustomChannel(target(), grpc::InsecureChannelCredentials(), arguments));
}

int StockListenerTest::Connect() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(listener_->address().port());
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

}  // namespace lockstep::net
