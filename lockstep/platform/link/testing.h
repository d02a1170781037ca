// What the tests of the link stand on: a server on a loop of its own, and a client that may say
// anything. Tests only.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "asio/buffer.hpp"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "asio/write.hpp"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/link/frame.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/link_messages.h"

namespace lockstep::link::testing {

inline constexpr absl::Duration kLong = absl::Seconds(30);

// A list that one thread fills and another waits on.
template <class T>
class Seen {
 public:
  void Add(T value) {
    const MutexLock lock(mutex_);
    values_.push_back(std::move(value));
    changed_.NotifyAll();
  }
  // The list once `done` holds for it; whatever it is after `kLong`.
  std::vector<T> WaitUntil(const std::function<bool(const std::vector<T>&)>& done) {
    const MutexLock lock(mutex_);
    const WaitLimit until = WaitLimitAfter(kLong);
    while (!done(values_) && changed_.WaitUntil(mutex_, until)) {
    }
    return values_;
  }
  std::vector<T> Now() {
    const MutexLock lock(mutex_);
    return values_;
  }
  std::vector<T> WaitForCount(size_t count) {
    return WaitUntil([=](const auto& values) { return values.size() >= count; });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<T> values_ ABSL_GUARDED_BY(mutex_);
};

// A loop with a thread.
class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.Run(); }) {}
  ~LoopThread() { Stop(); }
  runtime::Loop& loop() { return loop_; }

  // Runs `function` on the loop and waits for it.
  template <class Function>
  auto Do(Function function) {
    std::packaged_task<decltype(function())()> task(std::move(function));
    auto result = task.get_future();
    loop_.Post([&task] { task(); });
    return result.get();
  }

  // What is posted and has not run never does. The loop itself stays.
  void Stop() {
    if (!thread_.joinable()) return;
    loop_.Stop();
    thread_.join();
  }

 private:
  runtime::Loop loop_;
  std::thread thread_;
};

// A server on a port that the system chose.
class TestServer {
 public:
  explicit TestServer(Server::Handler handler, Server::Options options = {})
      : TestServer(ServerEvents{.request = std::move(handler)}, std::move(options)) {}
  explicit TestServer(ServerEvents events, Server::Options options = {}) {
    if (options.listen == Server::Options{}.listen) options.listen = "127.0.0.1:0";
    options.log = [this](std::string text) { lines.Add(std::move(text)); };
    server_ = thread_.Do([&] {
      auto server = Server::Listen(thread_.loop(), options, std::move(events));
      EXPECT_TRUE(server.ok()) << server.status();
      return *std::move(server);
    });
    address_ = server_->address();
  }
  ~TestServer() { Kill(); }

  const std::string& address() const { return address_; }
  LoopThread& thread() { return thread_; }
  Server& server() { return *server_; }

  // Destroys the server, whatever it is doing.
  void Kill() {
    thread_.Do([this] { server_.reset(); });
  }

  Seen<std::string> lines;

 private:
  LoopThread thread_;
  std::unique_ptr<Server> server_;
  std::string address_;
};

// A connection that sends what a test likes.
class RawClient {
 public:
  // `from`: an address of this host.
  explicit RawClient(const std::string& address, const std::string& from = "127.0.0.1")
      : socket_(io_) {
    const auto parsed = runtime::ParseAddress(address);
    socket_.open(asio::ip::tcp::v4());
    socket_.bind({asio::ip::make_address(from), 0});
    socket_.connect({asio::ip::make_address(parsed->host), parsed->port});
    // So that a test that waits for something that never comes fails rather than hangs.
    const timeval timeout = {.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }

  void Send(std::string_view bytes) {
    asio::error_code error;
    asio::write(socket_, asio::buffer(bytes.data(), bytes.size()), error);
  }
  void Send(const Message& message) { Send(EncodeMessage(message)); }

  template <class M>
  void Send(FrameType type, const M& message) {
    Send(Message{.type = type, .payload = wire::native::Encode(message)});
  }
  void SayHello(uint32_t version_min = kLinkVersion, uint32_t version_max = kLinkVersion) {
    Send(FrameType::kHello,
         wire::native::Hello{.version_min = version_min, .version_max = version_max, .who = "raw"});
  }

  // The next message that is not a ping; nothing once the server has closed.
  std::optional<Message> Receive() {
    while (true) {
      auto message = reader_.Next();
      EXPECT_TRUE(message.ok()) << message.status();
      if (!message.ok()) return std::nullopt;
      if (message->has_value() && (*message)->type == FrameType::kPing) continue;
      if (message->has_value()) return *std::move(message);
      std::string bytes(1 << 16, '\0');
      const ssize_t count = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), 0);
      EXPECT_TRUE(count >= 0 || errno == ECONNRESET) << "nothing came";
      if (count <= 0) return std::nullopt;
      reader_.Append(std::string_view(bytes).substr(0, static_cast<size_t>(count)));
    }
  }
  // The next message, which must be of this type.
  template <class M>
  M Expect(FrameType type) {
    const auto message = Receive();
    EXPECT_TRUE(message.has_value()) << "closed without a word";
    if (!message.has_value()) return {};
    EXPECT_EQ(static_cast<int>(message->type), static_cast<int>(type));
    const auto decoded = wire::native::Decode<M>(message->payload);
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return decoded.value_or(M{});
  }
  void ExpectClosed() { EXPECT_EQ(Receive(), std::nullopt); }

 private:
  asio::io_context io_;
  asio::ip::tcp::socket socket_;
  MessageReader reader_{{.payload_bytes_max = kFramePayloadMax,
                         .message_bytes_max = kMessageBytesMax,
                         .partial_messages_max = 64}};
};

}  // namespace lockstep::link::testing
