#include "lockstep/testing/fake_http_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/preempt/http_wire.h"

namespace lockstep::testing {

const char* const FakeHttpServer::kHold = "(hold)";

std::string WireAnswer(int status, const std::string& body, const preempt::HttpHeaders& headers) {
  std::string bytes = absl::StrCat("HTTP/1.1 ", status, " Said\r\n");
  for (const auto& [name, value] : headers) absl::StrAppend(&bytes, name, ": ", value, "\r\n");
  return absl::StrCat(bytes, "Content-Length: ", body.size(), "\r\n\r\n", body);
}

namespace {

preempt::Listening ListenAnywhere() {
  auto listening = preempt::ListenAt({.host = "127.0.0.1"});
  LOCKSTEP_CHECK(listening.ok());
  return *std::move(listening);
}

preempt::Descriptor MakeInterrupt() {
  return preempt::Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

}  // namespace

FakeHttpServer::FakeHttpServer() : listening_(ListenAnywhere()), interrupt_(MakeInterrupt()) {}

FakeHttpServer::~FakeHttpServer() { Stop(); }

void FakeHttpServer::Serve(Handler handler) {
  handler_ = std::move(handler);
  acceptor_ = std::thread([this] { Accept(); });
}

void FakeHttpServer::Stop() {
  Change([this] { stopping_ = true; });
  ::eventfd_write(interrupt_.get(), 1);
  if (acceptor_.joinable()) acceptor_.join();
  for (std::thread& connection : connections_) connection.join();
  connections_.clear();
}

std::string FakeHttpServer::url() const {
  return absl::StrCat("http://127.0.0.1:", listening_.port);
}

void FakeHttpServer::Change(const std::function<void()>& change) {
  const Lock lock(mutex_);
  change();
  changed_.notify_all();
}

bool FakeHttpServer::Wait(Lock& lock, absl::Duration most, const std::function<bool()>& ready) {
  changed_.wait_for(lock, absl::ToChronoMilliseconds(most),
                    [&] { return stopping_ || fault_ || ready(); });
  return !stopping_ && !fault_ && ready();
}

void FakeHttpServer::SetFault(std::optional<std::string> bytes) {
  Change([&] { fault_ = std::move(bytes); });
}

std::vector<std::string> FakeHttpServer::requests() {
  const Lock lock(mutex_);
  return requests_;
}

void FakeHttpServer::Accept() {
  for (;;) {
    if (preempt::WaitFor(listening_.socket.get(), POLLIN, interrupt_.get(), Time::Infinite()) !=
        preempt::Waited::kReady) {
      return;
    }
    auto connection =
        std::make_shared<preempt::Descriptor>(preempt::AcceptAt(listening_.socket.get()));
    connections_.emplace_back([this, connection] { Converse(std::move(*connection)); });
  }
}

void FakeHttpServer::Converse(preempt::Descriptor connection) {
  preempt::Connection over({.interrupt = interrupt_.get()});
  over.TakeOver(std::move(connection));
  preempt::LayerStream stream(over, over.socket());
  preempt::HttpReader reader(preempt::HttpReader::Kind::kRequest, 1 << 20);
  while (!reader.done()) {
    const auto some = stream.Read();
    if (!some.ok() || some->empty() || !reader.Take(*some).ok()) return;
  }
  std::string bytes;
  {
    Lock lock(mutex_);
    requests_.push_back(absl::StrCat(reader.message().method, " ", reader.message().target));
    if (!fault_ && !stopping_) bytes = handler_(reader.message(), lock);
    if (fault_) bytes = *fault_;
    if (bytes == kHold) {
      changed_.wait(lock, [this] { return stopping_ || !fault_; });
      return;
    }
  }
  stream.Write(bytes).IgnoreError();
}

DrippingServer::DrippingServer(std::string head)
    : head_(std::move(head)), listening_(ListenAnywhere()), interrupt_(MakeInterrupt()) {
  thread_ = std::thread([this] {
    while (preempt::WaitFor(listening_.socket.get(), POLLIN, interrupt_.get(), Time::Infinite()) ==
           preempt::Waited::kReady) {
      Drip(preempt::AcceptAt(listening_.socket.get()));
    }
  });
}

DrippingServer::~DrippingServer() {
  ::eventfd_write(interrupt_.get(), 1);
  thread_.join();
}

void DrippingServer::Drip(const preempt::Descriptor& connection) const {
  for (size_t sent = 0;; ++sent) {
    const char byte = sent < head_.size() ? head_[sent] : 'x';
    if (::send(connection.get(), &byte, 1, MSG_NOSIGNAL) != 1) return;
    if (sent < head_.size()) continue;
    const Time next = runtime::MonotonicNow() + absl::Milliseconds(5);
    if (preempt::WaitFor(-1, 0, interrupt_.get(), next) == preempt::Waited::kInterrupted) return;
  }
}

}  // namespace lockstep::testing
