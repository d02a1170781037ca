// The native half of a server, in this process: link, listener and coordinator of one job, without
// what needs gRPC, so that it runs under the thread sanitizer. Its journal is in memory and
// survives it. Tests only.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/coord/coordinator.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/server/native_listener.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep {

// Threads: a loop of its own; everything public is for the test's thread.
class NativeServer final : public server::NativeJob {
 public:
  explicit NativeServer(coord::CoordinatorOptions options, link::LinkOptions link = {})
      : options_(std::move(options)), link_options_(link) {
    Start("127.0.0.1:0");
  }
  ~NativeServer() override { Kill(); }

  const std::string& address() const { return address_; }

  // As kill -9 does: whatever was not answered is not answered.
  void Kill() {
    thread_.Do([this] {
      link_.reset();
      listener_.reset();
      timer_.reset();
      armed_ = Time::Infinite();
      coordinator_.reset();
    });
  }
  // On the same address, with what it knew, or without.
  void Restart(bool with_state = true) {
    Kill();
    if (!with_state) journal_.clear();
    Start(address_);
  }
  // For each link that ended: whether its client closed it.
  link::testing::Seen<bool> ended;

  // Ends all links; the clients make new ones.
  void CutLinks() {
    thread_.Do([this] {
      for (link::LinkId link : links_) {
        link_->Close(link, absl::UnavailableError("cut by the test"), "silence");
      }
    });
  }

 private:
  void Start(const std::string& listen) {
    thread_.Do([&] {
      coordinator_ = std::make_unique<coord::Coordinator>(options_);
      for (const coord::TimedRecord& record : journal_) {
        const absl::Status applied = coordinator_->Apply(record.at, record.record);
        EXPECT_TRUE(applied.ok()) << applied;
      }
      timer_ = std::make_unique<runtime::Timer>(thread_.loop());
      listener_ = std::make_unique<server::NativeListener>(
          [this](const wire::native::OpenSession& open,
                 const link::Rights&) -> absl::StatusOr<server::NativeJob*> {
            if (open.job == options_.job) return this;
            return wire::native::WithReason(absl::NotFoundError("no such job"), "unknown_job");
          },
          [this](link::LinkId link, absl::Status why) {
            link_->Close(link, std::move(why), "superseded");
          });
      if (!journal_.empty()) Handle(coord::Restored{});
      Listen(listen);
    });
  }
  void Listen(const std::string& listen) {
    link::ServerEvents events = {
        .request =
            [this](link::Request request, link::Responder responder) {
              const link::LinkId link = responder.link();
              if (std::find(links_.begin(), links_.end(), link) == links_.end()) {
                links_.push_back(link);
              }
              listener_->Take(std::move(request), std::move(responder));
            },
        .cancelled = [this](link::LinkId link, uint64_t id) { listener_->Cancelled(link, id); },
        .answered = [this](link::LinkId link, uint64_t id) { listener_->Answered(link, id); },
        .ended =
            [this](link::LinkId link, bool by_peer) {
              std::erase(links_, link);
              ended.Add(by_peer);
              listener_->Ended(link, by_peer);
            }};
    auto server = link::Server::Listen(thread_.loop(), {.listen = listen, .link = link_options_},
                                       std::move(events));
    ASSERT_TRUE(server.ok()) << server.status();
    link_ = *std::move(server);
    address_ = link_->address();
    links_.clear();
  }
  void Handle(coord::Event event) override {
    const Time now = runtime::MonotonicNow();
    coord::Effects effects = coordinator_->Handle(now, std::move(event));
    for (coord::Record& record : effects.records) journal_.push_back({now, std::move(record)});
    listener_->Answer(effects.replies);
    const Time next = coordinator_->NextDeadline();
    if (next >= armed_) return;
    armed_ = next;
    timer_->Arm(next, [this] {
      armed_ = Time::Infinite();
      Handle(coord::DeadlineReached{});
    });
  }

  const coord::CoordinatorOptions options_;
  const link::LinkOptions link_options_;
  std::string address_;
  std::vector<coord::TimedRecord> journal_;
  std::unique_ptr<coord::Coordinator> coordinator_;
  std::unique_ptr<runtime::Timer> timer_;
  Time armed_ = Time::Infinite();
  std::unique_ptr<server::NativeListener> listener_;
  std::unique_ptr<link::Server> link_;
  std::vector<link::LinkId> links_;
  link::testing::LoopThread thread_;  // ends first
};

}  // namespace lockstep
