// A server that does what a test says, for the tests of the client: it speaks the link, opens
// sessions, and keeps every other request until the test answers it. Tests only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "asio/ip/tcp.hpp"
#include "lockstep/platform/link/connection.h"
#include "lockstep/platform/link/kinds.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {

// Threads: a loop of its own; everything public is for the test's thread.
class FakeServer {
 public:
  // What came, without hellos and pings.
  struct Came {
    int link = 0;  // the how manieth, from 1
    link::Message message;
  };

  explicit FakeServer(const std::string& listen = "127.0.0.1:0") { Listen(listen); }
  ~FakeServer() { Kill(); }

  const std::string& address() const { return address_; }

  // All that came once `count` requests of that kind have.
  std::vector<Came> WaitFor(link::RequestKind kind, size_t count = 1) {
    auto all = came.WaitUntil([=](const std::vector<Came>& seen) {
      size_t found = 0;
      for (const Came& one : seen) found += one.message.kind == kind;
      return found >= count;
    });
    std::erase_if(all, [=](const Came& one) { return one.message.kind != kind; });
    EXPECT_GE(all.size(), count) << "no request of kind " << kind << " came";
    return all;
  }
  template <class M>
  std::vector<Came> WaitFor(size_t count = 1) {
    return WaitFor(link::KindOf<M>::kKind, count);
  }
  // The last of `WaitFor`, decoded.
  template <class M>
  M Last(size_t count = 1) {
    const auto all = WaitFor<M>(count);
    if (all.empty()) return {};
    const auto message = wire::native::Decode<M>(all.back().message.payload);
    EXPECT_TRUE(message.ok()) << message.status();
    return message.value_or(M{});
  }

  template <class Reply>
  void Answer(const Came& request, const Reply& reply) {
    Send(request, link::FrameType::kAnswer, wire::native::Encode(reply));
  }
  void Fail(const Came& request, const absl::Status& status) {
    Send(request, link::FrameType::kError,
         wire::native::Encode(wire::native::ToErrorReply(status)));
  }

  // Answers OpenSession with this from now on.
  void RefuseSessions(absl::Status status) {
    thread_.Do([&] { refusal_ = std::move(status); });
  }
  // Joins are let in at once, as members of a job of that size.
  void LetIn(int32_t size) {
    thread_.Do([&] { size_ = size; });
  }

  // Leads in this epoch from now on, as it does in epoch 0 to begin with.
  void Lead(uint64_t epoch) {
    thread_.Do([&] {
      leads_ = true;
      epoch_ = epoch;
    });
  }
  // Leads no more, as far as new links are concerned: that one does.
  void StandBy(const std::string& leader) {
    thread_.Do([&] {
      leads_ = false;
      leader_ = leader;
    });
  }

  // Breaks all links, as a server that dies; goes on accepting.
  void Cut() {
    thread_.Do([this] {
      for (auto& [number, connection] : links_) connection->Abandon();
      links_.clear();
    });
  }
  // And accepts no more.
  void Kill() {
    thread_.Do([this] {
      if (acceptor_ == nullptr) return;
      acceptor_->close();
      acceptor_.reset();
      for (auto& [number, connection] : links_) connection->Abandon();
      links_.clear();
    });
  }
  // After `Kill`, on the same port.
  void Revive() { Listen(address_); }

  link::testing::Seen<Came> came;
  link::testing::Seen<int> lost;  // links that the client closed

 private:
  void Listen(const std::string& listen) {
    thread_.Do([&] {
      auto acceptor = runtime::Listen(thread_.loop().io(), *runtime::ParseAddress(listen));
      ASSERT_TRUE(acceptor.ok()) << acceptor.status();
      acceptor_ = std::make_shared<asio::ip::tcp::acceptor>(*std::move(acceptor));
      address_ = runtime::ToString(acceptor_->local_endpoint());
      Accept();
    });
  }
  void Accept() {
    acceptor_->async_accept([this, acceptor = acceptor_](const asio::error_code& error,
                                                         asio::ip::tcp::socket socket) {
      if (error || acceptor != acceptor_) return;
      const int number = ++last_link_;
      links_[number] = link::Connection::Start(
          thread_.loop().io(), std::move(socket), {},
          {.message = [this, number](link::Message message) { Take(number, std::move(message)); },
           .closed =
               [this, number](const absl::Status&) {
                 links_.erase(number);
                 lost.Add(number);
               }});
      Accept();
    });
  }
  void Take(int number, link::Message message) {
    using link::FrameType;
    using link::KindOf;
    const auto& connection = links_.at(number);
    if (message.type == FrameType::kHello && !leads_) {
      return connection->Close(
          {.type = FrameType::kRefused,
           .payload = wire::native::Encode(wire::native::Refused{
               .reason = "not_leader", .message = "it stands by", .leader = leader_})},
          absl::FailedPreconditionError("it stands by"));
    }
    if (message.type == FrameType::kHello) {
      connection->Welcomed();
      return connection->Send(
          {.type = FrameType::kWelcome,
           .payload = wire::native::Encode(wire::native::Welcome{
               .version = 1, .requests_in_flight_max = 1024, .epoch = epoch_})});
    }
    const Came request = {number, message};
    if (message.kind == KindOf<wire::native::OpenSession>::kKind) {
      if (refusal_.ok()) {
        Reply(request, FrameType::kAnswer,
              wire::native::Encode(wire::native::OpenSessionReply{.attempt = 1, .size = size_}));
      } else {
        Reply(request, FrameType::kError,
              wire::native::Encode(wire::native::ToErrorReply(refusal_)));
      }
    } else if (message.kind == KindOf<wire::native::JoinJob>::kKind && size_ > 0) {
      Reply(request, FrameType::kAnswer,
            wire::native::Encode(wire::native::JoinJobReply{
                .role = "trainer", .name = "trainer/0#1", .attempt = 1, .size = size_}));
    } else if (message.kind == KindOf<wire::native::ReportProgress>::kKind) {
      Reply(request, FrameType::kAnswer, "");
    }
    came.Add(request);
  }
  void Send(const Came& request, link::FrameType type, std::string payload) {
    thread_.Do([&] { Reply(request, type, std::move(payload)); });
  }
  void Reply(const Came& request, link::FrameType type, std::string payload) {
    const auto it = links_.find(request.link);
    if (it == links_.end()) return;
    it->second->Send({.type = type,
                      .kind = request.message.kind,
                      .id = request.message.id,
                      .payload = std::move(payload)});
  }

  std::string address_;
  std::shared_ptr<asio::ip::tcp::acceptor> acceptor_;
  std::map<int, std::shared_ptr<link::Connection>> links_;
  int last_link_ = 0;
  bool leads_ = true;
  uint64_t epoch_ = 0;
  std::string leader_;  // while it does not lead
  absl::Status refusal_;
  int32_t size_ = 0;
  link::testing::LoopThread thread_;  // ends first
};

}  // namespace lockstep::client
