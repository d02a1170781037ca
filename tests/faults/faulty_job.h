// A job whose members are processes that do what the test says. Tests only.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/faults/worker_process.h"
#include "tests/native/native_testing.h"

namespace lockstep::faults {

// Members may die without taking the others with them: what those are told of it is tested.
class FaultyJob {
 public:
  // `heartbeat_timeout`: after which one that is silent is lost.
  explicit FaultyJob(int32_t size, absl::Duration heartbeat_timeout = absl::Seconds(100))
      : server_(Options(size, heartbeat_timeout)) {
    for (int32_t i = 0; i < size; ++i) members_.push_back(std::make_unique<WorkerProcess>());
  }

  WorkerProcess& operator[](int member) { return *members_[static_cast<size_t>(member)]; }
  int size() const { return static_cast<int>(members_.size()); }
  static std::string NameOf(int member) { return absl::StrCat("trainer/", member); }

  // With step 1 open.
  void Begin(bool shared_memory, const std::string& more = "") {
    for (int i = 0; i < size(); ++i) {
      (*this)[i].Say(absl::StrCat("join ", server_.address(), " ", i));
    }
    for (int i = 0; i < size(); ++i) {
      EXPECT_TRUE((*this)[i].Hear().value_or("").starts_with("ok")) << "member " << i;
    }
    for (int i = 0; i < size(); ++i) {
      (*this)[i].Expect(absl::StrCat("open", shared_memory ? "" : " network", more));
      (*this)[i].Expect("step 1");
    }
  }
  // Another process takes a member's place, at step 1. Returns the one before.
  std::unique_ptr<WorkerProcess> Replace(int member, bool shared_memory) {
    auto left =
        std::exchange(members_[static_cast<size_t>(member)], std::make_unique<WorkerProcess>());
    WorkerProcess& comes = (*this)[member];
    comes.Expect(absl::StrCat("join ", server_.address(), " ", member));
    comes.Expect(absl::StrCat("open", shared_memory ? "" : " network"));
    comes.Expect("step 1");
    return left;
  }
  // Until the news that `to` is back has come to `from`.
  void AwaitReached(int from, int to) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    std::string sent;
    do {
      sent = (*this)[from].Ask(absl::StrCat("send 1 again ", to, " 1 64"));
    } while (!sent.starts_with("ok") && std::chrono::steady_clock::now() < until);
    EXPECT_TRUE(sent.starts_with("ok")) << from << " to " << to << ": " << sent;
    (*this)[to].Expect(absl::StrCat("recv 1 again ", from, " 1 64"));
  }
  void OpenStep(int step) {
    for (int i = 0; i < size(); ++i) (*this)[i].Say(absl::StrCat("step ", step));
    for (int i = 0; i < size(); ++i) (*this)[i].Hear();
  }

  // With the message, into the arena, and in chunks.
  static constexpr size_t kSizes[] = {100, 100'000, 3'000'005};

  // One of each size, from one to the other.
  void Transfer(int from, int to, int step = 1) {
    const int first = transferred_;
    transferred_ += static_cast<int>(std::size(kSizes));
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      const int number = first + static_cast<int>(i);
      (*this)[to].Say(absl::StrCat("recv ", step, " t ", from, " ", number, " ", kSizes[i]));
      (*this)[from].Expect(absl::StrCat("send ", step, " t ", to, " ", number, " ", kSizes[i]));
      const std::string received = (*this)[to].Hear().value_or("(it has ended)");
      EXPECT_TRUE(received.starts_with("ok")) << from << " to " << to << ": " << received;
    }
    (*this)[to].Expect("drop");
  }

  // Nothing of others' is held there any more, and no more of the system than `before`.
  void AwaitNothingHeld(int member, const std::map<std::string, int64_t>& before = {}) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      std::map<std::string, int64_t> now = (*this)[member].Stats();
      bool done = now["arena"] == 0 && now["held"] == 0 && now["lent"] == 0 && now["waits"] == 0;
      for (const char* each : {"fds", "maps"}) {
        if (before.contains(each) && now[each] > before.at(each)) done = false;
      }
      if (done) return;
      if (std::chrono::steady_clock::now() > until) {
        for (const auto& [name, number] : now) {
          ADD_FAILURE() << name << "=" << number << ", before "
                        << (before.contains(name) ? before.at(name) : 0);
        }
        return;
      }
    }
  }

 private:
  static coord::CoordinatorOptions Options(int32_t size, absl::Duration heartbeat_timeout) {
    coord::CoordinatorOptions options = JobOf(size);
    options.heartbeat_timeout = heartbeat_timeout;
    options.recoverable = true;
    options.session_grace = absl::Milliseconds(100);
    return options;
  }

  NativeServer server_;
  std::vector<std::unique_ptr<WorkerProcess>> members_;
  int transferred_ = 0;
};

}  // namespace lockstep::faults
