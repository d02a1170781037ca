// Both ends of bulk links in one process, and an end that lies. Tests only.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/rendezvous/transport/bulk_fetcher.h"
#include "lockstep/rendezvous/transport/bulk_server.h"
#include "lockstep/rendezvous/transport/bulk_wire.h"
#include "lockstep/rendezvous/transport/link_stream.h"
#include "lockstep/rendezvous/transport/process_memory.h"
#include "lockstep/rendezvous/transport/tcp_listener.h"
#include "lockstep/rendezvous/value.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::transport {

inline std::string Pattern(size_t bytes, int salt = 0) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>(i * 31 + i / 251 + static_cast<size_t>(salt));
  }
  return text;
}

// Of a value; tells when nobody keeps it any more.
class KeptText final : public rendezvous::Memory {
 public:
  KeptText(const std::string& text, std::function<void()> gone)
      : Memory(reinterpret_cast<const std::byte*>(text.data()), text.size()),
        gone_(std::move(gone)) {}
  ~KeptText() override {
    if (gone_) gone_();
  }

 private:
  const std::function<void()> gone_;
};

// What it says to who fetches. Blocks on a thread of its own.
class LyingServer {
 public:
  // The answer to a request, whole.
  using Answer = std::function<std::string(const wire::native::FetchChunk&)>;

  LyingServer(wire::native::PeerWelcome welcome, Answer answer)
      : welcome_(std::move(welcome)), answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::listen(listener_, 8), 0);  // wherever there is a port
    thread_ = std::thread([this] { Run(); });
  }
  ~LyingServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  std::string address() const {
    asio::ip::tcp::endpoint at;
    auto size = static_cast<socklen_t>(at.capacity());
    EXPECT_EQ(::getsockname(listener_, at.data(), &size), 0);
    return absl::StrCat("127.0.0.1:", at.port());
  }

 private:
  void Run() {
    while (true) {
      const int fd = ::accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      Serve(fd);
      ::close(fd);
    }
  }
  void Serve(int fd) {
    if (!NextMessage(fd)) return;
    buffer_.clear();
    Say(fd, WithLength(wire::native::Encode(welcome_)));
    while (const auto message = NextMessage(fd)) {
      const auto request = wire::native::Decode<wire::native::FetchChunk>(*message);
      if (request.ok() && !request->done) Say(fd, answer_(*request));
    }
    buffer_.clear();
  }
  std::optional<std::string> NextMessage(int fd) {
    while (true) {
      auto message = TakeMessage(buffer_);
      if (!message.ok()) return std::nullopt;
      if (message->has_value()) return **message;
      char bytes[4096];
      const ssize_t count = ::recv(fd, bytes, sizeof(bytes), 0);
      if (count <= 0) return std::nullopt;
      buffer_.append(bytes, static_cast<size_t>(count));
    }
  }
  static void Say(int fd, const std::string& bytes) {
    ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  const wire::native::PeerWelcome welcome_;
  const Answer answer_;
  int listener_ = -1;
  std::string buffer_;
  std::thread thread_;
};

// Member 1 fetches from member 0. Everything but a LyingServer runs on the test's thread.
class BulkEnds : public ::testing::Test {
 protected:
  void SetUp() override {
    theirs_ = MakeCard();
    theirs_.transports = {"cma", "tcp"};
    ours_ = theirs_;
    options_.retry_last = absl::Milliseconds(10);
  }
  void TearDown() override {
    if (fetcher_) fetcher_->Close();
    if (server_) server_->Close();
    if (listener_) listener_->Close();
    loop_.io().poll();
  }

  void Serve() {
    server_options_.greet = [this](std::string_view) -> absl::StatusOr<BulkServer::Guest> {
      ++greeted_;
      return BulkServer::Guest{.member = MemberIndex(1), .may_read_memory = shows_memory_};
    };
    server_options_.lent = [this](MemberIndex,
                                  rendezvous::LeaseId lease) -> std::optional<rendezvous::Value> {
      const auto found = lent_.find(lease.value());
      if (found == lent_.end()) return std::nullopt;
      return found->second;
    };
    server_ = std::make_shared<BulkServer>(loop_, server_options_);
    auto listener =
        TcpListener::Start(loop_.io(), "127.0.0.1", [this](asio::ip::tcp::socket socket) {
          asio::error_code error;
          server_->Accept(socket.release(error));
        });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    theirs_.bulk_address = listener_->address();
    MakeFetcher();
  }
  void MakeFetcher() {
    options_.names = {"trainer/0", "trainer/1"};
    options_.card = ours_;
    fetcher_ = std::make_shared<BulkFetcher>(
        loop_, options_,
        BulkFetcher::Events{
            .find_card = [this](MemberIndex,
                                const BulkFetcher::FoundCard& found) { found(theirs_); },
            .hello = [](MemberIndex, const Card&) { return std::string("hello"); },
            .done = [this](rendezvous::OpId op,
                           rendezvous::ErrorPtr error) { done_[op.value()] = std::move(error); },
            .reads_memory = [this](
                                MemberIndex,
                                std::string why_not) { why_not_.push_back(std::move(why_not)); }});
  }

  // Of lease `lease`; stays lent until it is taken out of `lent_`.
  void Lend(uint64_t lease, const std::string& text, std::function<void()> gone = nullptr) {
    lent_[lease] = {.bytes = text.size(),
                    .memory = std::make_shared<KeptText>(text, std::move(gone))};
  }
  // The operation has the number of the lease. Where it goes.
  std::string& Fetch(uint64_t lease, size_t bytes) {
    std::string& into = into_[lease];
    into.assign(bytes, '\0');
    fetcher_->Start({.op = rendezvous::OpId(lease),
                     .from = MemberIndex(0),
                     .lease = rendezvous::LeaseId(lease),
                     .to = reinterpret_cast<std::byte*>(into.data()),
                     .bytes = bytes});
    return into;
  }
  // False: not within a minute.
  bool RunUntil(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      loop_.io().run_one_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  // Null: all of it came.
  rendezvous::ErrorPtr EndOf(uint64_t lease) {
    EXPECT_TRUE(RunUntil([&] { return done_.contains(lease); })) << "no end of " << lease;
    return done_[lease];
  }

  // Calls `each` before it reads; an error number other than 0 is what comes of it.
  void WatchReads(std::function<int(uint64_t address, size_t bytes)> each) {
    options_.read_memory = [each = std::move(each)](pid_t pid, const iovec* to,
                                                    unsigned long to_count, const iovec* from,
                                                    unsigned long from_count) -> ssize_t {
      if (const int error = each(reinterpret_cast<uint64_t>(from->iov_base), from->iov_len);
          error != 0) {
        errno = error;
        return -1;
      }
      return ProcessMemory::SystemRead(pid, to, to_count, from, from_count);
    };
  }

  BulkLoop loop_;
  Card ours_, theirs_;
  BulkFetchOptions options_;
  BulkServer::Options server_options_;
  bool shows_memory_ = true;
  int greeted_ = 0;
  std::shared_ptr<BulkServer> server_;
  std::shared_ptr<TcpListener> listener_;
  std::shared_ptr<BulkFetcher> fetcher_;
  std::map<uint64_t, rendezvous::Value> lent_;
  std::map<uint64_t, std::string> into_;
  std::map<uint64_t, rendezvous::ErrorPtr> done_;
  std::vector<std::string> why_not_;  // of each time that it was said
};

}  // namespace lockstep::transport
